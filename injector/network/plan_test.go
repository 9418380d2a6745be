package network

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var comparePrefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

type (
	host  = v1beta1.NetworkHost
	hosts = []v1beta1.NetworkHost
)

func TestPlan(t *testing.T) {
	address := netip.MustParseAddr
	out := func(remote string, port int, protocol Protocol, drop Percent) Rule {
		r := Rule{Direction: Egress, Port: uint16(port), Protocol: protocol, Drop: drop}
		if remote != "" {
			r.Remote = prefix(remote)
		}
		return r
	}
	in := func(remote string, port int, protocol Protocol, drop Percent) Rule {
		r := out(remote, port, protocol, drop)
		r.Direction = Ingress
		return r
	}
	answerTo := func(r Rule) Rule {
		r.SourcePort, r.Port = r.Port, 0
		r.Direction = map[Direction]Direction{Egress: Ingress, Ingress: Egress}[r.Direction]
		return r
	}
	both := func(rules ...Rule) []Rule {
		var all []Rule
		for _, r := range rules {
			all = append(all, r, answerTo(r))
		}
		return all
	}
	join := func(parts ...[]Rule) (all []Rule) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	pod := Site{Level: v1beta1.LevelPod}
	guarded := Site{Level: v1beta1.LevelPod,
		Gateways: []netip.Addr{address("10.0.0.1"), address("fe80::1%eth0")},
		NodeIPs:  []netip.Addr{address("192.168.0.4"), address("10.0.0.1")}}
	guards := both(out("10.0.0.1/32", 0, Any, Pass), out("192.168.0.4/32", 0, Any, Pass), out("fe80::1/128", 0, Any, Pass))
	node := Site{Level: v1beta1.LevelNode, Gateways: guarded.Gateways, NodeIPs: guarded.NodeIPs}
	nodeGuards := both(in("", 22, TCP, Pass), out("169.254.169.254/32", 0, Any, Pass))

	for name, test := range map[string]struct {
		params v1beta1.NetworkDisruption
		site   Site
		want   []Rule
	}{
		"no hosts: everything that goes out": {
			v1beta1.NetworkDisruption{Drop: 30}, pod, []Rule{out("", 0, Any, 30)},
		},
		"an address, a network and a name": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "1.2.3.4", Port: 80, Protocol: "tcp"}, {Host: "10.1.2.3/8"}, {Host: "db", Protocol: "UDP"}, {Host: "2001:db8::1"}}},
			Site{Level: v1beta1.LevelPod, Resolved: map[string][]netip.Addr{"db": {address("9.9.9.9"), address("::1"), address("9.9.9.9")}}},
			[]Rule{out("1.2.3.4/32", 80, TCP, 30), out("10.0.0.0/8", 0, Any, 30), out("9.9.9.9/32", 0, UDP, 30), out("::1/128", 0, UDP, 30), out("2001:db8::1/128", 0, Any, 30)},
		},
		"IPv4 in the clothes of IPv6": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "::ffff:1.2.3.4"}, {Host: "::ffff:10.0.0.0/104"}}}, pod,
			[]Rule{out("1.2.3.4/32", 0, Any, 30), out("10.0.0.0/8", 0, Any, 30)},
		},
		"ingress": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "1.2.3.4", Port: 80, Flow: "ingress"}}}, pod,
			[]Rule{in("1.2.3.4/32", 80, Any, 30)},
		},
		"allowed hosts win, with the answers to them": {
			v1beta1.NetworkDisruption{Drop: 30, AllowedHosts: hosts{{Host: "1.2.3.4", Port: 443, Protocol: "tcp"}, {Port: 8080, Flow: "ingress"}}}, pod,
			join(both(out("1.2.3.4/32", 443, TCP, Pass), in("", 8080, Any, Pass)), []Rule{out("", 0, Any, 30)}),
		},
		"the operator's allowed hosts come after the user's": {
			v1beta1.NetworkDisruption{Drop: 30, AllowedHosts: hosts{{Host: "1.1.1.1"}}},
			Site{Level: v1beta1.LevelPod, AllowedHosts: hosts{{Host: "2.2.2.2"}}},
			join(both(out("1.1.1.1/32", 0, Any, Pass), out("2.2.2.2/32", 0, Any, Pass)), []Rule{out("", 0, Any, 30)}),
		},
		"the operator's allowed hosts are switched off": {
			v1beta1.NetworkDisruption{Drop: 30, DisableDefaultAllowedHosts: true},
			Site{Level: v1beta1.LevelPod, AllowedHosts: hosts{{Host: "2.2.2.2"}}},
			[]Rule{out("", 0, Any, 30)},
		},
		"pod: gateways and node pass before the rest": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{}, {Host: "10.0.0.0/8"}}}, guarded,
			join(guards, []Rule{out("", 0, Any, 30), out("10.0.0.0/8", 0, Any, 30)}),
		},
		"pod: a gateway named exactly comes before its safeguard": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "10.0.0.0/8"}, {Host: "10.0.0.1", Port: 53}}}, guarded,
			join([]Rule{out("10.0.0.1/32", 53, Any, 30)}, guards, []Rule{out("10.0.0.0/8", 0, Any, 30)}),
		},
		"pod: a name that is the node is the node": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "node-1"}}},
			Site{Level: v1beta1.LevelPod, NodeIPs: []netip.Addr{address("192.168.0.4")}, Resolved: map[string][]netip.Addr{"node-1": {address("192.168.0.4")}}},
			join([]Rule{out("192.168.0.4/32", 0, Any, 30)}, both(out("192.168.0.4/32", 0, Any, Pass))),
		},
		"pod: allowed wins even over what is named exactly": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "192.168.0.4"}}, AllowedHosts: hosts{{Host: "192.168.0.4"}}},
			Site{Level: v1beta1.LevelPod, NodeIPs: []netip.Addr{address("192.168.0.4")}},
			join(both(out("192.168.0.4/32", 0, Any, Pass)), []Rule{out("192.168.0.4/32", 0, Any, 30)}, both(out("192.168.0.4/32", 0, Any, Pass))),
		},
		"node: SSH and metadata pass, gateways do not": {
			v1beta1.NetworkDisruption{Drop: 30}, node, join(nodeGuards, []Rule{out("", 0, Any, 30)}),
		},
		"node: SSH named exactly": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Port: 22, Flow: "ingress"}}}, node,
			join([]Rule{in("", 22, Any, 30)}, nodeGuards),
		},
		"node: all that comes in is not SSH named exactly": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Flow: "ingress"}}}, node,
			join(nodeGuards, []Rule{in("", 0, Any, 30)}),
		},
		"node: SSH to elsewhere is not SSH to the node": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Port: 22}}}, node,
			join(nodeGuards, []Rule{out("", 22, Any, 30)}),
		},
		"node: metadata named exactly": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "169.254.169.254"}}}, node,
			join([]Rule{out("169.254.169.254/32", 0, Any, 30)}, nodeGuards),
		},
		"pod in the node's network: both sorts of safeguards": {
			v1beta1.NetworkDisruption{Drop: 30}, Site{Level: v1beta1.LevelPod, NodeNetwork: true, NodeIPs: []netip.Addr{address("192.168.0.4")}},
			join(both(out("192.168.0.4/32", 0, Any, Pass)), nodeGuards, []Rule{out("", 0, Any, 30)}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Plan(test.params, test.site)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, comparePrefixes); diff != "" {
				t.Errorf("Plan(%+v) (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	many := make(hosts, MaxRules+1)
	for i := range many {
		many[i] = host{Port: i + 1}
	}
	for name, test := range map[string]struct {
		params v1beta1.NetworkDisruption
		site   Site
		want   string
	}{
		"drop above 100":      {v1beta1.NetworkDisruption{Drop: 101}, Site{}, "drop 101"},
		"drop below 0":        {v1beta1.NetworkDisruption{Drop: -1}, Site{}, "drop -1"},
		"unknown protocol":    {v1beta1.NetworkDisruption{Hosts: hosts{{}, {Protocol: "icmp"}}}, Site{}, `hosts[1]: protocol "icmp"`},
		"unknown flow":        {v1beta1.NetworkDisruption{AllowedHosts: hosts{{Flow: "sideways"}}}, Site{}, `allowedHosts[0]: flow "sideways"`},
		"port too large":      {v1beta1.NetworkDisruption{Hosts: hosts{{Port: 65536}}}, Site{}, "port 65536"},
		"port negative":       {v1beta1.NetworkDisruption{Hosts: hosts{{Port: -1}}}, Site{}, "port -1"},
		"CIDR with a mistake": {v1beta1.NetworkDisruption{Hosts: hosts{{Host: "10.0.0.0/33"}}}, Site{}, `host "10.0.0.0/33": want`},
		"address and port":    {v1beta1.NetworkDisruption{Hosts: hosts{{Host: "db:5432"}}}, Site{}, `host "db:5432": want`},
		"name never resolved": {v1beta1.NetworkDisruption{Hosts: hosts{{Host: "db"}}}, Site{}, `host "db": has no address`},
		"too many rules":      {v1beta1.NetworkDisruption{Hosts: many}, Site{}, fmt.Sprintf("%d rules, at most %d", MaxRules+1, MaxRules)},
		"some containers, all that comes in": {
			v1beta1.NetworkDisruption{Hosts: hosts{{Flow: "ingress"}}}, Site{Level: v1beta1.LevelPod, SomeContainers: true}, "leave out spec.containers"},
		"node's network, all that comes in": {
			v1beta1.NetworkDisruption{Hosts: hosts{{Flow: "ingress"}}}, Site{Level: v1beta1.LevelPod, NodeNetwork: true}, "level node"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := Plan(test.params, test.site)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Plan(%+v) = %v, %v, want error %q", test.params, rules, err, test.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	params := v1beta1.NetworkDisruption{
		Hosts:        hosts{{}, {Host: "b"}, {Host: "1.2.3.4"}, {Host: "10.0.0.0/8"}, {Host: "fd00::1"}, {Host: "10.0.0.0/99"}},
		AllowedHosts: hosts{{Host: "a.example.com."}, {Host: "b"}},
	}
	operator := hosts{{Host: "c"}}
	if diff := cmp.Diff([]string{"a.example.com.", "b", "c"}, Names(params, operator)); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
	params.DisableDefaultAllowedHosts = true
	if diff := cmp.Diff([]string{"a.example.com.", "b"}, Names(params, operator)); diff != "" {
		t.Errorf("Names() without the operator's (-want +got):\n%s", diff)
	}
}

func TestDirections(t *testing.T) {
	out, in := Rule{Direction: Egress, Drop: 1}, Rule{Direction: Ingress, Drop: 1}
	for name, test := range map[string]struct {
		rules []Rule
		want  []Direction
	}{
		"no rules: nothing to attach":           {nil, nil},
		"passing rules alone: nothing":          {[]Rule{{Direction: Egress}, {Direction: Ingress}}, nil},
		"a dropping rule of one direction":      {[]Rule{{Direction: Egress}, in}, []Direction{Ingress}},
		"dropping rules of both, egress before": {[]Rule{in, out}, []Direction{Egress, Ingress}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Directions(test.rules)); diff != "" {
				t.Errorf("Directions(%v) (-want +got):\n%s", test.rules, diff)
			}
		})
	}
}

func TestHooks(t *testing.T) {
	lo := Link{Index: 1, Name: "lo", Loopback: true}
	eth := Link{Index: 2, Name: "eth0"}
	for name, test := range map[string]struct {
		links []Link
		level v1beta1.Level
		want  []string
	}{
		"pod: all links, loopback on egress alone": {
			[]Link{lo, eth, {Index: 3, Name: "tunl0", Type: "ipip"}}, v1beta1.LevelPod,
			[]string{"egress lo", "egress eth0", "ingress eth0", "egress tunl0", "ingress tunl0"}},
		"node: not the loopback": {
			[]Link{lo, eth}, v1beta1.LevelNode, []string{"egress eth0", "ingress eth0"}},
		"a bond is judged, its parts are not": {
			[]Link{{Index: 2, Name: "a", Master: 4}, {Index: 3, Name: "b", Master: 4}, {Index: 4, Name: "bond0", Type: "bond"}}, v1beta1.LevelNode,
			[]string{"egress bond0", "ingress bond0"}},
		"a bridge is judged, its ports are not": {
			[]Link{{Index: 2, Name: "br0", Type: "bridge"}, {Index: 3, Name: "veth1", Type: "veth", Master: 2}}, v1beta1.LevelNode,
			[]string{"egress br0", "ingress br0"}},
		"parts of a switch that carries nothing itself are judged": {
			[]Link{{Index: 2, Name: "ovs-system", Type: "openvswitch"}, {Index: 3, Name: "veth1", Type: "veth", Master: 2}}, v1beta1.LevelNode,
			[]string{"egress ovs-system", "ingress ovs-system", "egress veth1", "ingress veth1"}},
		"a VLAN is judged at its parent": {
			[]Link{eth, {Index: 3, Name: "eth0.7", Type: "vlan", Parent: 2}}, v1beta1.LevelNode,
			[]string{"egress eth0", "ingress eth0"}},
		"a macvlan whose parent is elsewhere is judged": {
			[]Link{lo, {Index: 3, Name: "eth0", Type: "macvlan"}}, v1beta1.LevelNode,
			[]string{"egress eth0", "ingress eth0"}},
		"both ends of a cable are judged": {
			[]Link{{Index: 2, Name: "a", Type: "veth", Parent: 3}, {Index: 3, Name: "b", Type: "veth", Parent: 2}}, v1beta1.LevelNode,
			[]string{"egress a", "ingress a", "egress b", "ingress b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, hook := range Hooks(test.links, test.level, []Direction{Egress, Ingress}) {
				got = append(got, string(hook.Direction)+" "+hook.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Hooks(%+v) (-want +got):\n%s", test.links, diff)
			}
		})
	}
}

func TestMarks(t *testing.T) {
	of := func(disruption, target types.UID) mark {
		return markOf(v1beta1.Injection{Disruption: v1beta1.DisruptionRef{UID: disruption}, Target: v1beta1.InjectionTarget{UID: target}})
	}
	m := of("8d9a7c1e-52f0-4b5e", "t-1")
	if !regexp.MustCompile(`^squall_[a-z0-9]{8}$`).MatchString(m.program) {
		t.Errorf("program = %q, want a name that the kernel takes", m.program)
	}
	for _, other := range []mark{of("8d9a7c1e-52f0-4b5e", "t-2"), of("8d9a7c1e-52f0-4b5f", "t-1")} {
		if other.program == m.program {
			t.Errorf("program = %q for two injections", m.program)
		}
	}
	for name, want := range map[string]bool{
		"squall:8d9a7c1e-52f0-4b5e:t-1":        true,
		"squall:8d9a7c1e-52f0-4b5e:t-1:clsact": true,
		"squall:8d9a7c1e-52f0-4b5e:t-10":       false,
		"squall:8d9a7c1e-52f0-4b5e:t-2":        false,
		"squall:another:t-1:clsact":            false,
		"foreign":                              false,
	} {
		if m.owns(name) != want {
			t.Errorf("owns(%q) = %v, want %v", name, !want, want)
		}
	}
}
