package machine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/hack/cluster"
)

func testCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New("/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Programs = map[string]string{"kubernetes": "/cache/k", "containerd": "/cache/c", "runc": "/cache/r", "cni": "/cache/n",
		"images": "/cache/i", "coredns": "/cache/d"}
	return c
}

func TestArguments(t *testing.T) {
	c := testCluster(t)
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"API server", apiserverArgs(c), []string{"--advertise-address=10.231.0.10", "--service-cluster-ip-range=10.96.0.0/16",
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"}},
		{"controller manager", controllerManagerArgs(), []string{"--node-monitor-grace-period=20s", "--leader-elect=false"}},
		{"kubelet of node 2", kubeletArgs(c, 2), []string{"--hostname-override=squall-node2", "--node-ip=10.231.0.12"}},
		{"kube-proxy of node 2", kubeProxyArgs(c, 2), []string{"--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, want := range test.want {
				if !slices.Contains(test.args, want) {
					t.Errorf("arguments lack %s: %v", want, test.args)
				}
			}
		})
	}
}

func TestNodeConfigs(t *testing.T) {
	spec := Node(testCluster(t), 2, "overlayfs")
	files := map[string]string{}
	for _, f := range spec.Files {
		files[f.Path] = f.Content
	}
	tests := []struct{ path, want string }{
		{"/etc/squall/kubelet.json", `"nodeStatusUpdateFrequency": "5s"`},
		{"/etc/squall/kubelet.json", `"failCgroupV1": false`},
		{"/etc/cni/net.d/10-squall.conflist", `"subnet": "10.244.2.0/24"`},
		{"/etc/squall/containerd.toml", `restrict_oom_score_adj = true`},
		{"/etc/squall/containerd.toml", `snapshotter = "overlayfs"`},
		{"/etc/squall/containerd.toml", `BinaryName = "/opt/squall/runc/runc"`},
	}
	for _, test := range tests {
		if !strings.Contains(files[test.path], test.want) {
			t.Errorf("%s lacks %s:\n%s", test.path, test.want, files[test.path])
		}
	}
	for path, content := range files {
		if strings.HasSuffix(path, "toml") {
			continue
		}
		if !json.Valid([]byte(content)) {
			t.Errorf("%s is not JSON:\n%s", path, content)
		}
	}
}

func TestDaemonsWaitForWhatThereIs(t *testing.T) {
	c := testCluster(t)
	for _, spec := range []Spec{ControlPlane(c), Node(c, 1, "overlayfs")} {
		once := map[string]bool{}
		for _, d := range spec.Daemons {
			once[d.Name] = d.Once
		}
		for _, d := range spec.Daemons {
			for _, need := range d.WaitFor {
				kind, what, _ := strings.Cut(need, " ")
				if kind == "done" && !once[what] || !slices.Contains([]string{"done", "tcp", "unix", "https"}, kind) {
					t.Errorf("%s of %s waits for %q, which never comes", d.Name, spec.Name, need)
				}
			}
		}
	}
}

func TestNodesSeeNoCredentialsOfOthers(t *testing.T) {
	for _, b := range Node(testCluster(t), 1, "overlayfs").Binds {
		if strings.HasPrefix(b.Source, "/state/pki") && b.Source != "/state/pki/node1" {
			t.Errorf("node 1 sees %s", b.Source)
		}
	}
}
