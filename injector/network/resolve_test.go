//go:build linux

package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/network/rule"
	"github.com/squall-chaos/squall/injector/resolve"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// nameServer answers in a network namespace from a map of names to addresses.
type nameServer struct {
	mutex     sync.Mutex
	addresses map[string][]string
	truncates bool // UDP answers ask for TCP
	asked     func()
}

func (s *nameServer) set(name string, addresses ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.addresses[name] = addresses
}

func (s *nameServer) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.asked != nil {
		s.asked()
	}
	answer := new(dns.Msg).SetReply(question)
	name, kind := question.Question[0].Name, question.Question[0].Qtype
	addresses, known := s.addresses[strings.TrimSuffix(name, ".")]
	if !known {
		answer.Rcode = dns.RcodeNameError
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp && s.truncates {
		answer.Truncated = true
		addresses = nil
	}
	for _, text := range addresses {
		header := dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET}
		ip := net.ParseIP(text)
		switch {
		case kind == dns.TypeA && ip.To4() != nil:
			answer.Answer = append(answer.Answer, &dns.A{Hdr: header, A: ip})
		case kind == dns.TypeAAAA && ip.To4() == nil:
			answer.Answer = append(answer.Answer, &dns.AAAA{Hdr: header, AAAA: ip})
		}
	}
	w.WriteMsg(answer)
}

func serveNames(t *testing.T, netns, address string, names map[string][]string) *nameServer {
	t.Helper()
	s := &nameServer{addresses: names}
	where := net.JoinHostPort(address, "53")
	must(t, target.Do(netns, func() error {
		packets, err := net.ListenPacket("udp", where)
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", where)
		if err != nil {
			return err
		}
		for _, server := range []*dns.Server{{PacketConn: packets, Handler: s}, {Listener: listener, Handler: s}} {
			go server.ActivateAndServe()
			t.Cleanup(func() { server.Shutdown() })
		}
		return nil
	}))
	return s
}

func TestNamesAreResolvedAsTheTargetWould(t *testing.T) {
	w := newWorld(t)
	w.pretend(t,
		map[string]string{
			"resolv.conf": "search shop.svc.cluster.local svc.cluster.local\nnameserver " + hostIPv4 + "\noptions ndots:5\n",
			"hosts":       "10.9.0.77 alias # comment\n",
		},
		map[string]string{"resolv.conf": "nameserver " + otherIPv4 + "\n"})
	inPod := serveNames(t, w.peer, hostIPv4, map[string][]string{
		"cart.shop.svc.cluster.local": {hostIPv4},
		"both.example.com":            {hostIPv4, otherIPv4, hostIPv6},
		"only6.example.com":           {hostIPv6},
		"empty.example.com":           {},
	})
	serveNames(t, w.peer, otherIPv4, map[string][]string{"node-only.example.com": {otherIPv4}, "both.example.com": {nodeIPv4}})

	for name, test := range map[string]struct {
		host     string
		want     []string
		error    string
		resolver string
	}{
		"search domain is tried":             {"cart", []string{hostIPv4}, "", ""},
		"A and AAAA are both asked":          {"both.example.com", []string{hostIPv4, otherIPv4, hostIPv6}, "", ""},
		"AAAA alone is enough":               {"only6.example.com", []string{hostIPv6}, "", ""},
		"final dot: no search":               {"only6.example.com.", []string{hostIPv6}, "", ""},
		"alias in the hosts file":            {"alias", []string{"10.9.0.77"}, "", ""},
		"unknown to the pod: the node knows": {"node-only.example.com", []string{otherIPv4}, "", ""},
		"unknown to both: named":             {"nowhere.example.com", nil, `resolve host "nowhere.example.com"`, ""},
		"without an address: named":          {"empty.example.com", nil, `empty.example.com. has no address`, ""},
		"the pod alone":                      {"node-only.example.com", nil, "no such name", "pod"},
		"the node alone":                     {"both.example.com", []string{nodeIPv4}, "", "node"},
		"the node alone does not know":       {"cart", nil, "no such name", "node"},
		"the node first":                     {"both.example.com", []string{nodeIPv4}, "", "node-fallback-pod"},
		"the node first, the pod knows":      {"cart", []string{hostIPv4}, "", "node-fallback-pod"},
	} {
		t.Run(name, func(t *testing.T) {
			i := w.injector(t, v1beta1.NetworkDisruption{Drop: 1, Hosts: []v1beta1.NetworkHost{{Host: test.host, DNSResolver: test.resolver}}})
			defer i.journal.Close()
			got, err := i.resolve(context.Background())
			if test.error != "" {
				if err == nil || !strings.Contains(err.Error(), test.error) {
					t.Errorf("resolve(%s) = %v, %v, want error %q", test.host, got, err, test.error)
				}
				return
			}
			must(t, err)
			var want []netip.Addr
			for _, text := range test.want {
				want = append(want, netip.MustParseAddr(text))
			}
			if diff := cmp.Diff(want, got[rule.NameOf(v1beta1.NetworkHost{Host: test.host, DNSResolver: test.resolver})], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("resolve(%s) (-want +got):\n%s", test.host, diff)
			}
		})
	}
	t.Run("answer too long for a datagram: asked by TCP", func(t *testing.T) {
		inPod.truncates = true
		i := w.injector(t, v1beta1.NetworkDisruption{Drop: 1, Hosts: []v1beta1.NetworkHost{{Host: "only6.example.com"}}})
		defer i.journal.Close()
		if got, err := i.resolve(context.Background()); err != nil || len(got[rule.Name{Host: "only6.example.com", Resolver: rule.DefaultResolver}]) != 1 {
			t.Errorf("resolve() = %v, %v", got, err)
		}
	})
}

// The process that reads a server's answers has no rights on the node (finding 21).
func TestNamesAreResolvedWithoutRights(t *testing.T) {
	w := newWorld(t)
	w.pretend(t, map[string]string{"resolv.conf": "nameserver " + hostIPv4 + "\n"}, nil)
	server := serveNames(t, w.peer, hostIPv4, map[string][]string{"db.example.com": {hostIPv4}})
	resolvers := map[int]error{}
	server.asked = func() {
		for _, pid := range testcontainer.Children(resolve.Command) {
			resolvers[pid] = testcontainer.Powerless(pid)
		}
	}
	i := w.injector(t, v1beta1.NetworkDisruption{Drop: 1, Hosts: []v1beta1.NetworkHost{{Host: "db.example.com", DNSResolver: "pod"}}})
	defer i.journal.Close()
	if _, err := i.resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(resolvers) != 1 {
		t.Errorf("%d processes resolved the name, want one child", len(resolvers))
	}
	for pid, err := range resolvers {
		if err != nil {
			t.Errorf("process %d, which talks to the name server: %v", pid, err)
		}
	}
}

func TestUnknownNameChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.pretend(t, map[string]string{"resolv.conf": "nameserver " + hostIPv4 + "\n"}, map[string]string{"resolv.conf": "nameserver " + otherIPv4 + "\n"})
	serveNames(t, w.peer, hostIPv4, nil)
	serveNames(t, w.peer, otherIPv4, nil)
	before := state(t, w.target)
	i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}, {Host: "gone.example.com"}}})
	err := i.Inject(context.Background())
	if err == nil || !strings.Contains(err.Error(), `"gone.example.com"`) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("Inject() = %v, want an error that names gone.example.com and says that nothing was changed", err)
	}
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after the error (-before +after):\n%s", diff)
	}
	clean(t, i)
}

// Packets to the current default gateway are left alone.
func TestOtherRoutesReplaceTheProgram(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100}, try)
		i.surveyEvery = 20 * time.Millisecond
		must(t, i.Inject(context.Background()))
		w.eventuallyLost(t, gatewayIPv4, false)
		w.eventuallyLost(t, hostIPv4, true)
		inside := openForTest(t, w.target)
		link, err := inside.LinkByName(linkName)
		must(t, err)
		must(t, inside.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, Gw: net.ParseIP(hostIPv4)}))
		w.eventuallyLost(t, hostIPv4, false)
		w.eventuallyLost(t, gatewayIPv4, true)
		clean(t, i)
	})
}

func TestChangedNamesReplaceTheProgram(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.pretend(t, map[string]string{"resolv.conf": "nameserver " + gatewayIPv4 + "\n"}, nil)
		server := serveNames(t, w.peer, gatewayIPv4, map[string][]string{"db.example.com": {hostIPv4}})
		i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: "db.example.com", Port: 7000}}}, try)
		i.refreshEvery = 20 * time.Millisecond
		must(t, i.Inject(context.Background()))
		if got := lost(t, w.out(hostIPv4, 7000, 100)); got != 100 {
			t.Errorf("first address: %d of 100 lost, want all", got)
		}
		server.set("db.example.com", otherIPv4)
		testcontainer.Eventually(t, "the new address is dropped", func() error {
			if got := lost(t, w.out(otherIPv4, 7000, 20)); got != 20 {
				return fmt.Errorf("%d of 20 lost", got)
			}
			return nil
		})
		if got := lost(t, w.out(hostIPv4, 7000, 100)); got != 0 {
			t.Errorf("former address: %d of 100 lost, want 0", got)
		}
		server.mutex.Lock()
		delete(server.addresses, "db.example.com")
		server.mutex.Unlock()
		if err := i.refresh(context.Background()); err == nil {
			t.Error("refresh() = nil though the name is gone")
		}
		if got := lost(t, w.out(otherIPv4, 7000, 100)); got != 100 {
			t.Errorf("the name does not resolve any more: %d of 100 lost, want all as before", got)
		}
		clean(t, i)
	})
}
