package machine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
		{"/etc/squall/containerd.toml", `config_path = "/etc/squall/registries"`},
		{"/etc/squall/registries/10.231.0.1:5000/hosts.toml", `server = "http://10.231.0.1:5000"`},
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

func TestAVirtualNodeWritesToItsDiskAlone(t *testing.T) {
	c := testCluster(t)
	c.Nodes, c.Virtual = 3, 3
	spec := VirtualNode(c, 3)
	for _, b := range spec.Binds {
		if !b.ReadOnly && !strings.HasPrefix(b.Source, diskDir+"/") || b.ReadOnly && !strings.HasPrefix(b.Source, hostDir) {
			t.Errorf("%s is %s, read only %t: want it on the disk, or the host's and read only", b.Target, b.Source, b.ReadOnly)
		}
	}
	if len(spec.Shields) > 0 {
		t.Errorf("the settings %v of a kernel of its own are hidden", spec.Shields)
	}
	links := strings.Join(spec.Guest.Links, "; ")
	for _, want := range []string{"addr add 10.231.0.13/24 dev eth0", "10.244.1.0/24 via 10.231.0.11", "10.244.9.0/24 via 10.231.0.19"} {
		if !strings.Contains(links, want) {
			t.Errorf("links lack %q: %s", want, links)
		}
	}
	if strings.Contains(links, "10.244.3.0/24") {
		t.Errorf("its own pods have a route to another node: %s", links)
	}
	for n, want := range map[int]bool{2: false, 3: true} {
		if got := strings.Contains(kubeletConfig(c, n), "squall.local/virtual"); got != want {
			t.Errorf("node %d is tainted: %t, want %t", n, got, want)
		}
	}
}

// TestAsk sends requests to a virtual machine through files and reads both
// answers.
func TestAsk(t *testing.T) {
	for _, c := range []struct{ end, wantErr string }{{loaded, ""}, {refused, "refused"}} {
		logs := t.TempDir()
		answered := make(chan error, 1)
		go func() { answered <- Ask(t.Context(), logs, "/images/a.tar") }()
		request := filepath.Join(logs, "a.tar")
		for os.Rename(request+asked, request+c.end) != nil {
			time.Sleep(time.Millisecond)
		}
		if err := <-answered; (err != nil) != (c.wantErr != "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("Ask, answered %s = %v, want %q", c.end, err, c.wantErr)
		}
		if left, _ := os.ReadDir(logs); len(left) > 0 {
			t.Errorf("%s: %v are left", c.end, left)
		}
	}
}
