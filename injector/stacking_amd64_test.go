//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/sample"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// stacked are the kinds as they meet on one target: with parameters whose effect can be
// measured while the other acts.
var stacked = []workload{
	{name: "container-failure", kind: v1beta1.KindContainerFailure, params: `{"forced":true}`},
	{name: "cpu-pressure", kind: v1beta1.KindCPUPressure, params: `{"count":"10%"}`},
	{name: "disk-failure by fanotify", kind: v1beta1.KindDiskFailure, params: `{"paths":["/etc/hostname"],"openat":{"exitCode":"EPERM"}}`},
	{name: "disk-failure by mounts", kind: v1beta1.KindDiskFailure, params: `{"paths":["/etc/hostname"]}`},
	{name: "disk-pressure", kind: v1beta1.KindDiskPressure, params: `{"path":"/","throttling":{"readBytesPerSec":10485760}}`},
	{name: "dns-disruption", kind: v1beta1.KindDNS, params: sampleParams[v1beta1.KindDNS]},
	{name: "grpc-disruption", kind: v1beta1.KindGRPC, params: sampleParams[v1beta1.KindGRPC]},
	{name: "memory-pressure", kind: v1beta1.KindMemoryPressure, params: `{"targetPercent":"30%"}`},
	{name: "network", kind: v1beta1.KindNetwork, params: `{"drop":100,"delay":100,"bandwidthLimit":1048576,"hosts":[{"port":9}]}`},
	{name: "node-failure", kind: v1beta1.KindNodeFailure, params: `{}`},

	{name: "cpu-pressure of a node", kind: v1beta1.KindCPUPressure, params: `{"count":"1%"}`, level: v1beta1.LevelNode},
	{name: "disk-failure of a node", kind: v1beta1.KindDiskFailure, level: v1beta1.LevelNode,
		params: `{"paths":["/etc/hostname"],"openat":{"exitCode":"EPERM"}}`},
	{name: "memory-pressure of a node", kind: v1beta1.KindMemoryPressure, params: `{"targetPercent":"1%"}`, level: v1beta1.LevelNode},
	{name: "network of a node", kind: v1beta1.KindNetwork, params: `{"drop":100,"hosts":[{"port":9}]}`, level: v1beta1.LevelNode},
	{name: "node-failure of a node", kind: v1beta1.KindNodeFailure, params: `{}`, level: v1beta1.LevelNode},
	{name: "disk-pressure of a node", kind: v1beta1.KindDiskPressure, level: v1beta1.LevelNode,
		params: `{"path":"/","throttling":{"readBytesPerSec":10485760}}`},
}

// pairs returns each pair of kinds of one level that can meet on a target of this machine.
// A container failure comes second, since it ends what the other one disrupts.
func pairs() [][2]workload {
	var all [][2]workload
	for n, a := range stacked {
		for _, b := range stacked[n:] {
			if a.level != b.level || a.kind == b.kind && a.name != b.name || !possible(a) || !possible(b) {
				continue
			}
			pair := [2]workload{a, b}
			if a.kind == v1beta1.KindContainerFailure {
				pair = [2]workload{b, a}
			}
			all = append(all, pair)
		}
	}
	return all
}

func possible(w workload) bool {
	return slices.ContainsFunc(workloads(), func(known workload) bool { return known.kind == w.kind && known.level == w.level })
}

// Two disruptions on one target do what the table of pairs defines. Either both act, and
// when one ends the other continues. Nothing is left of either, also when both injectors
// are killed, in either order of cleaning. Or the second is refused with a reason and the
// first stays as it is.
func TestTwoDisruptionsOnOneTarget(t *testing.T) {
	seed := sample.Of(t, *seed)
	for _, pair := range pairs() {
		name := pair[0].name + " and " + pair[1].name
		same := pair[0].kind == pair[1].kind
		if !same && !chosen(seed, t.Name(), name, max(*share, 10)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meet(t, pair[0], pair[1])
			switch {
			case v1beta1.Stack(m.first.workload.kind, m.second.workload.kind).Refused:
				want := fmt.Sprintf("disruption shop/slow (%s) has this fault on this target", m.first.uid())
				if pair[0].kind == v1beta1.KindContainerFailure {
					want = m.first.target.ID // its container is gone, which is checked first
				}
				m.refuses(t, want)
			case m.second.workload.kind == v1beta1.KindContainerFailure:
				m.endsTheContainer(t)
			default:
				m.endsInEitherOrder(t)
				m.isCleanedInEitherOrder(t)
			}
		})
	}
}

// The same kind on a node and on a pod of it are two targets, and both act.
func TestOneKindOnANodeAndOnItsPod(t *testing.T) {
	named := map[string]workload{}
	for _, w := range stacked {
		named[w.name] = w
	}
	network := named["network of a node"]
	network.level = "" // on a node's network two queues are refused, and this pod uses it
	for node, pod := range map[string]workload{
		"cpu-pressure of a node": named["cpu-pressure"], "memory-pressure of a node": named["memory-pressure"],
		"disk-failure of a node": named["disk-failure by fanotify"], "network of a node": network,
	} {
		t.Run(node, func(t *testing.T) {
			t.Parallel()
			m := meet(t, pod, named[node])
			m.second.injection.Target.UID = "n-1"
			m.endsInEitherOrder(t)
			m.isCleanedInEitherOrder(t)
		})
	}
}

// A path covered by disk failure has no disk. Disk pressure on it is refused with a reason.
func TestDiskPressureOfACoveredPathIsRefused(t *testing.T) {
	covers := workload{name: "disk-failure by mounts", kind: v1beta1.KindDiskFailure, params: `{"paths":["/etc/hostname"]}`}
	limits := workload{name: "disk-pressure", kind: v1beta1.KindDiskPressure, params: `{"path":"/etc/hostname","throttling":{"readBytesPerSec":10485760}}`}
	meet(t, covers, limits).refuses(t, "/etc/hostname")
}

// The injector can end a gRPC disruption while all packets of its application are lost.
func TestGRPCEndsWhileAllPacketsAreLost(t *testing.T) {
	grpc, lossy := workloadNamed(t, "grpc-disruption"), workloadNamed(t, "network by tcx")
	m := meet(t, grpc, lossy)
	before := m.state()
	lost := m.second.begin()
	disrupted := acting{m.first.inject(m.first.injection), m.first}
	disrupted.awaitReady()
	lost.ends()
	disrupted.acts(t)
	lost = m.second.begin()
	disrupted.ends()
	lost.ends()
	m.expectClean(t, before)
}

// meeting is two arenas around one target and on one node.
type meeting struct{ first, second *arena }

func meet(t *testing.T, first, second workload) meeting {
	t.Helper()
	if second.kind == v1beta1.KindGRPC {
		first, second = second, first // the first one's target is an application
	}
	a := newArena(t, first)
	b := &arena{site: realSite(t), workload: second, target: a.target, neighbour: a.neighbour}
	// A node has one journal directory, that of the first.
	if err := os.Mkdir(b.file("journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.env = append(slices.DeleteFunc(b.env, func(line string) bool { return strings.HasPrefix(line, "SQUALL_JOURNAL_DIR=") }),
		"SQUALL_JOURNAL_DIR="+a.file("journal"))
	b.address()
	b.injection.Disruption = v1beta1.DisruptionRef{Namespace: "shop", Name: "other", UID: types.UID("e-" + a.neighbour.ID)}
	if second.kind != first.kind { // else it exists
		b.furnish(t)
	}
	b.raise(t)
	for _, side := range []*arena{a, b} {
		side.held = nil
	}
	return meeting{a, b}
}

// endsInEitherOrder ends each of the two while the other one acts.
func (m meeting) endsInEitherOrder(t *testing.T) {
	t.Helper()
	before := m.state()
	first, second := m.first.begin(), m.second.begin()
	first.acts(t)
	second.ends()
	first.acts(t)
	second = m.second.begin()
	first.acts(t)
	first.ends()
	second.acts(t)
	second.ends()
	m.expectClean(t, before)
}

// isCleanedInEitherOrder kills both injectors, and cleans in both orders.
func (m meeting) isCleanedInEitherOrder(t *testing.T) {
	t.Helper()
	for _, order := range [][]*arena{{m.first, m.second}, {m.second, m.first}} {
		before := m.state()
		for _, side := range []acting{m.first.begin(), m.second.begin()} {
			side.signal(syscall.SIGKILL)
			side.exit()
		}
		for _, side := range order {
			side.settle(t)
			side.heal(t, "nothing")
		}
		m.expectClean(t, before)
	}
}

// refuses wants the second one refused with this text, and the first to continue.
func (m meeting) refuses(t *testing.T, want string) {
	t.Helper()
	before := m.state()
	first := m.first.begin()
	refused := m.second.inject(m.second.injection)
	if why, _ := refused.awaitLine(v1beta1.MessageInjectionFailed)["error"].(string); !strings.Contains(why, want) {
		t.Errorf("the second was refused with %q, want %q", why, want)
	}
	first.acts(t)
	refused.signal(syscall.SIGTERM)
	if code, outcome := refused.exit(), refused.outcome(); code != 0 || outcome.Injected || !outcome.Cleaned {
		t.Errorf("the second ended with %d, %+v, want cleaned and never injected", code, outcome)
	}
	first.acts(t)
	first.ends()
	m.expectClean(t, before)
}

// endsTheContainer wants the first one to end normally when the second has ended its
// container. TestContainerThatRestartsIsDisturbedAgain covers the next container.
func (m meeting) endsTheContainer(t *testing.T) {
	t.Helper()
	first, second := m.first.begin(), m.second.begin()
	m.first.target.AwaitEnd(t)
	if m.first.workload.kind != v1beta1.KindNodeFailure {
		first.awaitLine("container ended")
	}
	second.ends()
	first.ends()
	for _, side := range []*arena{m.first, m.second} {
		if audit := side.audit("--disruption", side.uid()); len(audit.Marks) > 0 || len(m.first.journals()) > 0 {
			t.Errorf("left: %+v, journals %v", audit.Marks, m.first.journals())
		}
	}
}

// ownFlow matches a tracked connection of a test, not of an injector.
var ownFlow = regexp.MustCompile(`(?m)^tracked: .*:(9|50051|7359) by way of .*\n`)

func (m meeting) state() string {
	var ignored []string
	if m.first.workload.kind == v1beta1.KindGRPC {
		ignored = []string{"tasks", "cgroup.threads"} // the application starts threads at any time
	}
	return ownFlow.ReplaceAllString(m.first.state(ignored...)+m.second.state(ignored...), "")
}

func (m meeting) expectClean(t *testing.T, before string) {
	t.Helper()
	for _, side := range []*arena{m.first, m.second} {
		if audit := side.audit("--disruption", side.uid()); len(audit.Marks) > 0 || audit.Error != "" {
			t.Errorf("audit after cleaning = %+v, want nothing", audit)
		}
	}
	testcontainer.Eventually(t, "the world is as it was", func() error {
		if diff := cmp.Diff(lines(before), lines(m.state())); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// acting is an injector that has injected.
type acting struct {
	*process
	arena *arena
}

// begin injects and wants to see the effect.
func (a *arena) begin() acting {
	a.t.Helper()
	removeStale(a.file("ready"), a.file("reason"), a.file("termination"), a.file("ready_asked"))
	if a.workload.kind == v1beta1.KindNodeFailure {
		a.sysrqTrigger() // as before the last boot
	}
	p := acting{a.inject(a.injection), a}
	p.awaitReady()
	p.acts(a.t)
	return p
}

func (p acting) ends() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !p.outcome().Audited {
		p.t.Errorf("%s ended with %d, %+v, want 0 and audited", p.arena.workload.name, code, p.outcome())
	}
}

// settle waits until effects that revert themselves are gone, so that the cleaner finds the
// rest.
func (a *arena) settle(t *testing.T) {
	t.Helper()
	testcontainer.Eventually(t, "its processes have ended", func() error {
		if left := slices.DeleteFunc(a.marks(t), func(object string) bool { return !strings.Contains(object, " process ") }); len(left) > 0 {
			return fmt.Errorf("there is %q", left)
		}
		return nil
	})
}

// acts wants to see the effect, measured at the target where it can be.
func (p acting) acts(t *testing.T) {
	t.Helper()
	measure := map[v1beta1.Kind]func() error{
		v1beta1.KindContainerFailure: func() error { return want(!p.arena.target.Running(), "the container runs") },
		v1beta1.KindCPUPressure:      p.burns,
		v1beta1.KindDiskFailure:      p.failsToOpen,
		v1beta1.KindDiskPressure: func() error {
			limits, err := readFile(p.arena.target.File(t, "blkio", "blkio.throttle.read_bps_device", "io.max"))
			return errors.Join(err, want(strings.Contains(limits, "10485760"), "limits "+limits))
		},
		v1beta1.KindDNS: p.answersFalsely,
		v1beta1.KindGRPC: func() error {
			answer := grpcapp.Answer(t, p.arena.target.PID)
			return want(strings.Contains(answer, "Unavailable"), "answer "+answer)
		},
		v1beta1.KindMemoryPressure: p.fills,
		v1beta1.KindNetwork:        p.loses,
		v1beta1.KindNodeFailure: func() error {
			p.probe()
			return want(p.pressed() == "c", "the node is not ended")
		},
	}[p.injection.Kind]
	// On a node, others use memory and disks too. There the marks of these kinds are checked
	// instead.
	if p.injection.Level == v1beta1.LevelNode && slices.Contains([]v1beta1.Kind{v1beta1.KindMemoryPressure, v1beta1.KindNetwork, v1beta1.KindDiskPressure}, p.injection.Kind) {
		measure = func() error { return want(len(p.marks()) > 0, "no mark") }
	}
	testcontainer.Eventually(t, p.arena.workload.name+" acts", measure)
}

func want(holds bool, otherwise string) error {
	if !holds {
		return errors.New(otherwise)
	}
	return nil
}

// burns wants the burners' processor time to grow.
func (p acting) burns() error {
	used := func() map[string]string {
		times := map[string]string{}
		for _, mark := range p.arena.marks(p.t) {
			var pid int
			if _, err := fmt.Sscanf(mark, "burner process %d", &pid); err != nil {
				continue
			}
			stat, _ := readFile(fmt.Sprintf("/proc/%d/stat", pid))
			if fields := strings.Fields(stat); len(fields) > 15 {
				times[mark] = fields[13] + " " + fields[14]
			}
		}
		return times
	}
	before := used()
	time.Sleep(50 * time.Millisecond) // two ticks of the kernel's clock and more
	after := used()
	return want(len(before) > 0 && len(before) == len(after) && !maps.Equal(before, after), fmt.Sprintf("used %v, then %v", before, after))
}

// failsToOpen reads the file as a process of the target does.
func (p acting) failsToOpen() error {
	output, err := exec.Command("nsenter", "--target", fmt.Sprint(p.arena.target.PID), "--mount", "cat", "/etc/hostname").CombinedOutput()
	refused := strings.Contains(string(output), "not permitted") || strings.Contains(string(output), "No such file")
	return want(err != nil && refused, fmt.Sprintf("reading /etc/hostname: %v, %s", err, output))
}

func (p acting) answersFalsely() error {
	client := dns.Client{Timeout: 5 * time.Second}
	return target.Do(fmt.Sprintf("/proc/%d/ns/net", p.arena.target.PID), func() error {
		answer, _, err := client.Exchange(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), "127.0.0.2:53")
		if err != nil {
			return err
		}
		return want(len(answer.Answer) == 1, fmt.Sprint(answer))
	})
}

// fills wants about as much of the limit to be in use as the parameters ask for.
func (p acting) fills() error {
	text, err := readFile(p.arena.target.File(p.t, "memory", "memory.usage_in_bytes", "memory.current"))
	var used int64
	if _, scanErr := fmt.Sscan(text, &used); err != nil || scanErr != nil {
		return errors.Join(err, scanErr)
	}
	return want(used > testcontainer.MemoryLimit/4, fmt.Sprintf("%d bytes are in use", used))
}

// loses wants no answer from a port that otherwise refuses at once.
func (p acting) loses() error {
	return target.Do(fmt.Sprintf("/proc/%d/ns/net", p.arena.target.PID), func() error {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:9", 300*time.Millisecond)
		if err == nil {
			conn.Close()
		}
		var timeout net.Error
		return want(errors.As(err, &timeout) && timeout.Timeout(), fmt.Sprintf("connecting: %v", err))
	})
}
