//go:build linux

package dnsdisruption

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// Addresses of the test's network: the target on one end of a cable, resolvers on the
// other. A true resolver's answer for an A record identifies the resolver.
const (
	podIPv4, podIPv6       = "10.9.0.2", "fd09::2"
	nodeIPv4               = "10.9.0.1"
	firstIPv4, firstIPv6   = "10.9.0.10", "fd09::10"
	secondIPv4             = "10.9.0.11"
	firstTruth, secondTrue = "203.0.113.1", "203.0.113.2"
	falseIPv4, falseIPv6   = "198.51.100.7", "2001:db8:f::7"
)

// world is a container whose questions lead to resolvers in another namespace.
type world struct {
	container     *testcontainer.Container
	target, peer  string // paths of network namespaces
	first, second *resolver
	injection     v1beta1.Injection
	proc          string
	journals      string
}

// newWorld makes a pod with the search domains of one in namespace shop. The resolvers
// listen at port.
func newWorld(t *testing.T, port int) *world {
	t.Helper()
	testneeds.BeRoot(t)
	w := &world{container: testcontainer.Start(t, testcontainer.Sleeps...), journals: t.TempDir()}
	w.target = hold(t, fmt.Sprintf("/proc/%d/ns/net", w.container.PID))
	stop, ready := make(chan struct{}), make(chan error)
	go func() {
		ready <- target.InNewNetns(func(path string) error {
			w.peer = path
			ready <- nil
			<-stop
			return nil
		})
	}()
	must(t, <-ready)
	t.Cleanup(func() { close(stop); <-ready })
	w.wire(t)
	w.pretend(t)
	w.first = runResolver(t, w.peer, firstTruth, port, firstIPv4, firstIPv6)
	w.second = runResolver(t, w.peer, secondTrue, port, secondIPv4)
	w.injection = v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "test", Name: t.Name(), UID: types.UID("d1" + w.container.ID[:8])},
		Kind:       v1beta1.KindDNS,
		Level:      v1beta1.LevelPod,
		Target: v1beta1.InjectionTarget{
			Namespace: "shop", Name: "pod", UID: "t1", NodeName: "node-a", NodeIPs: []string{nodeIPv4}, PodIPs: []string{podIPv4},
			Containers: []v1beta1.InjectionContainer{{Name: "main", ID: w.container.ID}},
		},
		Deadline: metav1.NewTime(time.Now().Add(time.Hour)),
	}
	return w
}

// hold keeps a namespace as long as the test runs. The path that it returns outlives the
// process with the namespace.
func hold(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd())
}

func (w *world) wire(t *testing.T) {
	t.Helper()
	peer, inside := openForTest(t, w.peer), openForTest(t, w.target)
	namespace, err := os.Open(w.target)
	must(t, err)
	defer namespace.Close()
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "far", TxQLen: 1000}, PeerName: "eth0", PeerNamespace: netlink.NsFd(namespace.Fd())}
	must(t, peer.LinkAdd(cable))
	configure(t, peer, "lo")
	configure(t, peer, "far", nodeIPv4+"/24", firstIPv4+"/24", secondIPv4+"/24", firstIPv6+"/64")
	configure(t, inside, "lo")
	configure(t, inside, "eth0", podIPv4+"/24", podIPv6+"/64")
}

func configure(t *testing.T, c attach.Conn, name string, addresses ...string) {
	t.Helper()
	link, err := c.LinkByName(name)
	must(t, err)
	must(t, c.LinkSetUp(link))
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		must(t, err)
		address.Flags = unix.IFA_F_NODAD
		must(t, c.AddrAdd(link, address))
	}
}

// pretend makes a directory of processes in which the container sees a resolv.conf of its
// own, and the node is in the namespace of the resolvers.
func (w *world) pretend(t *testing.T) {
	t.Helper()
	w.proc = t.TempDir()
	source := fmt.Sprintf("/proc/%d", w.container.PID)
	for entry, to := range map[string]string{
		"stat": source + "/stat", "status": source + "/status", "cgroup": source + "/cgroup", "ns/net": source + "/ns/net",
	} {
		w.link(t, strconv.Itoa(w.container.PID), entry, to)
	}
	w.link(t, "1", "ns/net", w.peer)
	etc := filepath.Join(w.proc, strconv.Itoa(w.container.PID), "root/etc")
	must(t, os.MkdirAll(etc, 0o755))
	must(t, os.WriteFile(filepath.Join(etc, "resolv.conf"), []byte(
		"nameserver "+firstIPv4+"\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"), 0o644))
}

func (w *world) link(t *testing.T, pid, entry, to string) {
	t.Helper()
	path := filepath.Join(w.proc, pid, entry)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.Symlink(to, path))
}

// injector makes an injector as the program would: it searches the target again.
func (w *world) injector(t *testing.T, params v1beta1.DNSDisruption) *Injector {
	t.Helper()
	found, err := target.Load(context.Background(), w.injection, w.proc)
	must(t, err)
	j, err := journal.Open(w.journals, found)
	must(t, err)
	t.Cleanup(j.Close)
	i := New(params, found, j)
	t.Cleanup(func() { i.Clean(context.Background()) })
	return i
}

func (w *world) inject(t *testing.T, params v1beta1.DNSDisruption) *Injector {
	t.Helper()
	i := w.injector(t, params)
	must(t, i.Inject(context.Background()))
	return i
}

// injectThenCompare injects. At the end of the test, after a cleaning, it wants the
// original namespace.
func (w *world) injectThenCompare(t *testing.T, params v1beta1.DNSDisruption) *Injector {
	t.Helper()
	before := state(t, w.target)
	i := w.inject(t, params)
	t.Cleanup(func() {
		cleanTwice(t, i)
		if after := state(t, w.target); after != before {
			t.Errorf("the namespace is not as before:\n%s\nbefore:\n%s", after, before)
		}
	})
	return i
}

func cleanTwice(t *testing.T, i *Injector) {
	t.Helper()
	for range 2 {
		if err := i.Clean(context.Background()); err != nil {
			t.Errorf("Clean() = %v", err)
		}
		if left, err := i.Left(context.Background()); len(left) > 0 || err != nil {
			t.Errorf("Left() = %q, %v, want nothing", left, err)
		}
	}
}

// elsewhere runs the injection in a process of its own, and returns a function that kills
// it.
func (w *world) elsewhere(t *testing.T, params v1beta1.DNSDisruption) (kill func()) {
	t.Helper()
	document, err := json.Marshal(params)
	must(t, err)
	w.injection.Params = document
	document, err = json.Marshal(w.injection)
	must(t, err)
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), helperEnv+"="+string(document), "PROC="+w.proc, "JOURNALS="+w.journals)
	output, err := command.StdoutPipe()
	must(t, err)
	command.Stderr = os.Stderr
	must(t, command.Start())
	ended := false
	kill = func() {
		if !ended {
			ended = true
			command.Process.Kill()
			command.Wait()
		}
	}
	t.Cleanup(kill)
	line := make([]byte, 64)
	n, _ := output.Read(line)
	if string(line[:n]) != helperReady {
		t.Fatalf("the other process said %q, want that it injected", line[:n])
	}
	return kill
}

const (
	helperEnv   = "SQUALL_TEST_INJECTION"
	helperReady = "injected\n"
)

// TestMain runs this binary as an injector that holds until it is killed.
func TestMain(m *testing.M) {
	document := os.Getenv(helperEnv)
	if document == "" {
		os.Exit(m.Run())
	}
	if err := holdInjection(document); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(helperReady)
	select {}
}

func holdInjection(document string) error {
	var injection v1beta1.Injection
	if err := json.Unmarshal([]byte(document), &injection); err != nil {
		return err
	}
	var params v1beta1.DNSDisruption
	if err := json.Unmarshal(injection.Params, &params); err != nil {
		return err
	}
	found, err := target.Load(context.Background(), injection, os.Getenv("PROC"))
	if err != nil {
		return err
	}
	j, err := journal.Open(os.Getenv("JOURNALS"), found)
	if err != nil {
		return err
	}
	return New(params, found, j).Inject(context.Background())
}

// cleaner is an injector made from the journal of a process that died.
func (w *world) cleaner(t *testing.T, params v1beta1.DNSDisruption) *Injector {
	t.Helper()
	j, err := journal.Reopen(w.journals, w.injection)
	must(t, err)
	t.Cleanup(j.Close)
	found, err := target.Recover(w.injection, j.Record().Containers, w.proc)
	must(t, err)
	return New(params, found, j)
}

// resolver is a true resolver.
type resolver struct {
	truth string
	asked atomic.Int64
}

// runResolver runs a resolver until the test ends. It knows every name below example.com
// and cluster.local, except those that begin with "missing".
func runResolver(t *testing.T, netns, truth string, port int, addresses ...string) *resolver {
	t.Helper()
	r := &resolver{truth: truth}
	for _, address := range addresses {
		where := net.JoinHostPort(address, strconv.Itoa(port))
		var packets net.PacketConn
		var streams net.Listener
		must(t, target.Do(netns, func() (err error) {
			if packets, err = net.ListenPacket("udp", where); err != nil {
				return err
			}
			streams, err = net.Listen("tcp", where)
			return err
		}))
		for _, server := range []*dns.Server{{PacketConn: packets, Handler: r}, {Listener: streams, Handler: r}} {
			started := make(chan struct{})
			server.NotifyStartedFunc = func() { close(started) }
			ended := make(chan struct{})
			go func() { defer close(ended); server.ActivateAndServe() }()
			<-started
			t.Cleanup(func() { server.Shutdown(); <-ended })
		}
	}
	return r
}

// ServeDNS answers truly.
func (r *resolver) ServeDNS(w dns.ResponseWriter, asked *dns.Msg) {
	r.asked.Add(1)
	reply := new(dns.Msg).SetReply(asked)
	question := asked.Question[0]
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: 300}
	switch {
	case strings.HasPrefix(question.Name, "missing"):
		reply.Rcode = dns.RcodeNameError
	case strings.HasPrefix(question.Name, "large"):
		header.Rrtype = dns.TypeTXT
		for n := range 60 {
			reply.Answer = append(reply.Answer, &dns.TXT{Hdr: header, Txt: []string{fmt.Sprintf("line %d %s", n, strings.Repeat("x", 40))}})
		}
		if _, datagram := w.LocalAddr().(*net.UDPAddr); datagram {
			reply.Truncate(dns.MinMsgSize)
		}
	case question.Qtype == dns.TypeA:
		reply.Answer = []dns.RR{&dns.A{Hdr: header, A: net.ParseIP(r.truth)}}
	case question.Qtype == dns.TypeTXT:
		reply.Answer = []dns.RR{&dns.TXT{Hdr: header, Txt: []string{"true"}}}
	}
	w.WriteMsg(reply)
}

// asker is how a target asks, and which server.
type asker struct {
	network, server string
	port            int
	patience        time.Duration
}

func byUDP(server string) asker { return asker{network: "udp", server: server} }
func byTCP(server string) asker { return asker{network: "tcp", server: server} }

// everyWay returns each protocol with each family.
func everyWay() map[string]asker {
	return map[string]asker{
		"UDP, IPv4": byUDP(firstIPv4), "TCP, IPv4": byTCP(firstIPv4),
		"UDP, IPv6": byUDP(firstIPv6), "TCP, IPv6": byTCP(firstIPv6),
	}
}

func (a asker) where() string {
	port := 53
	if a.port != 0 {
		port = a.port
	}
	return net.JoinHostPort(a.server, strconv.Itoa(port))
}

// ask asks from within the target.
func (w *world) ask(a asker, name string, qtype uint16) (answer *dns.Msg, err error) {
	client := dns.Client{Net: a.network, Timeout: 20 * time.Second}
	if a.patience != 0 {
		client.Timeout = a.patience
	}
	question := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	err = target.Do(w.target, func() (err error) {
		answer, _, err = client.Exchange(question, a.where())
		return err
	})
	return answer, err
}

// answer returns the answer as in a zone file, without the name.
func (w *world) answer(t *testing.T, a asker, name string, qtype uint16) string {
	t.Helper()
	answer, err := w.ask(a, name, qtype)
	if err != nil {
		t.Fatalf("ask %s by %s for %s of %s: %v", a.server, a.network, dns.TypeToString[qtype], name, err)
	}
	return recordText(answer)
}

func recordText(answer *dns.Msg) string {
	if answer.Rcode != dns.RcodeSuccess {
		return dns.RcodeToString[answer.Rcode]
	}
	var texts []string
	for _, record := range answer.Answer {
		header := record.Header().String()
		texts = append(texts, dns.TypeToString[record.Header().Rrtype]+" "+strings.TrimPrefix(record.String(), header))
	}
	return strings.Join(texts, ", ")
}

// one is a disruption with one record.
func one(hostname, kind, value string) v1beta1.DNSDisruption {
	return v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{record(hostname, kind, value)}}
}

func record(hostname, kind, value string) v1beta1.DNSHostRecord {
	return v1beta1.DNSHostRecord{Hostname: hostname, Record: v1beta1.DNSRecord{Type: kind, Value: value}}
}

// state is what the kernel shows of packet filters, links, routes and listening sockets in
// a namespace, by the usual tools.
func state(t *testing.T, netns string) string {
	t.Helper()
	var text strings.Builder
	for _, command := range [][]string{{"nft", "list", "ruleset"}, {"ip", "-o", "-d", "addr"}, {"ip", "-4", "route", "show", "table", "all"}, {"ip", "rule"}} {
		must(t, target.Do(netns, func() error {
			output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
			fmt.Fprintln(&text, strings.Join(command, " "))
			for line := range strings.Lines(string(output)) {
				if !strings.Contains(line, "fe80::") { // the kernel adds such addresses later
					text.WriteString(line)
				}
			}
			return err
		}))
	}
	must(t, target.Do(netns, func() error {
		for _, file := range []string{"udp", "udp6", "tcp", "tcp6"} {
			table, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(table)) {
				if fields := strings.Fields(line); len(fields) > 3 && (fields[3] == "0A" || fields[3] == "07") {
					fmt.Fprintln(&text, file, fields[1])
				}
			}
		}
		return nil
	}))
	return text.String()
}

// nft runs a command of nftables in the target.
func (w *world) nft(t *testing.T, command string) {
	t.Helper()
	must(t, target.Do(w.target, func() error {
		output, err := exec.Command("nft", command).CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft %s: %w: %s", command, err, output)
		}
		return nil
	}))
}

// track adds foreign rules that have connections tracked, before, during and after.
func (w *world) track(t *testing.T) {
	t.Helper()
	w.nft(t, "table inet theirs { chain seen { type filter hook output priority 0; ct state established,new accept; }; }")
}

func openForTest(t *testing.T, netns string) attach.Conn {
	t.Helper()
	c, err := attach.Open(netns)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustAddrPort(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	address, err := netip.ParseAddrPort(text)
	must(t, err)
	return address
}
