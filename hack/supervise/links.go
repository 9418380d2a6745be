package supervise

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/squall-chaos/squall/hack/cgroup"
	"github.com/squall-chaos/squall/hack/cluster"
)

// bridgeMAC is fixed, because a bridge without an address of its own takes the
// lowest of its ports' and so changes it when a node goes; neighbours would
// send to the old one for half a minute.
const bridgeMAC = "02:73:71:75:61:01"

// linkControlPlane makes the bridge in the control plane's machine and the
// host's end of it.
func (s *supervisor) linkControlPlane() error {
	c, cp := s.cluster, s.running[cluster.ControlPlane].pid
	if err := removeLink(c.HostLink()); err != nil {
		return err
	}
	err := ip(0,
		fmt.Sprintf("link add %s type veth peer name host netns %d", c.HostLink(), cp),
		fmt.Sprintf("addr add %s/24 dev %s", c.HostAddr(), c.HostLink()),
		fmt.Sprintf("link set %s up", c.HostLink()))
	if err != nil {
		return err
	}
	return ip(cp,
		"link set lo up",
		"link add br0 address "+bridgeMAC+" type bridge",
		"link set host master br0 up",
		fmt.Sprintf("addr add %s/24 dev br0", c.ControlPlaneAddr()),
		"link set br0 up")
}

// linkNode connects node n to the bridge. Its link never is in the host's
// network namespace.
func (s *supervisor) linkNode(n int) error {
	c, role := s.cluster, cluster.NodeRole(n)
	cp, node := s.running[cluster.ControlPlane].pid, s.running[role].pid
	_ = ip(cp, "link del "+role) // of a dead machine, if the kernel has not got to it yet
	err := ip(cp,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", role, node),
		fmt.Sprintf("link set %s master br0 up", role))
	if err != nil {
		return err
	}
	return ip(node,
		"link set lo up",
		fmt.Sprintf("addr add %s/24 dev eth0", c.NodeAddr(n)),
		"link set eth0 up",
		fmt.Sprintf("route add default via %s", c.HostAddr()))
}

// Cut takes a node off the network of the cluster, like a pulled cable; its
// processes keep running. A node that is started again is on the network.
func Cut(c *cluster.Cluster, role string) error {
	return port(c, fmt.Sprintf("link set %s nomaster", role))
}

// Rejoin puts a node that was cut off back on the network.
func Rejoin(c *cluster.Cluster, role string) error {
	return port(c, fmt.Sprintf("link set %s master br0", role))
}

// port runs a command of iproute2 where the bridge is.
func port(c *cluster.Cluster, command string) error {
	cp := cgroup.Init(c.Cgroup(cluster.ControlPlane))
	if cp == 0 {
		return errors.New("the control plane is down")
	}
	return ip(cp, command)
}

// routeAll sets the routes to pods and services on every machine and the host. It
// may be called again when a machine was replaced.
func (s *supervisor) routeAll() error {
	c := s.cluster
	var toPods []string
	for n := 1; n <= c.Nodes; n++ {
		toPods = append(toPods, fmt.Sprintf("route replace %s via %s", c.NodePods(n), c.NodeAddr(n)))
	}
	toServices := fmt.Sprintf("%s via %s", c.Services, c.NodeAddr(1))
	for n := 1; n <= c.Nodes; n++ {
		if c.IsVirtual(n) {
			continue // it makes its own
		}
		var others []string
		for m, route := range toPods {
			if m+1 != n {
				others = append(others, route)
			}
		}
		if err := ip(s.running[cluster.NodeRole(n)].pid, others...); err != nil {
			return err
		}
	}
	if err := ip(s.running[cluster.ControlPlane].pid, append(toPods, "route replace "+toServices)...); err != nil {
		return err
	}
	// Another cluster of this host may have the services' route: it is a
	// convenience of the first one only.
	_ = ip(0, "route add "+toServices)
	return ip(0, toPods...)
}

// removeLink deletes a device of the host and waits until it is gone, because
// the kernel may be about to remove it by itself.
func removeLink(name string) error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := net.InterfaceByName(name); err != nil {
			return nil
		}
		err := ip(0, "link del "+name)
		if err != nil && time.Now().After(deadline) {
			return err
		}
	}
}

// ip runs commands of iproute2 in the network namespace of a process, or in the
// caller's if that is 0.
func ip(pid int, commands ...string) error {
	args := []string{"ip", "-batch", "-"}
	if pid != 0 {
		args = append([]string{"nsenter", "--net", "--target", strconv.Itoa(pid)}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

// Routed lists the address ranges that the host routes or owns, but for the
// default route.
func Routed() ([]netip.Prefix, error) {
	out, err := exec.Command("ip", "-4", "route", "show", "table", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("list the routes of the host: %w", err)
	}
	return routed(string(out)), nil
}

func routed(routes string) []netip.Prefix {
	var found []netip.Prefix
	for line := range strings.Lines(routes) {
		for _, field := range strings.Fields(line) {
			// The first field, or the second after a type such as "local".
			if p, err := prefix(field); err == nil {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

func prefix(field string) (netip.Prefix, error) {
	if strings.Contains(field, "/") {
		return netip.ParsePrefix(field)
	}
	a, err := netip.ParseAddr(field)
	if err != nil || !a.Is4() {
		return netip.Prefix{}, errors.New("not an IPv4 address")
	}
	return netip.PrefixFrom(a, 32), nil
}
