package machine

import (
	"fmt"

	"github.com/squall-chaos/squall/hack/cluster"
)

const etcdAddress = "127.0.0.1:2379"

// ControlPlane describes the machine with etcd, API server, controller manager
// and scheduler.
func ControlPlane(c *cluster.Cluster) Spec {
	s := base(c, cluster.ControlPlane, "squall-cp")
	s.Binds = append(s.Binds, Bind{Source: c.Path("machines", s.Name, "etcd"), Target: "/var/lib/etcd"})
	ready := fmt.Sprintf("https %s/readyz", c.URL())
	s.Daemons = []Daemon{
		{Name: "etcd", Args: etcdArgs()},
		{Name: "kube-apiserver", Args: apiserverArgs(c), WaitFor: []string{"tcp " + etcdAddress}},
		{Name: "kube-controller-manager", Args: controllerManagerArgs(), WaitFor: []string{ready}},
		{Name: "kube-scheduler", Args: schedulerArgs(), WaitFor: []string{ready}},
	}
	return s
}

func etcdArgs() []string {
	return []string{program("kubernetes", "etcd"),
		"--name=squall",
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=http://" + etcdAddress,
		"--advertise-client-urls=http://" + etcdAddress,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=squall=http://127.0.0.1:2380",
		"--unsafe-no-fsync", // what the kernel has survives every kill; only a dead host loses it
		"--quota-backend-bytes=4294967296",
		"--log-level=warn",
	}
}

func apiserverArgs(c *cluster.Cluster) []string {
	return []string{program("kubernetes", "kube-apiserver"),
		"--etcd-servers=http://" + etcdAddress,
		fmt.Sprintf("--secure-port=%d", cluster.APIPort),
		"--advertise-address=" + c.ControlPlaneAddr().String(),
		"--service-cluster-ip-range=" + c.Services.String(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--client-ca-file=" + pkiDir + "/ca.crt",
		"--tls-cert-file=" + pkiDir + "/apiserver.crt",
		"--tls-private-key-file=" + pkiDir + "/apiserver.key",
		"--kubelet-certificate-authority=" + pkiDir + "/ca.crt",
		"--kubelet-client-certificate=" + pkiDir + "/kubelet-client.crt",
		"--kubelet-client-key=" + pkiDir + "/kubelet-client.key",
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pkiDir + "/sa.key",
		"--service-account-signing-key-file=" + pkiDir + "/sa.key",
		"--max-requests-inflight=800",
		"--max-mutating-requests-inflight=400",
	}
}

func controllerManagerArgs() []string {
	kubeconfig := pkiDir + "/controller-manager.kubeconfig"
	return []string{program("kubernetes", "kube-controller-manager"),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--root-ca-file=" + pkiDir + "/ca.crt",
		"--service-account-private-key-file=" + pkiDir + "/sa.key",
		"--use-service-account-credentials",
		"--leader-elect=false",
		"--allocate-node-cidrs=false",
		"--node-monitor-period=2s",
		"--node-monitor-grace-period=20s", // a dead node shows in 20 s, not in 50
		"--kube-api-qps=300",
		"--kube-api-burst=600",
	}
}

func schedulerArgs() []string {
	kubeconfig := pkiDir + "/scheduler.kubeconfig"
	return []string{program("kubernetes", "kube-scheduler"),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--kube-api-qps=300",
		"--kube-api-burst=600",
	}
}

// base is what every machine has.
func base(c *cluster.Cluster, role, host string) Spec {
	s := Spec{
		Name:   role,
		Host:   host,
		Cgroup: c.Cgroup(role),
		Root:   c.Path("machines", role, "root"),
		Logs:   c.Path("log", role),
		Binds:  []Bind{{Source: c.Path("pki", role), Target: pkiDir, ReadOnly: true}},
	}
	for _, tool := range []string{"kubernetes", "containerd", "runc", "cni", "images", "coredns"} {
		s.Binds = append(s.Binds, Bind{Source: c.Programs[tool], Target: program(tool, ""), ReadOnly: true})
	}
	return s
}
