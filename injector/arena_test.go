//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// workload is a kind with the parameters of a run of the matrix.
type workload struct {
	name   string
	kind   v1beta1.Kind
	params string
	// reverts is true when nothing but the journal outlives the injector.
	reverts bool
	// refused is a step that the kernel refuses, so that the injector takes its next
	// mechanism.
	refused string
	level   v1beta1.Level // empty for that of pods
	// native is true for a workload that the virtual machines of make test-kernel skip. Linux
	// 6.1 has no tcx, has netem in place of NFQUEUE, and does not show the disk of /.
	native bool
}

// linkCreate is the step that a kernel before 6.6 refuses for tcx.
const linkCreate = "bpf link create"

var allWorkloads = []workload{
	{name: "container-failure", kind: v1beta1.KindContainerFailure, params: `{"forced":true}`, reverts: true},
	{name: "cpu-pressure", kind: v1beta1.KindCPUPressure, params: `{"count":"10%"}`, reverts: true},
	{name: "disk-failure by fanotify", kind: v1beta1.KindDiskFailure, reverts: true,
		params: `{"paths":["/etc/squall"],"openat":{"exitCode":"EPERM"}}`},
	{name: "disk-failure by mounts", kind: v1beta1.KindDiskFailure, params: `{"paths":["/etc/passwd","/usr/lib"]}`},
	{name: "disk-pressure", native: true, kind: v1beta1.KindDiskPressure,
		params: `{"path":"/","throttling":{"readBytesPerSec":10485760,"writeIOPSPerSec":1000}}`},
	{name: "dns-disruption", kind: v1beta1.KindDNS, params: sampleParams[v1beta1.KindDNS], reverts: true},
	{name: "grpc-disruption", kind: v1beta1.KindGRPC, params: sampleParams[v1beta1.KindGRPC]},
	{name: "memory-pressure", kind: v1beta1.KindMemoryPressure, params: `{"targetPercent":"30%"}`, reverts: true},
	{name: "network by tcx", native: true, kind: v1beta1.KindNetwork, params: `{"drop":100}`, reverts: true},
	{name: "network by cls_bpf", kind: v1beta1.KindNetwork, params: `{"drop":100}`, refused: linkCreate},
	{name: "network by NFQUEUE", native: true, kind: v1beta1.KindNetwork, params: `{"delay":100}`, reverts: true},
	{name: "network by HTB", kind: v1beta1.KindNetwork, params: `{"bandwidthLimit":1048576,"hosts":[{},{"port":80,"flow":"ingress"}]}`},
	{name: "network by everything", kind: v1beta1.KindNetwork, params: `{"drop":50,"delay":100,"bandwidthLimit":1048576}`},
	{name: "node-failure", kind: v1beta1.KindNodeFailure, params: `{}`, reverts: true},
	{name: "cpu-pressure of a node", kind: v1beta1.KindCPUPressure, params: `{"count":"1%"}`, reverts: true, level: v1beta1.LevelNode},
	{name: "memory-pressure of a node", kind: v1beta1.KindMemoryPressure, params: `{"targetPercent":"1%"}`, reverts: true, level: v1beta1.LevelNode},
	{name: "disk-failure of a node", kind: v1beta1.KindDiskFailure, reverts: true, level: v1beta1.LevelNode,
		params: `{"paths":["/etc/squall"],"openat":{"exitCode":"EPERM"}}`},
	{name: "network of a node by tcx", native: true, kind: v1beta1.KindNetwork, params: `{"drop":100}`, reverts: true, level: v1beta1.LevelNode},
	{name: "network of a node by cls_bpf", kind: v1beta1.KindNetwork, params: `{"drop":100}`, refused: linkCreate, level: v1beta1.LevelNode},
	{name: "network of a node by HTB", kind: v1beta1.KindNetwork, params: `{"delay":100,"bandwidthLimit":1048576}`, level: v1beta1.LevelNode},
	{name: "node-failure of a node", kind: v1beta1.KindNodeFailure, params: `{"shutdown":true}`, reverts: true, level: v1beta1.LevelNode},
	{name: "disk-pressure of a node", native: true, kind: v1beta1.KindDiskPressure, level: v1beta1.LevelNode,
		params: `{"path":"/","throttling":{"readBytesPerSec":10485760,"writeIOPSPerSec":1000}}`},
}

// workloads lists the workloads that this machine can run. Only cgroup v2 can limit the
// disks of a node.
func workloads() []workload {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return slices.DeleteFunc(slices.Clone(allWorkloads), func(w workload) bool {
		return w.native && testneeds.Virtual() || err != nil && w.kind == v1beta1.KindDiskPressure && w.level == v1beta1.LevelNode
	})
}

// workloadNamed returns the workload with this name.
func workloadNamed(t *testing.T, name string) workload {
	t.Helper()
	at := slices.IndexFunc(allWorkloads, func(w workload) bool { return w.name == name })
	if at < 0 {
		t.Fatalf("there is no workload %q", name)
	}
	return allWorkloads[at]
}

// arena is a target, a neighbour, and a node's directories around them. A test can compare
// everything in it that an injector could change.
type arena struct {
	*site
	workload  workload
	target    *testcontainer.Container
	neighbour *testcontainer.Container
	injection v1beta1.Injection
	// held is called while a traced injector is ready, before it is asked to end.
	held func()
	// killed is true from the moment in which a traced injector is killed at a step.
	killed atomic.Bool
	// launched receives the process of a traced injector before its first step.
	launched func(pid int)
}

func newArena(t *testing.T, w workload) *arena {
	t.Helper()
	a := &arena{site: realSite(t), workload: w, neighbour: testcontainer.Start(t, testcontainer.Sleeps...)}
	if err := os.Mkdir(a.file("journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.renew(t)
	a.furnish(t)
	a.raise(t)
	return a
}

// furnish puts everything around the target that the workload must disrupt or leave alone.
func (a *arena) furnish(t *testing.T) {
	t.Helper()
	if a.workload.kind == v1beta1.KindNetwork {
		a.cable(t)
	}
	if a.workload.kind == v1beta1.KindDNS {
		a.asks(t)
	}
}

// raise makes the target stand for the node if the workload disrupts nodes.
func (a *arena) raise(t *testing.T) {
	t.Helper()
	w := a.workload
	ownNode := w.kind == v1beta1.KindNodeFailure || registry[w.kind].child.run != nil && w.kind != v1beta1.KindDiskFailure
	if w.level == v1beta1.LevelNode && !ownNode {
		a.standsForTheNode(t)
	}
}

// renew starts a target if none runs: one kind ends it.
func (a *arena) renew(t *testing.T) {
	t.Helper()
	if a.target != nil && (a.workload.kind != v1beta1.KindContainerFailure || a.target.Running()) {
		return
	}
	a.target = startTarget(t, a.workload.kind)
	a.address()
}

// address sets the injection of the workload into the target.
func (a *arena) address() {
	if a.workload.level == v1beta1.LevelNode {
		a.injection = injectionOn(a.workload.kind, a.workload.params)
	} else {
		a.injection = injectionOn(a.workload.kind, a.workload.params, a.target)
	}
	a.injection.Disruption.UID = types.UID("d-" + a.neighbour.ID)
	a.injection.SysrqTrigger = a.sysrqTrigger()
	a.injection.Deadline.Time = a.injection.Deadline.Add(1 << 40)
}

// standsForTheNode shows the injector the target as the node's first process, so that its
// namespaces and cgroups are those of the node. A kind with processes of its own finds its
// cgroup among all processes, and so disrupts the node itself. Disk failure sees the target
// among all processes.
func (a *arena) standsForTheNode(t *testing.T) {
	t.Helper()
	if a.workload.kind == v1beta1.KindDiskFailure {
		a.env = append(a.env, "SQUALL_PROC="+testcontainer.NodeProc(t, a.target.PID))
		return
	}
	a.env = append(a.env, "SQUALL_PROC="+testcontainer.Proc(t, a.target.PID))
	if a.workload.kind == v1beta1.KindDiskPressure {
		a.pods(t)
	}
}

// pods makes the cgroup of all pods below that of the node's first process. In cgroup v2
// the parent may have no process of its own then, so the target moves beside it.
func (a *arena) pods(t *testing.T) {
	t.Helper()
	root := a.target.Cgroups[len(a.target.Cgroups)-1]
	for _, name := range []string{"init.scope", "kubepods"} {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			a.target.Kill(t)
			testcontainer.Eventually(t, "cgroup "+dir+" removed", func() error { return os.Remove(dir) })
		})
	}
	for file, value := range map[string]string{"init.scope/cgroup.procs": fmt.Sprint(a.target.PID), "cgroup.subtree_control": "+io"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// cable gives the target a link with a foreign qdisc and filter.
func (a *arena) cable(t *testing.T) {
	t.Helper()
	a.inside(t, func() error {
		cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", TxQLen: 1000}, PeerName: "peer0"}
		if err := netlink.LinkAdd(cable); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(cable); err != nil {
			return err
		}
		theirs := "tc qdisc add dev eth0 root handle 5: tbf rate 100mbit burst 1mbit latency 50ms" +
			" && tc qdisc add dev peer0 clsact && tc filter add dev peer0 egress protocol ip pref 7 u32 match ip dst 10.1.2.3/32 flowid 1:1"
		output, err := exec.Command("sh", "-c", theirs).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// asks gives the target a foreign rule that has connections tracked. The target asks a
// question while the injection holds. That connection keeps the redirect until the cleaning
// frees it.
func (a *arena) asks(t *testing.T) {
	t.Helper()
	a.inside(t, func() error {
		const theirs = "table inet theirs { chain seen { type filter hook output priority 0; ct state new accept; }; }"
		if output, err := exec.Command("nft", theirs).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	a.held = func() {
		question := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
		client := dns.Client{Timeout: 20 * time.Second}
		err := target.Do(fmt.Sprintf("/proc/%d/ns/net", a.target.PID), func() error {
			answer, _, err := client.Exchange(question, "127.0.0.2:53")
			if err == nil && len(answer.Answer) != 1 {
				err = fmt.Errorf("told %v, want the record", answer)
			}
			return err
		})
		if err != nil && !a.killed.Load() {
			t.Errorf("ask while the injection holds: %v", err)
		}
	}
}

func (a *arena) inside(t *testing.T, f func() error) {
	t.Helper()
	if err := target.Do(fmt.Sprintf("/proc/%d/ns/net", a.target.PID), f); err != nil {
		t.Fatal(err)
	}
}

// marks lists the marks of this arena's injection outside journals.
func (a *arena) marks(t *testing.T) []string {
	t.Helper()
	audit := registry[a.workload.kind].audit
	if audit == nil {
		return nil
	}
	marks, err := audit(t.Context(), target.DefaultProc, []v1beta1.Injection{a.injection})
	if err != nil {
		t.Fatal(err)
	}
	var mine []string
	for _, mark := range marks {
		if mark.Disruption.UID == a.injection.Disruption.UID {
			mine = append(mine, mark.Object)
		}
	}
	return mine
}

// state describes everything that an injector of any kind could leave behind, except files
// of cgroups with these names.
func (a *arena) state(ignored ...string) string {
	a.t.Helper()
	var text strings.Builder
	a.files(&text, a.file("journal"), nil)
	a.processes(&text)
	a.mounts(&text)
	cgroups := a.neighbour.Cgroups
	if a.workload.kind != v1beta1.KindContainerFailure {
		cgroups = slices.Concat(a.target.Cgroups, cgroups)
	}
	if a.workload.kind == v1beta1.KindGRPC {
		ignored = append(ignored, "tasks", "cgroup.threads") // the application starts threads at any time
		fmt.Fprintf(&text, "the application answers %s\n", grpcapp.Answer(a.t, a.target.PID))
	}
	for _, dir := range cgroups {
		a.files(&text, dir, ignored)
	}
	if a.workload.kind == v1beta1.KindNetwork {
		a.network(&text)
	}
	if a.workload.kind == v1beta1.KindDNS {
		a.names(&text)
	}
	return text.String()
}

// files writes every readable and writable file below dir, except the ignored ones.
func (a *arena) files(text *strings.Builder, dir string, ignored []string) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || counts(entry.Name()) || slices.Contains(ignored, entry.Name()) {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o600 != 0o600 {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(text, "%s %v: %s\n", path, err, content)
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
}

// counts is true for files of cgroups that change without an injector.
func counts(name string) bool {
	return name == "cpuacct.usage" || strings.HasSuffix(name, ".max_usage_in_bytes") || strings.HasSuffix(name, ".peak") ||
		strings.HasSuffix(name, ".pressure") && name != "cgroup.pressure"
}

// processes writes the processes of this arena: a burner has a mark on its command line, an
// injector its environment.
func (a *arena) processes(text *strings.Builder) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, dir := range dirs {
		command, _ := os.ReadFile(dir + "/cmdline") // or it has ended
		environment, _ := os.ReadFile(dir + "/environ")
		if strings.Contains(string(command), string(a.injection.Disruption.UID)) || strings.Contains(string(environment), a.dir) {
			fmt.Fprintf(text, "process %s: %q\n", dir, command)
		}
	}
	fmt.Fprintf(text, "neighbour runs: %t\n", a.neighbour.Running())
}

// mounts writes the mounts that could be ours; other tests mount too.
func (a *arena) mounts(text *strings.Builder) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, a.dir) || strings.Contains(line, a.target.ID) || strings.Contains(line, "bpf") {
			text.WriteString(line)
		}
	}
	if a.workload.kind == v1beta1.KindDiskFailure {
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", a.target.PID))
		fmt.Fprintf(text, "mounts of the target: %v\n", err)
		for line := range strings.Lines(string(table)) {
			if !strings.Contains(line, "/Test") { // a directory of another test, which removes it
				text.WriteString(line)
			}
		}
	}
	pins, _ := filepath.Glob("/sys/fs/bpf/*squall*")
	fmt.Fprintf(text, "pinned: %q\n", pins)
}

// network writes links, qdiscs, filters and programs in the target's namespace.
func (a *arena) network(text *strings.Builder) {
	const show = "nft list ruleset; ip -o -d link show; tc -d qdisc show; for dev in lo eth0 peer0; do tc -d filter show dev $dev;" +
		" tc -d filter show dev $dev egress; tc -d filter show dev $dev ingress; done"
	a.inside(a.t, func() error {
		output, err := exec.Command("sh", "-c", show).CombinedOutput()
		text.Write(output)
		if err != nil {
			return err
		}
		for index := 1; index <= 3; index++ {
			for _, attach := range []ebpf.AttachType{ebpf.AttachTCXEgress, ebpf.AttachTCXIngress} {
				programs, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: attach})
				if errors.Is(err, unix.EINVAL) {
					return nil // a kernel before 6.6 has no tcx
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(text, "%d programs at %v of link %d\n", len(programs.Programs), attach, index)
			}
		}
		return nil
	})
}

// names writes what could redirect the target's questions: rules, listening sockets, and
// tracked connections.
func (a *arena) names(text *strings.Builder) {
	a.inside(a.t, func() error {
		output, err := exec.Command("sh", "-c", "nft list ruleset && ip -o addr show && ss -Hlntu").CombinedOutput()
		text.Write(output)
		if err != nil {
			return err
		}
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil {
				return err
			}
			for _, flow := range flows {
				fmt.Fprintf(text, "tracked: %v:%d by way of %v:%d\n", flow.Forward.DstIP, flow.Forward.DstPort, flow.Reverse.SrcIP, flow.Reverse.SrcPort)
			}
		}
		return nil
	})
}
