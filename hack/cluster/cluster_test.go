package cluster

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var found []netip.Prefix
	for _, p := range list {
		found = append(found, netip.MustParsePrefix(p))
	}
	return found
}

func TestNewKeepsClearOfWhatTheHostRoutes(t *testing.T) {
	tests := []struct {
		name        string
		taken       []netip.Prefix
		links, pods string // empty: an error
	}{
		{"nothing taken", nil, "10.231.0.0/24", "10.244.0.0/16"},
		{"a default route takes nothing", prefixes("0.0.0.0/0"), "10.231.0.0/24", "10.244.0.0/16"},
		{"another cluster runs", prefixes("10.231.0.0/24", "10.244.1.0/24"), "10.232.0.0/24", "10.245.0.0/16"},
		{"a single address is in the way", prefixes("10.231.0.7/32"), "10.232.0.0/24", "10.244.0.0/16"},
		{"all private addresses are taken", prefixes("10.0.0.0/8"), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := New("/somewhere", test.taken)
			if test.links == "" {
				if err == nil {
					t.Fatalf("New(...) = %+v, want an error", c)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Links.String() != test.links || c.Pods.String() != test.pods {
				t.Errorf("New(...) has links %s and pods %s, want %s and %s", c.Links, c.Pods, test.links, test.pods)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	c, err := New("/somewhere", nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, got, want string }{
		{"host", c.HostAddr().String(), "10.231.0.1"},
		{"control plane", c.ControlPlaneAddr().String(), "10.231.0.10"},
		{"node 2", c.NodeAddr(2).String(), "10.231.0.12"},
		{"pods of node 2", c.NodePods(2).String(), "10.244.2.0/24"},
		{"API server in the cluster", c.ServiceAddr().String(), "10.96.0.1"},
		{"cluster DNS", c.DNSAddr().String(), "10.96.0.10"},
		{"node name", NodeName(2), "squall-node2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got %s, want %s", test.got, test.want)
			}
		})
	}
	if len(c.HostLink()) > 15 {
		t.Errorf("HostLink() = %s: the kernel takes 15 bytes at most", c.HostLink())
	}
}

func TestInstancesOfTwoDirectoriesDiffer(t *testing.T) {
	a, err := New("/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New("/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name() == b.Name() || a.HostLink() == b.HostLink() {
		t.Errorf("clusters of /a and /b are both called %s, %s", a.Name(), a.HostLink())
	}
}

func TestSaveAndLoad(t *testing.T) {
	c, err := New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Programs = 3, map[string]string{"runc": "/cache/runc"}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := Load(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Links != c.Links || got.Nodes != 3 || got.Program("runc", "runc") != "/cache/runc/runc" {
		t.Errorf("Load(...) = %+v, want %+v", got, c)
	}
}

func TestLoadOfABrokenPlanNamesTheWayOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/cluster.json", []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "--wipe") {
		t.Errorf("Load(broken) = %v, want an error that names --wipe", err)
	}
}

func TestEnvIsPlainAssignments(t *testing.T) {
	c, err := New("/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	env := string(c.Env())
	for _, want := range []string{
		"KUBECONFIG=/x/kubeconfig\n",
		"TEMPORAL_ADDRESS=127.0.0.1:7233\n",
		"TEMPORAL_UI=http://127.0.0.1:8233\n",
		"SQUALL_TEMPORAL_ADDRESS_IN_CLUSTER=10.231.0.1:7233\n",
	} {
		if !strings.Contains(env, want) {
			t.Errorf("Env() has no line %q:\n%s", want, env)
		}
	}
}

func TestLockIsHeldOnce(t *testing.T) {
	path := t.TempDir() + "/lock"
	first, err := Lock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Lock(path, false); err == nil {
		second.Close()
		t.Error("a second Lock got it too")
	}
	first.Close()
	again, err := Lock(path, true)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
