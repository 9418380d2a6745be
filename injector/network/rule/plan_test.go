//go:build linux

package rule

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

var comparePrefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

type (
	host  = v1beta1.NetworkHost
	hosts = []v1beta1.NetworkHost

	Rule = classifier.Rule
)

const (
	Egress, Ingress = classifier.Egress, classifier.Ingress
	Any, TCP, UDP   = classifier.Any, classifier.TCP, classifier.UDP
	Pass            = classifier.Percent(0)
)

func byDefault(host string) Name { return Name{host, DefaultResolver} }

func TestPlan(t *testing.T) {
	address := netip.MustParseAddr
	out := func(remote string, port int, protocol classifier.Protocol, drop classifier.Percent) Rule {
		r := Rule{
			Match:  classifier.Match{Direction: Egress, Port: uint16(port), Protocol: protocol},
			Effect: classifier.Effect{Drop: drop},
		}
		if remote != "" {
			r.Remote = netip.MustParsePrefix(remote)
		}
		return r
	}
	in := func(remote string, port int, protocol classifier.Protocol, drop classifier.Percent) Rule {
		r := out(remote, port, protocol, drop)
		r.Direction = Ingress
		return r
	}
	answerTo := func(r Rule) Rule {
		r.SourcePort, r.Port = r.Port, 0
		r.Direction = map[classifier.Direction]classifier.Direction{Egress: Ingress, Ingress: Egress}[r.Direction]
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
	inState := func(state string, r Rule) Rule {
		r.State = map[string]classifier.State{"new": classifier.New, "est": classifier.Established}[state]
		return r
	}
	pod := Site{Level: v1beta1.LevelPod}
	guarded := Site{Level: v1beta1.LevelPod,
		Gateways: []netip.Addr{address("10.0.0.1"), address("fe80::1%eth0")},
		NodeIPs:  []netip.Addr{address("192.168.0.4"), address("10.0.0.1")}}
	guards := both(out("10.0.0.1/32", 0, Any, Pass), out("192.168.0.4/32", 0, Any, Pass), out("fe80::1/128", 0, Any, Pass))
	node := Site{Level: v1beta1.LevelNode, Gateways: guarded.Gateways, NodeIPs: guarded.NodeIPs}
	kubelet := node
	kubelet.ControlPlane = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.10:6443"), netip.MustParseAddrPort("[2001:db8::2]:443")}
	ends := both(out("10.0.0.10/32", 6443, TCP, Pass), out("2001:db8::2/128", 443, TCP, Pass))
	nodeGuards := both(in("", 22, TCP, Pass), out("169.254.169.254/32", 0, Any, Pass))

	for name, test := range map[string]struct {
		params v1beta1.NetworkDisruption
		site   Site
		want   []Rule
	}{
		"no hosts: everything that goes out": {
			v1beta1.NetworkDisruption{Drop: 30}, pod, []Rule{out("", 0, Any, 30)},
		},
		"what ends a disruption of a node is never disturbed, whatever is named": {
			v1beta1.NetworkDisruption{Drop: 30, DisableDefaultAllowedHosts: true, Hosts: hosts{{}, {Host: "10.0.0.10", Port: 6443, Protocol: "tcp"}}}, kubelet,
			slices.Concat(ends, nodeGuards, []Rule{out("", 0, Any, 30), out("10.0.0.10/32", 6443, TCP, 30)}),
		},
		"drop, corrupt and duplicate together": {
			v1beta1.NetworkDisruption{Drop: 30, Corrupt: 20, Duplicate: 10}, pod,
			[]Rule{{Match: classifier.Match{Direction: Egress}, Effect: classifier.Effect{Drop: 30, Corrupt: 20, Duplicate: 10}}},
		},
		"an address, a network and a name": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "1.2.3.4", Port: 80, Protocol: "tcp"}, {Host: "10.1.2.3/8"}, {Host: "db", Protocol: "UDP"}, {Host: "2001:db8::1"}}},
			Site{Level: v1beta1.LevelPod, Resolved: map[Name][]netip.Addr{byDefault("db"): {address("9.9.9.9"), address("::1"), address("9.9.9.9")}}},
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
		"new connections, and allowed ones": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Host: "1.2.3.4", ConnState: "new"}, {Host: "1.2.3.4", ConnState: "est"}},
				AllowedHosts: hosts{{Port: 1, ConnState: "new"}, {Port: 2, ConnState: "est"}}}, pod,
			join([]Rule{inState("new", out("", 1, Any, Pass))}, both(inState("est", out("", 2, Any, Pass))),
				[]Rule{inState("new", out("1.2.3.4/32", 0, Any, 30)), inState("est", out("1.2.3.4/32", 0, Any, 30))}),
		},
		"a service: what it stands for, and not everything": {
			v1beta1.NetworkDisruption{Drop: 30, Services: []v1beta1.NetworkService{{Name: "db"}}},
			Site{Level: v1beta1.LevelPod, ResolvedHosts: hosts{{Host: "10.0.0.9", Port: 80, Protocol: "tcp"}}},
			[]Rule{out("10.0.0.9/32", 80, TCP, 30)},
		},
		"a service without an address: nothing that is on a wire": {
			v1beta1.NetworkDisruption{Drop: 30, Services: []v1beta1.NetworkService{{Name: "db"}}}, pod, []Rule{out("0.0.0.0/32", 0, Any, 30)},
		},
		"hosts, and what a cloud stands for": {
			v1beta1.NetworkDisruption{Drop: 30, Hosts: hosts{{Port: 53}}, Cloud: &v1beta1.NetworkCloud{}},
			Site{Level: v1beta1.LevelPod, ResolvedHosts: hosts{{Host: "10.3.0.0/16", Flow: "ingress", ConnState: "new"}}},
			[]Rule{out("", 53, Any, 30), inState("new", in("10.3.0.0/16", 0, Any, 30))},
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
			Site{Level: v1beta1.LevelPod, NodeIPs: []netip.Addr{address("192.168.0.4")}, Resolved: map[Name][]netip.Addr{byDefault("node-1"): {address("192.168.0.4")}}},
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
		"duplicate above 100": {v1beta1.NetworkDisruption{Duplicate: 101}, Site{}, "duplicate 101"},
		"corrupt below 0":     {v1beta1.NetworkDisruption{Corrupt: -1}, Site{}, "corrupt -1"},
		"drop below 0":        {v1beta1.NetworkDisruption{Drop: -1}, Site{}, "drop -1"},
		"unknown protocol":    {v1beta1.NetworkDisruption{Hosts: hosts{{}, {Protocol: "icmp"}}}, Site{}, `hosts[1]: protocol "icmp"`},
		"unknown flow":        {v1beta1.NetworkDisruption{AllowedHosts: hosts{{Flow: "sideways"}}}, Site{}, `allowedHosts[0]: flow "sideways"`},
		"port too large":      {v1beta1.NetworkDisruption{Hosts: hosts{{Port: 65536}}}, Site{}, "port 65536"},
		"port negative":       {v1beta1.NetworkDisruption{Hosts: hosts{{Port: -1}}}, Site{}, "port -1"},
		"CIDR with a mistake": {v1beta1.NetworkDisruption{Hosts: hosts{{Host: "10.0.0.0/33"}}}, Site{}, `host "10.0.0.0/33": want`},
		"address and port":    {v1beta1.NetworkDisruption{Hosts: hosts{{Host: "db:5432"}}}, Site{}, `host "db:5432": want`},
		"name never resolved": {v1beta1.NetworkDisruption{Hosts: hosts{{Host: "db"}}}, Site{}, `host "db": has no address`},
		"unknown state":       {v1beta1.NetworkDisruption{Hosts: hosts{{ConnState: "old"}}}, Site{}, `connState "old"`},
		"too many rules":      {v1beta1.NetworkDisruption{Hosts: many}, Site{}, fmt.Sprintf("%d rules; the limit is %d", MaxRules+1, MaxRules)},
		"too many with what a service stands for": {
			v1beta1.NetworkDisruption{Hosts: many[1:]}, Site{ResolvedHosts: hosts{{Host: "10.0.0.1"}}}, fmt.Sprintf("%d rules; the limit is", MaxRules+1)},
		"a service stands for what is none": {v1beta1.NetworkDisruption{}, Site{ResolvedHosts: hosts{{Host: "db"}}}, "services and cloud[0]"},
		"some containers, all that comes in": {
			v1beta1.NetworkDisruption{Corrupt: 1, Hosts: hosts{{Flow: "ingress"}}}, Site{Level: v1beta1.LevelPod, SomeContainers: true}, "leave out spec.containers"},
		"node's network, all that comes in": {
			v1beta1.NetworkDisruption{Duplicate: 1, Hosts: hosts{{Flow: "ingress"}}}, Site{Level: v1beta1.LevelPod, NodeNetwork: true}, "level node"},
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
		AllowedHosts: hosts{{Host: "a.example.com."}, {Host: "b"}, {Host: "b", DNSResolver: "node"}},
	}
	operator := hosts{{Host: "c"}}
	if diff := cmp.Diff([]Name{byDefault("a.example.com."), {"b", "node"}, byDefault("b"), byDefault("c")}, Names(params, operator)); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
	params.DisableDefaultAllowedHosts = true
	if diff := cmp.Diff([]Name{byDefault("a.example.com."), {"b", "node"}, byDefault("b")}, Names(params, operator)); diff != "" {
		t.Errorf("Names() without the operator's (-want +got):\n%s", diff)
	}
}
