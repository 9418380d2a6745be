//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// sampleParams are parameters with which every kind injects.
var sampleParams = map[v1beta1.Kind]string{
	v1beta1.KindContainerFailure: `{"forced":true}`,
	v1beta1.KindCPUPressure:      `{"count":"10%"}`,
	v1beta1.KindDiskFailure:      `{"paths":["/etc/squall"],"openat":{"exitCode":"EPERM"}}`,
	v1beta1.KindDiskPressure:     `{"path":"/","throttling":{"readBytesPerSec":1048576}}`,
	v1beta1.KindDNS:              `{"records":[{"hostname":"www.example.com","record":{"type":"A","value":"192.0.2.1"}}]}`,
	v1beta1.KindGRPC:             `{"port":50051,"endpoints":[{"endpoint":"/grpc.health.v1.Health/Check","error":"UNAVAILABLE"}]}`,
	v1beta1.KindMemoryPressure:   `{"targetPercent":"30%"}`,
	v1beta1.KindNetwork:          `{"drop":100}`,
	v1beta1.KindNodeFailure:      `{}`,
}

// holdFor is how long an injection is watched while nothing may change.
const holdFor = 1500 * time.Millisecond

// rules 27, 50, 51, 54, 56, 59
func TestEveryKindHasTheSameLifecycle(t *testing.T) {
	for kind := range registry {
		for _, dryRun := range []bool{true, false} {
			t.Run(map[bool]string{true: "dry run of ", false: ""}[dryRun]+string(kind), func(t *testing.T) {
				t.Parallel()
				made := startTarget(t, kind)
				s := realSite(t)
				injection := injectionOn(kind, sampleParams[kind], made)
				// No other test sees its marks.
				injection.Disruption.UID, injection.DryRun = types.UID(made.ID), dryRun
				injection.SysrqTrigger = s.sysrqTrigger()
				p := s.inject(injection)
				p.awaitReady()
				p.awaitLine("injected")
				p.wantPrepared(made)
				if got := effect(t, p, made); got != !dryRun {
					t.Errorf("the target is disturbed: %t, want %t", got, !dryRun)
				}
				p.wantHeld(made)

				p.signal(syscall.SIGTERM)
				if code := p.exit(); code != 0 {
					t.Errorf("exit code = %d, want 0", code)
				}
				want := []string{"injected", "cleaning", "cleaned"}
				if kind == v1beta1.KindNodeFailure && !dryRun {
					want = slices.Insert(want, 1, "ending the node")
				}
				if diff := cmp.Diff(want, p.messages()); diff != "" {
					t.Errorf("log (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true}, p.ending()); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				ends := kind == v1beta1.KindContainerFailure && !dryRun
				if made.Running() == ends || len(s.journals()) > 0 || len(p.marks()) > 0 {
					t.Errorf("in the end: container running %t, journals %v, marks %v", made.Running(), s.journals(), p.marks())
				}
			})
		}
	}
}

// wantPrepared wants the journal, with the target's network namespace as the kernel shows
// it, and with its cgroups if the kind sees them.
//
// rule 52
func (p *process) wantPrepared(made *testcontainer.Container) {
	p.t.Helper()
	record := p.record()
	if len(record.Containers) != 1 || record.Containers[0].PID != made.PID {
		p.t.Fatalf("containers in the journal = %+v, want process %d", record.Containers, made.PID)
	}
	container := record.Containers[0]
	netns := fmt.Sprintf("/proc/%d/ns/net", made.PID)
	switch want, err := os.Stat(netns); {
	case err == nil && want.Sys().(*syscall.Stat_t).Ino != container.Netns.Ino:
		p.t.Errorf("network namespace in the journal = %+v, want that of process %d", container.Netns, made.PID)
	case err != nil && p.injection.Kind == v1beta1.KindContainerFailure:
		made.AwaitEnd(p.t) // its namespace went with it
	case err != nil:
		p.t.Error(err)
	}
	for _, dir := range made.Cgroups {
		known := container.Cgroups.Unified == dir
		for _, v1 := range container.Cgroups.V1 {
			known = known || v1 == dir
		}
		if known != p.injection.Kind.Needs().Cgroups {
			p.t.Errorf("cgroups in the journal = %+v, want %s among them: %t", container.Cgroups, dir, !known)
		}
	}
}

// record reads the only journal.
func (p *process) record() journal.Record {
	p.t.Helper()
	paths, err := filepath.Glob(p.file("journal/*.json"))
	if err != nil || len(paths) != 1 {
		p.t.Fatalf("journals = %v, %v, want one", paths, err)
	}
	text, err := readFile(paths[0])
	var record journal.Record
	if err != nil || json.Unmarshal([]byte(text), &record) != nil {
		p.t.Fatalf("journal = %q, %v", text, err)
	}
	return record
}

// effect is true if the kernel shows the effect of the kind.
func effect(t *testing.T, p *process, made *testcontainer.Container) bool {
	t.Helper()
	switch p.injection.Kind {
	case v1beta1.KindContainerFailure:
		return !made.Running()
	case v1beta1.KindDiskPressure:
		limits, err := readFile(made.File(t, "blkio", "blkio.throttle.read_bps_device", "io.max"))
		return err == nil && strings.Contains(limits, "1048576")
	case v1beta1.KindNodeFailure:
		p.probe()
		return p.pressed() == "c"
	case v1beta1.KindGRPC:
		return strings.Contains(grpcapp.Answer(t, made.PID), "Unavailable")
	}
	return len(p.marks()) > 0
}

// targetCommand is the command of a container that a kind can disrupt.
func targetCommand(t *testing.T, kind v1beta1.Kind) []string {
	if kind == v1beta1.KindGRPC {
		return grpcapp.Command(t, grpcapp.Instrumented)
	}
	return testcontainer.Sleeps
}

// startTarget starts such a container and waits until it can be disrupted.
func startTarget(t *testing.T, kind v1beta1.Kind) *testcontainer.Container {
	t.Helper()
	made := testcontainer.Start(t, targetCommand(t, kind)...)
	awaitTarget(t, kind, made)
	return made
}

func awaitTarget(t *testing.T, kind v1beta1.Kind, made *testcontainer.Container) {
	t.Helper()
	if kind == v1beta1.KindGRPC {
		grpcapp.Await(t, made.PID)
	}
}

// marks lists the marks of the injection that an audit of the node finds, except its
// journal.
func (p *process) marks() []string {
	p.t.Helper()
	var marks []string
	for _, mark := range p.audit("--disruption", string(p.injection.Disruption.UID), "--kind", string(p.injection.Kind)).Marks {
		if !strings.HasPrefix(mark.Object, "journal ") {
			marks = append(marks, mark.Object)
		}
	}
	return marks
}

// wantHeld watches for a while, and wants nothing to change.
//
// rule 56a
func (p *process) wantHeld(made *testcontainer.Container) {
	p.t.Helper()
	state := func() string {
		var text strings.Builder
		fmt.Fprintf(&text, "running: %t, container: %t\nlog: %q\n", p.running(), made.Running(), p.messages())
		for _, name := range append(p.journals(), "../ready") {
			content, err := readFile(p.file("journal/" + name))
			fmt.Fprintf(&text, "%s: %s, %v\n", name, content, err)
		}
		for _, dir := range made.Cgroups {
			for _, file := range []string{"cgroup.procs", "blkio.throttle.read_bps_device", "io.max"} {
				content, err := readFile(filepath.Join(dir, file))
				fmt.Fprintf(&text, "%s/%s: %s, %t\n", dir, file, content, err == nil)
			}
		}
		return text.String()
	}
	before, marks := state(), p.marks()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(holdFor); time.Now().Before(end); <-tick.C {
		if diff := cmp.Diff(before, state()); diff != "" {
			p.t.Fatalf("something changed while it should hold (-before +after):\n%s", diff)
		}
	}
	if now := p.marks(); !slices.Equal(marks, now) {
		p.t.Errorf("marks on the node = %v, want %v as before", now, marks)
	}
}

// The probes and the log report an effect that is lost while its target exists, like a
// failed injection. Cleaning works as usual.
func TestLostEffectIsReported(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t)
	injection := injectionOn(v1beta1.KindDiskFailure, sampleParams[v1beta1.KindDiskFailure], made)
	injection.Disruption.UID = types.UID(made.ID)
	p := s.inject(injection)
	p.awaitReady()
	var pid int
	if marks := p.marks(); len(marks) != 1 {
		t.Fatalf("marks = %v, want one listener", marks)
	} else if _, err := fmt.Sscanf(marks[0], "listener process %d", &pid); err != nil {
		t.Fatalf("marks = %v: %v", marks, err)
	}
	testcontainer.Freeze(t, pid)
	p.awaitLine(v1beta1.MessageInjectionFailed)
	const reason = "the listener did not answer"
	if code, output := s.run("ready"); code == 0 || !strings.Contains(output, reason) {
		t.Errorf("ready = %d, %s, want not 0 and %q", code, output, reason)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if got := p.outcome(); !got.Injected || !got.Cleaned || !got.Audited || !strings.Contains(got.Error, reason) {
		t.Errorf("outcome = %+v, want injected, cleaned, audited, and %q", got, reason)
	}
}
