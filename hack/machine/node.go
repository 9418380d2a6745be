package machine

import (
	"encoding/json"
	"fmt"

	"github.com/squall-chaos/squall/hack/cluster"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	registriesDir    = confDir + "/registries"
)

// imported are the images that every node has from the start: the tool that
// makes each, and the archive's name without ".tar".
var imported = []struct{ tool, name string }{{"images", "pause"}, {"images", "target"}, {"coredns", "coredns"}}

// Node describes worker machine n, counted from 1. snapshotter is containerd's:
// "overlayfs", or "native" where the state lies on an overlay itself.
func Node(c *cluster.Cluster, n int, snapshotter string) Spec {
	s := base(c, cluster.NodeRole(n), cluster.NodeName(n))
	s.Binds = append(s.Binds,
		Bind{Source: c.Path("machines", s.Name, "containerd"), Target: "/var/lib/containerd"},
		Bind{Source: c.Path("machines", s.Name, "kubelet"), Target: "/var/lib/kubelet"},
		Bind{Source: c.Path("machines", s.Name, "pod-logs"), Target: "/var/log/pods"},
		// Journals outlive a crash of the node, as on a disk.
		Bind{Source: c.Path("machines", s.Name, "squall"), Target: "/var/lib/squall"},
	)
	s.Files = []File{
		{confDir + "/containerd.toml", containerdConfig(snapshotter)},
		{registriesDir + "/" + c.Registry() + "/hosts.toml", registryConfig(c)},
		{confDir + "/kubelet.json", kubeletConfig(c, n)},
		{"/etc/cni/net.d/10-squall.conflist", cniConfig(c, n)},
	}
	s.Sysctls = []Sysctl{
		{"net/ipv4/ip_forward", "1"},
		{"net/bridge/bridge-nf-call-iptables", "1"},
	}
	// The kubelet would set these for the whole computer.
	s.Shields = []Sysctl{
		{"vm/overcommit_memory", "1"},
		{"vm/panic_on_oom", "0"},
		{"kernel/panic", "10"},
		{"kernel/panic_on_oops", "1"},
		{"kernel/keys/root_maxkeys", "1000000"},
		{"kernel/keys/root_maxbytes", "25000000"},
	}
	s.Daemons = nodeDaemons(c, n)
	return s
}

// nodeDaemons starts containerd and the imports at once and the rest when the
// API server answers, which takes longer.
func nodeDaemons(c *cluster.Cluster, n int) []Daemon {
	ready := fmt.Sprintf("https %s/readyz", c.URL())
	daemons := []Daemon{{Name: "containerd", Args: []string{
		program("containerd", "containerd"), "--config", confDir + "/containerd.toml"}}}
	kubeletNeeds := []string{ready}
	for _, image := range imported {
		name := "import-" + image.name
		daemons = append(daemons, Daemon{
			Name:    name,
			Once:    true,
			Args:    ImportCommand(program(image.tool, image.name+".tar")),
			WaitFor: []string{"unix " + containerdSocket},
		})
		kubeletNeeds = append(kubeletNeeds, "done "+name)
	}
	return append(daemons,
		Daemon{Name: "kubelet", Args: kubeletArgs(c, n), WaitFor: kubeletNeeds},
		Daemon{Name: "kube-proxy", Args: kubeProxyArgs(c, n), WaitFor: []string{ready}},
	)
}

// ImportCommand loads an image archive, or standard input if that is "-", when
// it is run inside a node.
func ImportCommand(archive string) []string {
	return []string{program("containerd", "ctr"), "--address", containerdSocket, "--namespace", "k8s.io", "images", "import", archive}
}

func kubeletArgs(c *cluster.Cluster, n int) []string {
	return []string{program("kubernetes", "kubelet"),
		"--config=" + confDir + "/kubelet.json",
		"--kubeconfig=" + pkiDir + "/kubelet.kubeconfig",
		"--hostname-override=" + cluster.NodeName(n),
		"--node-ip=" + c.NodeAddr(n).String(),
		"--root-dir=/var/lib/kubelet",
	}
}

func kubeProxyArgs(c *cluster.Cluster, n int) []string {
	return []string{program("kubernetes", "kube-proxy"),
		"--kubeconfig=" + pkiDir + "/kube-proxy.kubeconfig",
		"--hostname-override=" + cluster.NodeName(n),
		"--proxy-mode=iptables",
		"--cluster-cidr=" + c.Pods.String(),
		"--conntrack-max-per-core=0", // these three leave the host's sysctls alone
		"--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0",
	}
}

// kubeletConfig is a KubeletConfiguration. Image collection is off because an
// image that was imported cannot be pulled again; the eviction thresholds are
// absolute because a share of a large disk is reached while there is room. On a
// virtual machine, which is slow, only that is scheduled which is meant for it.
func kubeletConfig(c *cluster.Cluster, n int) string {
	taints := []map[string]string{}
	if c.IsVirtual(n) {
		taints = append(taints, map[string]string{"key": "squall.local/virtual", "effect": "NoSchedule"})
	}
	return render(map[string]any{
		"apiVersion":     "kubelet.config.k8s.io/v1beta1",
		"kind":           "KubeletConfiguration",
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "x509": map[string]any{"clientCAFile": pkiDir + "/ca.crt"}, "webhook": map[string]any{"enabled": true}},
		"authorization":  map[string]any{"mode": "Webhook"},

		"tlsCertFile":              pkiDir + "/kubelet.crt",
		"tlsPrivateKeyFile":        pkiDir + "/kubelet.key",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"enforceNodeAllocatable":   []string{"pods"},
		"clusterDNS":               []string{c.DNSAddr().String()},
		"clusterDomain":            "cluster.local",
		"resolvConf":               "",
		"maxPods":                  220,
		"registerWithTaints":       taints,
		"volumePluginDir":          "/var/lib/kubelet/volume-plugins",

		// A container that is killed over and over comes back as soon as the first time.
		"featureGates":     map[string]bool{"KubeletCrashLoopBackOffMax": true},
		"crashLoopBackOff": map[string]string{"maxContainerRestartPeriod": "2s"},

		"nodeStatusUpdateFrequency": "5s",
		"nodeLeaseDurationSeconds":  20,
		"serializeImagePulls":       false,
		"kubeAPIQPS":                200,
		"kubeAPIBurst":              400,
		"eventRecordQPS":            0,

		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard":                map[string]string{"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
	})
}

// cniConfig connects pods to a bridge. Nothing is masqueraded: host, machines
// and pods see each other's real addresses. The allocations lie on a tmpfs,
// because they end with the machine's namespaces.
func cniConfig(c *cluster.Cluster, n int) string {
	return render(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "squall",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
				"ipam": map[string]any{
					"type":    "host-local",
					"ranges":  [][]map[string]string{{{"subnet": c.NodePods(n).String()}}},
					"routes":  []map[string]string{{"dst": "0.0.0.0/0"}},
					"dataDir": "/run/cni/networks",
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}, "snat": true},
		},
	})
}

func render(value any) string {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // maps of plain values always marshal
	}
	return string(data) + "\n"
}

// containerdConfig raises oom scores to its own instead of lowering them,
// because a host without CAP_SYS_RESOURCE cannot lower them and every pod would
// fail.
func containerdConfig(snapshotter string) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
address = %q

[plugins.'io.containerd.cri.v1.images']
snapshotter = %q

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = %q

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "squall.local/pause:dev"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%q]
conf_dir = "/etc/cni/net.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = %q
SystemdCgroup = false
`, containerdSocket, snapshotter, registriesDir, program("cni", ""), program("runc", "runc"))
}

// registryConfig lets nodes pull without TLS from a registry on the host.
// containerd requires TLS of every registry that is not on the node itself.
func registryConfig(c *cluster.Cluster) string {
	url := "http://" + c.Registry()
	return fmt.Sprintf("server = %q\n[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\n", url, url)
}
