//go:build linux

package network

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/resolve"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// Foreign qdiscs and filters on the link stay byte for byte. They work meanwhile, though
// they end the packet's path ahead of our programs.
func TestForeignQdiscsAndFiltersSurvive(t *testing.T) {
	everyMechanismOn(t, func(t *testing.T, w *world) {
		link := w.link(t)
		runTC(t, w, "qdisc add dev "+linkName+" root handle 5: tbf rate 100mbit burst 1mbit latency 50ms")
		runTC(t, w, "qdisc add dev "+linkName+" clsact")
		runTC(t, w, "filter add dev "+linkName+" egress protocol ip pref 7 u32 match ip dst 10.1.2.3/32 flowid 1:1")
		addForeignFilter(t, w, link, netlink.HANDLE_MIN_EGRESS)
		addForeignFilter(t, w, link, netlink.HANDLE_MIN_INGRESS)
	}, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{
			{Host: hostIPv4, Port: 7000}, {Host: hostIPv4, Port: 8000, Flow: "ingress"},
		}}, try)
		if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 300 {
			t.Errorf("egress beside a foreign filter: %d of 300 lost, want all", got)
		}
		if got := lost(t, w.in(hostIPv4, 8000, 300)); got != 300 {
			t.Errorf("ingress beside a foreign filter: %d of 300 lost, want all", got)
		}
		if got := lost(t, w.out(otherIPv4, 7000, 300)); got != 0 {
			t.Errorf("other host: %d of 300 lost, want 0", got)
		}
		theirs := w.out(otherIPv4, 7000, 300)
		theirs.payload = foreignPayload
		if got := lost(t, theirs); got != 300 {
			t.Errorf("what the foreign filter drops: %d of 300 lost, want all", got)
		}
		clean(t, i)
	})
}

func TestForeignFilterOfAnotherSortAtTheFirstPriority(t *testing.T) {
	everyMechanismOn(t, func(t *testing.T, w *world) {
		runTC(t, w, "qdisc add dev "+linkName+" clsact")
		runTC(t, w, "filter add dev "+linkName+" egress protocol ip pref 1 u32 match ip dst 10.1.2.3/32 flowid 1:1")
	}, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}}}, try)
		if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 300 {
			t.Errorf("%d of 300 lost, want all", got)
		}
		clean(t, i)
	})
}

func TestForeignIngressQdiscHoldsIngressFilters(t *testing.T) {
	everyMechanismOn(t, func(t *testing.T, w *world) {
		runTC(t, w, "qdisc add dev "+linkName+" ingress")
	}, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Port: 8000, Flow: "ingress"}}}, try)
		if got := lost(t, w.in(hostIPv4, 8000, 300)); got != 300 {
			t.Errorf("%d of 300 lost, want all", got)
		}
		clean(t, i)
	})
}

// rule 58: after a link refuses, the others must be clean.
func TestRefusalHalfwayLeavesNothing(t *testing.T) {
	w := newWorld(t)
	runTC(t, w, "qdisc add dev "+linkName+" ingress")
	before := state(t, w.target)
	i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100}, attach.Clsact)
	err := i.Inject(context.Background())
	if err == nil || !strings.Contains(err.Error(), "ingress qdisc of another program") || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("Inject() = %v, want an error that names the foreign qdisc and says that nothing was changed", err)
	}
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after the refusal (-before +after):\n%s", diff)
	}
	if changes := i.journal.Changes(); len(changes) == 0 {
		t.Error("nothing was tried on the loopback link, so the test proves nothing")
	}
	clean(t, i)
}

// rule 58: the injector died between the clsact and its filter, so that only the journal
// shows that the clsact is ours.
func TestCleanAfterDeathBetweenClsactAndFilter(t *testing.T) {
	w := newWorld(t)
	before := state(t, w.target)
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, attach.Clsact)
	for _, link := range []string{"lo", linkName} {
		runTC(t, w, "filter del dev "+link+" egress")
	}
	if objects, err := attach.Audit(w.target); err != nil || len(objects) > 0 || state(t, w.target) == before {
		t.Fatalf("the filters are %v, %v, want none, and the clsact alone", objects, err)
	}
	i.journal.Close()
	w.cleanFromJournal(t)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after cleaning (-before +after):\n%s", diff)
	}
}

func TestKilledInjectorLeavesNothingByTCX(t *testing.T) {
	needMechanism(t, "tcx")
	w := newWorld(t)
	before := state(t, w.target)
	child := w.injectInChild(t, "tcx")
	if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 300 {
		t.Errorf("while the injector lives: %d of 300 lost, want all", got)
	}
	child.Process.Kill()
	child.Wait()
	testcontainer.Eventually(t, "the namespace is as before", func() error {
		if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 0 {
		t.Errorf("after its death: %d of 300 lost, want 0", got)
	}
	w.cleanFromJournal(t)
}

func TestKilledInjectorIsCleanedFromTheJournalByClsBPF(t *testing.T) {
	w := newWorld(t)
	before := state(t, w.target)
	child := w.injectInChild(t, "cls_bpf")
	child.Process.Kill()
	child.Wait()
	if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 300 {
		t.Errorf("after the injector's death: %d of 300 lost, want all, else the test proves nothing", got)
	}
	w.cleanFromJournal(t)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after cleaning (-before +after):\n%s", diff)
	}
	if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 0 {
		t.Errorf("after cleaning: %d of 300 lost, want 0", got)
	}
}

// The clsact was made for the first disruption, is used by the second, and is removed with
// the last.
func TestTwoDisruptionsShareAClsact(t *testing.T) {
	w := newWorld(t)
	before := state(t, w.target)
	first := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}}}, attach.Clsact)
	w.injection.Disruption.UID = "d2"
	second := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: otherIPv4}}}, attach.Clsact)
	clean(t, first)
	if got := lost(t, w.out(hostIPv4, 7000, 300)); got != 0 {
		t.Errorf("host of the first, cleaned: %d of 300 lost, want 0", got)
	}
	if got := lost(t, w.out(otherIPv4, 7000, 300)); got != 300 {
		t.Errorf("host of the second: %d of 300 lost, want all", got)
	}
	clean(t, second)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after both (-before +after):\n%s", diff)
	}
}

func TestClsactThatAppearedAfterCleaningIsLeft(t *testing.T) {
	w := newWorld(t)
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, attach.Clsact)
	clean(t, i)
	runTC(t, w, "qdisc add dev "+linkName+" clsact")
	before := state(t, w.target)
	clean(t, i)
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("somebody else's clsact (-before +after):\n%s", diff)
	}
}

func TestCleanOfATargetThatIsGone(t *testing.T) {
	w := newWorld(t)
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, attach.Clsact)
	w.container.Stop(t)
	clean(t, i)
	i.journal.Close()
	w.cleanFromJournal(t)
}

func TestTargetHoldingTheLockCannotKeepUsFromCleaning(t *testing.T) {
	w := newWorld(t)
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, attach.Clsact)
	var lock int
	must(t, target.Do(w.target, func() (err error) {
		lock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	}))
	defer unix.Close(lock)
	must(t, unix.Bind(lock, &unix.SockaddrUnix{Name: "@squall-network"}))
	must(t, i.Clean(context.Background()))
	if left, err := attach.Audit(w.target); err != nil || len(left) > 0 {
		t.Errorf("attach.Audit() = %q, %v, want nothing", left, err)
	}
}

func TestAuditFindsWhatADeadInjectorLeft(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, try)
		if mine := marksOf(t, w.injection); len(mine) != 2 || mine[0].Target != w.injection.Target.UID {
			t.Errorf("Audit() = %+v, want one object on the link and one on loopback", mine)
		}
		left, err := i.Left(context.Background())
		if err != nil || len(left) < 2 {
			t.Errorf("Left() = %q, %v, want the objects on both links", left, err)
		}
		other := *i.target
		other.Injection.Target.UID = "another"
		if left, err := New(v1beta1.NetworkDisruption{}, &other, i.journal).Left(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("Left() of another target in the same namespace = %q, %v, want nothing", left, err)
		}
		clean(t, i)
		if mine := marksOf(t, w.injection); len(mine) > 0 {
			t.Errorf("after cleaning: Audit() = %+v", mine)
		}
		if left, err := i.Left(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("after cleaning: Left() = %q, %v", left, err)
		}
	})
}

// marksOf returns the marks of one injection that an audit of the node finds.
func marksOf(t *testing.T, injection v1beta1.Injection) []v1beta1.Mark {
	t.Helper()
	marks, err := Audit(context.Background(), "", []v1beta1.Injection{injection})
	must(t, err)
	return slices.DeleteFunc(marks, func(m v1beta1.Mark) bool { return m.Disruption.UID != injection.Disruption.UID })
}

// Left lists a clsact of ours without filters too, but not one that another program uses.
func TestLeftFindsAnEmptyClsact(t *testing.T) {
	w := newWorld(t)
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, attach.Clsact)
	runTC(t, w, "filter del dev "+linkName+" egress")
	left, err := i.Left(context.Background())
	if err != nil || !slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "clsact of link") && strings.Contains(s, linkName) }) {
		t.Errorf("Left() = %q, %v, want the clsact of %s", left, err, linkName)
	}
	runTC(t, w, "filter add dev "+linkName+" egress protocol ip pref 7 u32 match ip dst 10.1.2.3/32 flowid 1:1")
	if left, err := i.Left(context.Background()); err != nil || strings.Contains(strings.Join(left, " "), linkName) {
		t.Errorf("Left() = %q, %v, want nothing on %s, which somebody else uses", left, err, linkName)
	}
	clean(t, i)
}

func TestProbeNamesWhatWorks(t *testing.T) {
	testneeds.BeRoot(t)
	text, err := New(v1beta1.NetworkDisruption{}, nil, nil).Probe()
	if err != nil || !strings.Contains(text, "cls_bpf") {
		t.Errorf("Probe() = %q, %v, want at least cls_bpf", text, err)
	}
	refuses := func(attach.Point) (attach.Attachment, error) { return nil, unix.EPERM }
	_, err = (&Injector{mechanisms: []attach.Mechanism{refuses}}).Probe()
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "cls_bpf") {
		t.Errorf("Probe() = %v, want what the kernel lacks and its answer", err)
	}
}

// cleanFromJournal cleans like another process that knows only the injection and the
// journal.
func (w *world) cleanFromJournal(t *testing.T) {
	t.Helper()
	j, err := journal.Reopen(w.journals, w.injection)
	must(t, err)
	defer j.Close()
	found, err := target.Recover(w.injection, j.Record().Containers, w.proc)
	must(t, err)
	clean(t, New(v1beta1.NetworkDisruption{}, found, j))
}

func (w *world) link(t *testing.T) netlink.Link {
	t.Helper()
	link, err := openForTest(t, w.target).LinkByName(linkName)
	must(t, err)
	return link
}

// foreignPayload is the size of the datagrams that the foreign filter drops.
const foreignPayload = 1234

// addForeignFilter adds a filter that drops datagrams of a certain size and passes all
// others. It ends the run of filters, so that no later filter sees a packet.
func addForeignFilter(t *testing.T, w *world, link netlink.Link, parent uint32) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "foreign", Type: ebpf.SchedCLS, License: "MIT",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R1, asm.R1, 0, asm.Word), // the packet's length
			asm.Mov.Imm(asm.R0, 2),                   // TC_ACT_SHOT: drop
			asm.JEq.Imm(asm.R1, 14+20+8+foreignPayload, "end"),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return().WithSymbol("end"),
		}})
	must(t, err)
	defer program.Close()
	must(t, openForTest(t, w.target).FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: link.Attrs().Index, Parent: parent, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
		Fd:          program.FD(), Name: "foreign", DirectAction: true,
	}))
}

func runTC(t *testing.T, w *world, command string) {
	t.Helper()
	must(t, target.Do(w.target, func() error {
		output, err := exec.Command("tc", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			t.Logf("tc %s: %s", command, output)
		}
		return err
	}))
}

// childTask is the injection that a child of the test holds until it is killed.
type childTask struct {
	Injection v1beta1.Injection
	Mechanism string
	Journals  string
}

func (w *world) injectInChild(t *testing.T, mechanism string) *exec.Cmd {
	t.Helper()
	task, err := json.Marshal(childTask{w.injection, mechanism, w.journals})
	must(t, err)
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "NETWORK_TEST="+string(task))
	child.Stderr = os.Stderr
	_, err = child.StdinPipe()
	must(t, err)
	output, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "injected\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	return child
}

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == resolve.Command {
		if err := resolve.Child(context.Background(), nil); err != nil {
			log.Fatal(err)
		}
		return
	}
	if address := os.Getenv("NETWORK_TEST_SEND"); address != "" {
		send(address)
		return
	}
	if address := os.Getenv("NETWORK_TEST_RECEIVE"); address != "" {
		receiveUntilEOF(address)
		return
	}
	text := os.Getenv("NETWORK_TEST")
	if text == "" {
		os.Exit(m.Run())
	}
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		log.Fatal(err)
	}
	found, err := target.Load(context.Background(), task.Injection, "")
	if err != nil {
		log.Fatal(err)
	}
	j, err := journal.Open(task.Journals, found)
	if err != nil {
		log.Fatal(err)
	}
	i := New(v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}}}, found, j)
	i.mechanisms = map[string][]attach.Mechanism{"tcx": {attach.TCX}, "cls_bpf": {attach.Clsact}}[task.Mechanism]
	if err := i.Inject(context.Background()); err != nil {
		log.Fatal(err)
	}
	os.Stdout.WriteString("injected\n")
	io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent dies
}

// send is the program of another child: it sends 50 datagrams from its namespace and
// cgroup.
func send(address string) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		log.Fatal(err)
	}
	for range 50 {
		if _, err := conn.Write([]byte("squall")); err != nil {
			log.Fatal(err)
		}
	}
}

// receiveUntilEOF is the program of a third child. It prints how many datagrams arrived
// before its input ended, and until no more arrived.
func receiveUntilEOF(address string) {
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.WriteString("listens\n")
	io.Copy(io.Discard, os.Stdin)
	count := 0
	for {
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, _, err := conn.ReadFrom(make([]byte, 16)); err != nil {
			break
		}
		count++
	}
	fmt.Println(count)
}
