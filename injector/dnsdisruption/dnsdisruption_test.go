//go:build linux

package dnsdisruption

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func TestEveryTypeIsAnsweredFalsely(t *testing.T) {
	w := newWorld(t, 53)
	w.injectThenCompare(t, v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{
		record("www.example.com", "A", falseIPv4),
		record("www.example.com", "AAAA", falseIPv6),
		record("old.example.com", "CNAME", "new.example.com"),
		record("example.com", "MX", "10 mail1.example.com, 20 mail2.example.com."),
		record("txt.example.com", "TXT", `v=spf1, "all" \ `),
		record("_http._tcp.example.com", "SRV", "10 60 8080 a.example.com"),
	}})
	for name, way := range everyWay() {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				hostname string
				qtype    uint16
				want     string
			}{
				{"www.example.com", dns.TypeA, "A " + falseIPv4},
				{"WWW.Example.COM", dns.TypeA, "A " + falseIPv4},
				{"www.example.com", dns.TypeAAAA, "AAAA " + falseIPv6},
				{"old.example.com", dns.TypeCNAME, "CNAME new.example.com."},
				{"old.example.com", dns.TypeA, "CNAME new.example.com., A " + firstTruth},
				{"example.com", dns.TypeMX, "MX 10 mail1.example.com., MX 20 mail2.example.com."},
				{"txt.example.com", dns.TypeTXT, `TXT "v=spf1, \"all\" \\"`},
				{"_http._tcp.example.com", dns.TypeSRV, "SRV 10 60 8080 a.example.com."},
			} {
				if got := w.answer(t, way, test.hostname, test.qtype); got != test.want {
					t.Errorf("%s of %s = %q, want %q", dns.TypeToString[test.qtype], test.hostname, got, test.want)
				}
			}
		})
	}
}

func TestFailuresInPlaceOfAddresses(t *testing.T) {
	w := newWorld(t, 53)
	w.injectThenCompare(t, v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{
		record("gone.example.com", "A", "NXDOMAIN"),
		record("broken.example.com", "AAAA", "SERVFAIL"),
		record("silent.example.com", "A", "DROP"),
		record("any.example.com", "A", "RANDOM"),
		record("any.example.com", "AAAA", "RANDOM"),
	}})
	for name, way := range everyWay() {
		t.Run(name, func(t *testing.T) {
			if got := w.answer(t, way, "gone.example.com", dns.TypeA); got != "NXDOMAIN" {
				t.Errorf("of NXDOMAIN: %q", got)
			}
			if got := w.answer(t, way, "broken.example.com", dns.TypeAAAA); got != "SERVFAIL" {
				t.Errorf("of SERVFAIL: %q", got)
			}
			short := way
			short.patience = 300 * time.Millisecond
			asked := w.first.asked.Load()
			if answer, err := w.ask(short, "silent.example.com", dns.TypeA); err == nil || w.first.asked.Load() != asked {
				t.Errorf("of DROP: %v, resolver asked %d times, want no answer and nobody asked", answer, w.first.asked.Load()-asked)
			}
			for qtype, prefix := range map[uint16]string{dns.TypeA: "A 192.0.2.", dns.TypeAAAA: "AAAA 2001:db8:"} {
				seen := map[string]bool{}
				for range 20 {
					got := w.answer(t, way, "any.example.com", qtype)
					if seen[got] = true; !strings.HasPrefix(got, prefix) {
						t.Errorf("of RANDOM: %q, want %s…", got, prefix)
					}
				}
				if len(seen) < 2 {
					t.Errorf("of RANDOM, 20 times: always %v", seen)
				}
			}
		})
	}
}

func TestTTLAndTurns(t *testing.T) {
	w := newWorld(t, 53)
	params := one("www.example.com", "A", "198.51.100.1, 198.51.100.2,198.51.100.3")
	params.Records[0].Record.TTL = 77
	params.Records = append(params.Records, record("short.example.com", "A", falseIPv4))
	w.injectThenCompare(t, params)
	for want, hostname := range map[uint32]string{77: "www.example.com", 0: "short.example.com"} {
		answer, err := w.ask(byUDP(firstIPv4), hostname, dns.TypeA)
		if err != nil || answer.Answer[0].Header().Ttl != want {
			t.Errorf("%s: %v, %v, want a TTL of %d", hostname, answer, err, want)
		}
	}
	var got []string
	for range 4 {
		got = append(got, w.answer(t, byUDP(firstIPv4), "www.example.com", dns.TypeA))
	}
	want := []string{"A 198.51.100.2", "A 198.51.100.3", "A 198.51.100.1", "A 198.51.100.2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses in turn (-want +got):\n%s", diff)
	}
}

// The resolver that was asked answers every question without a record, unchanged.
func TestEverythingElseIsAnsweredAsBefore(t *testing.T) {
	w := newWorld(t, 53)
	ways := everyWay()
	ways["UDP, another resolver"], ways["TCP, another resolver"] = byUDP(secondIPv4), byTCP(secondIPv4)
	answers := func() map[string]string {
		all := map[string]string{}
		for name, way := range ways {
			for hostname, qtype := range map[string]uint16{
				"other.example.com": dns.TypeA, "missing.example.com": dns.TypeA, "large.example.com": dns.TypeTXT,
				"www.example.com": dns.TypeTXT, "WWW.example.com": dns.TypeAAAA, "wwwexample.com": dns.TypeA,
			} {
				answer, err := w.ask(way, hostname, qtype)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				answer.Id = 0
				all[name+" "+hostname] = answer.String()
			}
		}
		return all
	}
	before := answers()
	w.injectThenCompare(t, one("www.example.com", "A", falseIPv4))
	if diff := cmp.Diff(before, answers()); diff != "" {
		t.Errorf("answers (-before +during):\n%s", diff)
	}
	if w.answer(t, byUDP(secondIPv4), "www.example.com", dns.TypeA) != "A "+falseIPv4 {
		t.Error("another resolver's question is not falsified")
	}
}

func TestSearchDomainsAndDomainsBelow(t *testing.T) {
	w := newWorld(t, 53)
	w.injectThenCompare(t, v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{
		record("orders-db", "A", falseIPv4), record("Example.com.", "A", falseIPv4), record("exact.example.com", "A", "198.51.100.9"),
	}})
	for hostname, want := range map[string]string{
		"orders-db":                              "A " + falseIPv4,
		"orders-db.shop.svc.cluster.local":       "A " + falseIPv4,
		"ORDERS-DB.svc.cluster.local.":           "A " + falseIPv4,
		"example.com.shop.svc.cluster.local":     "A " + falseIPv4,
		"orders-db.other.svc.cluster.local":      "A " + firstTruth,
		"other-orders-db.shop.svc.cluster.local": "A " + firstTruth,
		"example.com":                            "A " + falseIPv4,
		"deep.below.example.com":                 "A " + falseIPv4,
		"exact.example.com":                      "A 198.51.100.9",
		"notexample.com":                         "A " + firstTruth,
	} {
		if got := w.answer(t, byUDP(firstIPv4), hostname, dns.TypeA); got != want {
			t.Errorf("%s = %q, want %q", hostname, got, want)
		}
	}
}

func TestOtherSearchDomainsAreFollowed(t *testing.T) {
	w := newWorld(t, 53)
	i := w.inject(t, one("orders-db", "A", falseIPv4))
	wantMoved := func(when, want string) {
		t.Helper()
		if got, err := i.Moved(t.Context()); err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: Moved = %q, %v, want %q", when, got, err, want)
		}
	}
	wantMoved("after the injection", "")
	file := filepath.Join(w.proc, strconv.Itoa(w.container.PID), "root/etc/resolv.conf")
	must(t, os.WriteFile(file, []byte("nameserver "+firstIPv4+"\nsearch other.example.com\n"), 0o644))
	wantMoved("after the file was written", "other.example.com")
	must(t, i.Clean(t.Context()))
	must(t, i.Inject(t.Context()))
	if got := w.answer(t, byUDP(firstIPv4), "orders-db.other.example.com", dns.TypeA); got != "A "+falseIPv4 {
		t.Errorf("with the new domain = %q, want the record", got)
	}
	wantMoved("after the second injection", "")
	must(t, os.Remove(file))
	wantMoved("without the file", "")
}

func TestOneProtocolAlone(t *testing.T) {
	for _, protocol := range []string{"udp", "tcp"} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t, 53)
			params := one("www.example.com", "A", falseIPv4)
			params.Protocol = protocol
			w.injectThenCompare(t, params)
			for _, server := range []string{firstIPv4, firstIPv6} {
				for _, network := range []string{"udp", "tcp"} {
					want := "A " + firstTruth
					if network == protocol {
						want = "A " + falseIPv4
					}
					if got := w.answer(t, asker{network: network, server: server}, "www.example.com", dns.TypeA); got != want {
						t.Errorf("by %s to %s: %q, want %q", network, server, got, want)
					}
				}
			}
		})
	}
}

func TestAnotherPort(t *testing.T) {
	w := newWorld(t, 5300)
	usual := runResolver(t, w.peer, secondTrue, 53, firstIPv4)
	params := one("www.example.com", "A", falseIPv4)
	params.Port = 5300
	w.injectThenCompare(t, params)
	for port, want := range map[int]string{5300: "A " + falseIPv4, 53: "A " + secondTrue} {
		for _, network := range []string{"udp", "tcp"} {
			if got := w.answer(t, asker{network: network, server: firstIPv4, port: port}, "www.example.com", dns.TypeA); got != want {
				t.Errorf("by %s at port %d: %q, want %q", network, port, got, want)
			}
		}
	}
	if usual.asked.Load() != 2 {
		t.Errorf("the resolver at port 53 was asked %d times, want 2", usual.asked.Load())
	}
}

// Some resolvers ask all servers at once from one socket, and use the first answer of any
// of them.
func TestOneSocketAsksTwoResolvers(t *testing.T) {
	w := newWorld(t, 53)
	w.injectThenCompare(t, one("www.example.com", "A", falseIPv4))
	for hostname, want := range map[string][2]string{
		"www.example.com":   {"A " + falseIPv4, "A " + falseIPv4},
		"other.example.com": {"A " + firstTruth, "A " + secondTrue},
	} {
		socket := w.openUDP(t, "")
		for _, server := range []string{firstIPv4, secondIPv4} {
			query, err := new(dns.Msg).SetQuestion(dns.Fqdn(hostname), dns.TypeA).Pack()
			must(t, err)
			_, err = socket.Conn.(*net.UDPConn).WriteToUDPAddrPort(query, mustAddrPort(t, server+":53"))
			must(t, err)
		}
		got := map[string]string{}
		for len(got) < 2 {
			answer, from := receive(t, socket)
			got[from] = recordText(answer)
		}
		if diff := cmp.Diff(map[string]string{firstIPv4 + ":53": want[0], secondIPv4 + ":53": want[1]}, got); diff != "" {
			t.Errorf("%s, answers by who gave them (-want +got):\n%s", hostname, diff)
		}
	}
}

// A socket that asked before the disruption, and whose flow is tracked, is redirected and
// freed again.
func TestEstablishedUDPFlow(t *testing.T) {
	for _, server := range []string{firstIPv4, firstIPv6} {
		t.Run(server, func(t *testing.T) {
			w := newWorld(t, 53)
			w.track(t)
			socket := w.openUDP(t, server)
			wantAnswer(t, socket, "before", "A "+firstTruth)
			before := state(t, w.target)
			i := w.inject(t, one("www.example.com", "A", falseIPv4))
			wantAnswer(t, socket, "during", "A "+falseIPv4)
			cleanTwice(t, i)
			wantAnswer(t, socket, "after", "A "+firstTruth)
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("the namespace (-before +after):\n%s", diff)
			}
		})
	}
}

// A TCP connection cannot change its other end: it is cut, and the next one leads to the
// responder.
func TestEstablishedTCPConnections(t *testing.T) {
	w := newWorld(t, 53)
	w.track(t)
	before := w.openTCP(t, firstIPv4)
	wantAnswer(t, before, "before", "A "+firstTruth)
	i := w.inject(t, one("www.example.com", "A", falseIPv4))
	wantCut(t, before, "made before the disruption")
	during := w.openTCP(t, firstIPv4)
	wantAnswer(t, during, "during", "A "+falseIPv4)
	cleanTwice(t, i)
	wantCut(t, during, "made during the disruption")
	wantAnswer(t, w.openTCP(t, firstIPv4), "after", "A "+firstTruth)
}

// Several questions over one connection, sent at once, some of them falsified.
func TestQuestionsInARowOverOneConnection(t *testing.T) {
	w := newWorld(t, 53)
	w.injectThenCompare(t, v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{
		record("www.example.com", "A", falseIPv4), record("alias.example.com", "CNAME", "truth.example.com"),
	}})
	conn := w.openTCP(t, firstIPv4)
	names := []string{"www.example.com.", "one.example.com.", "alias.example.com.", "large.example.com.", "two.example.com."}
	for id, name := range names {
		query := new(dns.Msg).SetQuestion(name, dns.TypeA)
		query.Id = uint16(id)
		must(t, conn.WriteMsg(query))
	}
	must(t, conn.Conn.(*net.TCPConn).CloseWrite())
	got := map[string]string{}
	for range names {
		answer, err := conn.ReadMsg()
		must(t, err)
		text := recordText(answer)
		got[names[answer.Id]] = text[:min(len(text), 6)]
	}
	want := map[string]string{names[0]: "A 198.", names[1]: "A 203.", names[2]: "CNAME ", names[3]: "TXT \"l", names[4]: "A 203."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestManyAskAtOnce(t *testing.T) {
	w := newWorld(t, 53)
	w.injectThenCompare(t, one("www.example.com", "A", falseIPv4))
	var group sync.WaitGroup
	for n := range 64 {
		group.Go(func() {
			way := byUDP(firstIPv4)
			if n%2 == 1 {
				way = byTCP(firstIPv6)
			}
			for hostname, want := range map[string]string{"www.example.com": "A " + falseIPv4, "other.example.com": "A " + firstTruth} {
				if answer, err := w.ask(way, hostname, dns.TypeA); err != nil || recordText(answer) != want {
					t.Errorf("%s = %v, %v, want %s", hostname, answer, err, want)
				}
			}
		})
	}
	group.Wait()
}

// A killed injector leaves nothing that answers or redirects. If a foreign rule tracks a
// flow, the cleaner frees it.
func TestKilledInjectorLeavesDNSAsBefore(t *testing.T) {
	for _, server := range []string{firstIPv4, firstIPv6} {
		t.Run(server, func(t *testing.T) {
			w := newWorld(t, 53)
			w.track(t)
			before := state(t, w.target)
			params := one("www.example.com", "A", falseIPv4)
			kill := w.elsewhere(t, params)
			flow := w.openUDP(t, server)
			wantAnswer(t, flow, "during", "A "+falseIPv4)
			kill()
			for _, network := range []string{"udp", "tcp"} {
				if got := w.answer(t, asker{network: network, server: server}, "www.example.com", dns.TypeA); got != "A "+firstTruth {
					t.Errorf("by %s after SIGKILL: %q, want %q", network, got, "A "+firstTruth)
				}
			}
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("the namespace after SIGKILL (-before +after):\n%s", diff)
			}
			cleaner := w.cleaner(t, params)
			if left, err := cleaner.Left(context.Background()); err != nil || len(left) != 1 || !strings.Contains(left[0], "tracked connection") {
				t.Errorf("Left() = %q, %v, want the tracked connection", left, err)
			}
			cleanTwice(t, cleaner)
			wantAnswer(t, flow, "after the cleaner", "A "+firstTruth)
		})
	}
}

// Another program's redirect of questions comes first, and the two make no circle.
func TestForeignTablesAreKept(t *testing.T) {
	w := newWorld(t, 53)
	w.nft(t, "table ip proxy { chain output { type nat hook output priority -100; udp dport 53 redirect to :1; tcp dport 53 redirect to :1; }; }")
	w.nft(t, "table inet squall-dnsother { chain c { }; }")
	i := w.injectThenCompare(t, one("www.example.com", "A", falseIPv4))
	for hostname, want := range map[string]string{"www.example.com": "A " + falseIPv4, "other.example.com": "A " + firstTruth} {
		for _, network := range []string{"udp", "tcp"} {
			if got := w.answer(t, asker{network: network, server: firstIPv4}, hostname, dns.TypeA); got != want {
				t.Errorf("%s by %s = %q, want %q", hostname, network, got, want)
			}
		}
	}
	rules := state(t, w.target)
	for _, want := range []string{"table ip proxy", "table inet squall-dnsother", "table inet " + redirect.TableOf(i.target.Injection), "flags owner"} {
		if !strings.Contains(rules, want) {
			t.Errorf("%q is not in\n%s", want, rules)
		}
	}
	err := target.Do(w.target, func() error { return exec.Command("nft", "flush", "ruleset").Run() })
	if err != nil || w.answer(t, byUDP(firstIPv4), "www.example.com", dns.TypeA) != "A "+falseIPv4 {
		t.Errorf("after somebody flushed all rules (%v) the disruption is gone", err)
	}
	w.nft(t, "table ip proxy { chain output { type nat hook output priority -100; udp dport 53 redirect to :1; tcp dport 53 redirect to :1; }; }")
	w.nft(t, "table inet squall-dnsother { chain c { }; }")
}

func TestNodeNetworkIsRefused(t *testing.T) {
	for name, share := range map[string]func(*testing.T, *world){
		"the same namespace": func(t *testing.T, w *world) {
			w.proc = testcontainer.Proc(t, w.container.PID)
		},
		"the same address": func(_ *testing.T, w *world) {
			w.injection.Target.PodIPs = []string{"fd09::77", nodeIPv4}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 53)
			share(t, w)
			before := state(t, w.target)
			i := w.injector(t, one("www.example.com", "A", falseIPv4))
			err := i.Inject(context.Background())
			for _, want := range []string{"pod shop/pod", "node node-a", "hostNetwork", "nothing was changed"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Inject() = %v, want it to say %q", err, want)
				}
			}
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" || len(i.journal.Changes()) > 0 {
				t.Errorf("journal %v, the namespace (-before +after):\n%s", i.journal.Changes(), diff)
			}
			cleanTwice(t, i)
		})
	}
}

func TestRefusalLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*testing.T, *world) v1beta1.DNSDisruption
		want    string
	}{
		"no loopback": {func(t *testing.T, w *world) v1beta1.DNSDisruption {
			c := openForTest(t, w.target)
			link, err := c.LinkByName("lo")
			must(t, err)
			must(t, c.LinkSetDown(link))
			return one("www.example.com", "A", falseIPv4)
		}, "loopback link is not up"},
		"a value that is none": {func(*testing.T, *world) v1beta1.DNSDisruption {
			return one("www.example.com", "MX", "70000 mail.example.com")
		}, `priority "70000"`},
		"a table of this name": {func(t *testing.T, w *world) v1beta1.DNSDisruption {
			w.nft(t, "table inet "+redirect.TableOf(w.injection)+" { }")
			return one("www.example.com", "A", falseIPv4)
		}, "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 53)
			params := test.prepare(t, w)
			before := state(t, w.target)
			i := w.injector(t, params)
			if err := i.Inject(context.Background()); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("Inject() = %v, want it to say %q and that nothing was changed", err, test.want)
			}
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("the namespace (-before +after):\n%s", diff)
			}
		})
	}
}

func TestWhatIsThereIsSeen(t *testing.T) {
	w := newWorld(t, 53)
	i := w.inject(t, one("www.example.com", "A", falseIPv4))
	wantAnswer(t, w.openUDP(t, firstIPv4), "during", "A "+falseIPv4)
	marks, err := Audit(context.Background(), w.proc, nil)
	if err != nil || len(marks) != 1 || marks[0].Disruption.UID != w.injection.Disruption.UID ||
		marks[0].Target != w.injection.Target.UID || !strings.Contains(marks[0].Object, "nftables table inet squall-dns_") {
		t.Errorf("Audit() = %+v, %v, want the table with both UIDs", marks, err)
	}
	left, err := i.Left(context.Background())
	text := strings.Join(left, "\n")
	for what, count := range map[string]int{"nftables table": 1, ": socket udp": 2, ": socket tcp": 2, "tracked connection from " + podIPv4: 1} {
		if strings.Count(text, what) != count || err != nil {
			t.Errorf("Left() = %s, %v, want %q %d times", text, err, what, count)
		}
	}
	cleanTwice(t, i)
	if marks, err := Audit(context.Background(), w.proc, nil); len(marks) > 0 || err != nil {
		t.Errorf("Audit() after cleaning = %+v, %v, want nothing", marks, err)
	}
}

// The responder does not answer a client that connects to its port directly.
func TestOnlyRedirectedQuestionsAreAnswered(t *testing.T) {
	w := newWorld(t, 53)
	i := w.injectThenCompare(t, one("www.example.com", "A", falseIPv4))
	for _, socket := range i.active[0].tracked.Sockets {
		if !socket.Address.Addr().IsLoopback() {
			t.Errorf("%s is not on loopback", socket)
		}
		way := asker{network: socket.Network, server: socket.Address.Addr().String(), port: int(socket.Address.Port()), patience: 300 * time.Millisecond}
		if answer, err := w.ask(way, "www.example.com", dns.TypeA); err == nil {
			t.Errorf("%s answers %v to who asks it itself", socket, answer)
		}
	}
}

func TestResolverThatIsNotThere(t *testing.T) {
	w := newWorld(t, 5300) // so port 53 has no server
	w.injectThenCompare(t, one("www.example.com", "A", falseIPv4))
	if got := w.answer(t, byUDP(firstIPv4), "other.example.com", dns.TypeA); got != "SERVFAIL" {
		t.Errorf("by UDP: %q, want SERVFAIL at once", got)
	}
	if answer, err := w.ask(byTCP(firstIPv4), "other.example.com", dns.TypeA); err == nil {
		t.Errorf("by TCP: %v, want an error", answer)
	}
	if got := w.answer(t, byUDP(firstIPv4), "www.example.com", dns.TypeA); got != "A "+falseIPv4 {
		t.Errorf("a record's answer = %q, which needs no resolver", got)
	}
}

// The network namespace belongs to the pod, whose containers may restart.
func TestContainerEndsWhileThePodStays(t *testing.T) {
	w := newWorld(t, 53)
	before := state(t, w.target)
	i := w.inject(t, one("www.example.com", "A", falseIPv4))
	w.container.Kill(t)
	if got := w.answer(t, byUDP(firstIPv4), "www.example.com", dns.TypeA); got != "A "+falseIPv4 {
		t.Errorf("after the container ended: %q, want it still falsified", got)
	}
	cleanTwice(t, i)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("the namespace (-before +after):\n%s", diff)
	}
}

func TestProbeReportsWhatTheKernelTakes(t *testing.T) {
	newWorld(t, 53)
	if text, err := New(v1beta1.DNSDisruption{}, nil, nil).Probe(); err != nil || !strings.Contains(text, "nftables") {
		t.Errorf("Probe() = %q, %v", text, err)
	}
	err := New(v1beta1.DNSDisruption{}, &target.Target{Injection: v1beta1.Injection{Target: v1beta1.InjectionTarget{NodeName: "node-a"}}}, nil).
		refused(fmt.Errorf("operation not supported"))
	for _, want := range []string{"Linux 5.12", "CONFIG_NFT_REDIR", "node node-a", target.KernelRelease(), "operation not supported"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("refused() = %v, want it to say %q", err, want)
		}
	}
}

// openUDP opens a socket in the target, connected if a server is named.
func (w *world) openUDP(t *testing.T, server string) *dns.Conn {
	t.Helper()
	conn := &dns.Conn{}
	must(t, target.Do(w.target, func() (err error) {
		if server == "" {
			conn.Conn, err = net.ListenUDP("udp4", nil)
			return err
		}
		conn.Conn, err = net.Dial("udp", net.JoinHostPort(server, "53"))
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (w *world) openTCP(t *testing.T, server string) *dns.Conn {
	t.Helper()
	conn := &dns.Conn{}
	must(t, target.Do(w.target, func() (err error) {
		conn.Conn, err = net.Dial("tcp", net.JoinHostPort(server, "53"))
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// wantAnswer asks for the address of www.example.com over an open connection.
func wantAnswer(t *testing.T, conn *dns.Conn, when, want string) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	must(t, conn.WriteMsg(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)))
	answer, err := conn.ReadMsg()
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if got := recordText(answer); got != want {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// wantCut wants the other end to have closed the connection.
func wantCut(t *testing.T, conn *dns.Conn, what string) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	conn.WriteMsg(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA))
	answer, err := conn.ReadMsg()
	if err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a connection %s: %v, %v, want it cut", what, answer, err)
	}
}

func receive(t *testing.T, conn *dns.Conn) (*dns.Msg, string) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	buffer := make([]byte, 4096)
	n, from, err := conn.Conn.(*net.UDPConn).ReadFrom(buffer)
	must(t, err)
	answer := new(dns.Msg)
	must(t, answer.Unpack(buffer[:n]))
	return answer, from.String()
}
