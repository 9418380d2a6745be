// Package cluster decides the names, addresses, ports and file paths of one
// development cluster. Other packages create them.
package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// MaxNodes is how many nodes fit into the addresses and certificates.
const MaxNodes = 9

// ControlPlane is the name of the machine with etcd and the API server.
const ControlPlane = "cp"

// APIPort is where the API server listens on its own machine.
const APIPort = 6443

// registryPort is that of a registry on the host, which nothing here starts.
const registryPort = 5000

// Cluster is one development cluster. It is saved in its directory, so that a
// later start has the same names and addresses.
type Cluster struct {
	Dir          string            `json:"-"` // absolute, where everything lies
	Instance     string            // six hexadecimal digits of the directory's hash
	Nodes        int               // 1 to MaxNodes
	Virtual      int               // the first node that is a virtual machine, as all above it are; 0: none is
	Kernel       string            // directory of the unpacked package with the kernel of virtual machines
	Links        netip.Prefix      // /24 of the machines and of the host's end of the link
	Pods         netip.Prefix      // /16; node N has the /24 with N in its third byte
	Services     netip.Prefix      // cluster IPs
	APIPort      int               // on the host's 127.0.0.1
	TemporalPort int               // on the host's 127.0.0.1 and on HostAddr
	UIPort       int               // likewise
	Programs     map[string]string // tool, such as "kubernetes" → directory of its programs
}

// Name is what the cgroups of the cluster start with.
func (c *Cluster) Name() string { return "squall-" + c.Instance + "-" }

// Cgroup is the control group of a machine, of "temporal" or of "supervisor".
func (c *Cluster) Cgroup(role string) string { return c.Name() + role }

// HostLink is the host's only network device of the cluster.
func (c *Cluster) HostLink() string { return "sq-" + c.Instance }

// HostAddr is the host's end of the link: pods reach services of the host here.
func (c *Cluster) HostAddr() netip.Addr { return at(c.Links, 3, 1) }

// ControlPlaneAddr is where the API server is reached from host and nodes.
func (c *Cluster) ControlPlaneAddr() netip.Addr { return at(c.Links, 3, 10) }

// NodeAddr is the address of node n, counted from 1.
func (c *Cluster) NodeAddr(n int) netip.Addr { return at(c.Links, 3, byte(10+n)) }

// NodePods is the range of pod addresses of node n, counted from 1.
func (c *Cluster) NodePods(n int) netip.Prefix { return netip.PrefixFrom(at(c.Pods, 2, byte(n)), 24) }

// ServiceAddr is the cluster IP of the API server.
func (c *Cluster) ServiceAddr() netip.Addr { return at(c.Services, 3, 1) }

// DNSAddr is the cluster IP of cluster DNS.
func (c *Cluster) DNSAddr() netip.Addr { return at(c.Services, 3, 10) }

// IsVirtual reports whether node n is a virtual machine.
func (c *Cluster) IsVirtual(n int) bool { return c.Virtual > 0 && n >= c.Virtual }

// Guest is the program that virtual machines start with.
func (c *Cluster) Guest() string { return c.Path("bin", "guest") }

// NodeRole is the machine's name of node n, counted from 1.
func NodeRole(n int) string { return fmt.Sprintf("node%d", n) }

// NodeName is the Kubernetes name of node n, counted from 1.
func NodeName(n int) string { return "squall-" + NodeRole(n) }

// Path names a file in the cluster's directory.
func (c *Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

// Program names a built program.
func (c *Cluster) Program(tool, name string) string { return filepath.Join(c.Programs[tool], name) }

// at is the first address of a range with one of its four bytes replaced.
func at(p netip.Prefix, index int, value byte) netip.Addr {
	bytes := p.Masked().Addr().As4()
	bytes[index] = value
	return netip.AddrFrom4(bytes)
}

// New plans a cluster for a directory. taken are the ranges that the host
// routes already; the plan keeps clear of them.
func New(dir string, taken []netip.Prefix) (*Cluster, error) {
	links, err := free(taken, "10.%d.0.0/24", 231, 254)
	if err != nil {
		return nil, err
	}
	pods, err := free(taken, "10.%d.0.0/16", 244, 254)
	if err != nil {
		return nil, err
	}
	if pods.Overlaps(links) { // only if nearly everything is taken
		return nil, fmt.Errorf("no address range is free for pods beside %s; remove routes to 10.244.0.0/16", links)
	}
	sum := sha256.Sum256([]byte(dir))
	return &Cluster{
		Dir:          dir,
		Instance:     hex.EncodeToString(sum[:3]),
		Nodes:        1,
		Links:        links,
		Pods:         pods,
		Services:     netip.MustParsePrefix("10.96.0.0/16"),
		APIPort:      6443,
		TemporalPort: 7233,
		UIPort:       8233,
	}, nil
}

// free is the first range of a pattern with a number of from to last that
// overlaps none of those taken.
func free(taken []netip.Prefix, pattern string, from, last int) (netip.Prefix, error) {
	for n := from; n <= last; n++ {
		candidate := netip.MustParsePrefix(fmt.Sprintf(pattern, n))
		if Overlapping(taken, candidate) == (netip.Prefix{}) {
			return candidate, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("every range "+pattern+" to "+pattern+" is taken; see ip route", from, last)
}

// Overlapping returns the first of the ranges that shares addresses with
// wanted, or the zero prefix.
func Overlapping(taken []netip.Prefix, wanted netip.Prefix) netip.Prefix {
	for _, t := range taken {
		if t.Bits() > 0 && t.Overlaps(wanted) {
			return t
		}
	}
	return netip.Prefix{}
}

// Load reads the plan that a directory holds; os.ErrNotExist if it has none.
func Load(dir string) (*Cluster, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's plan: %w", err)
	}
	c := &Cluster{Dir: dir}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("read the cluster's plan %s/cluster.json: %w; devcluster down --wipe starts afresh", dir, err)
	}
	return c, nil
}

// Save writes the plan.
func (c *Cluster) Save() error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write the cluster's plan: %w", err)
	}
	return WriteFile(c.Path("cluster.json"), append(data, '\n'), 0o644)
}

// WriteFile replaces a file as a whole: a reader sees the old content or the
// new, also after a kill. It makes the directories above it.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	half := path + ".new"
	if err := os.WriteFile(half, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(half, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
