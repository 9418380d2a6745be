//go:build linux

package main

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The names stand for a kind's own work in the steps of a run.
const (
	ownInject = "(what the kind injects)"
	ownClean  = "(what the kind cleans)"
	held      = "(the injection holds)"
)

// All kinds make the same steps in the same order, as far as a step changes anything
// outside the program. Only between the journal and the ready file, and between the ready
// file's end and the journal's, a kind makes steps of its own.
//
// rules 51, 54, 55, 56
func TestKindsDifferInTheirOwnStepsAlone(t *testing.T) {
	want := []string{
		"remove ready", "remove reason", "remove ready_asked", "remove ready_turned",
		"create journal.lock", "lock journal.lock",
		"create journal.tmp", "write journal.tmp", "sync journal.tmp", "rename journal.tmp", "sync journals",
		ownInject,
		"create ready", "write ready",
		held,
		"remove ready", "remove reason",
		ownClean,
		"remove journal", "remove journal.tmp", "remove journal.lock", "sync journals",
		"create termination", "write termination", "exit",
	}
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, w)
			before := a.state()
			want := slices.Clone(want)
			if w.kind == v1beta1.KindNodeFailure { // it injects nothing, and acts once probes reported it
				want = slices.DeleteFunc(want, func(step string) bool { return step == ownInject })
			}
			if diff := cmp.Diff(want, a.lifecycle()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			a.expectClean(t, before)
		})
	}
}

// lifecycle is one whole run in steps, with those of the kind in one.
func (a *arena) lifecycle() []string {
	a.t.Helper()
	var mu sync.Mutex
	var steps []string
	note := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step)
	}
	a.held = func() {
		for !strings.Contains(a.written(), `"msg":"injected"`) {
			<-time.After(time.Millisecond)
		}
		note(held)
		state := func() []string { return lines(a.state("tasks")) } // a burner starts threads at any time
		before := state()
		for end := time.Now().Add(holdFor); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
			if diff := cmp.Diff(before, state()); diff != "" {
				a.t.Errorf("something changed while it should hold (-before +after):\n%s", diff)
				break
			}
		}
		note(held)
	}
	a.injectTraced(syscall.SIGTERM, func(step string) verdict {
		note(a.short(step))
		return permit
	})
	return ours(steps)
}

// written returns the output of the traced program up to now.
func (a *arena) written() string {
	text, _ := readFile(a.file("output"))
	return text
}

// short abbreviates the files that every injection has.
func (a *arena) short(step string) string {
	journal := "~/journal/UID_t-1_" + string(a.workload.kind) + ".json"
	return strings.NewReplacer(journal, "journal", "~/journal", "journals", "~/", "").Replace(step)
}

// ours replaces the steps of a kind by one, and equal steps in a row by one: a file that is
// missing is removed by two calls. Writes of the program to its own log are not counted.
func ours(steps []string) []string {
	steps = slices.DeleteFunc(steps, func(step string) bool {
		return step == "sync output"
	})
	injects := slices.Index(steps, "sync journals") + 1
	ready := slices.Index(steps, "create ready")
	if injects <= 0 || ready < injects {
		return steps
	}
	ended := ready + slices.Index(steps[ready:], "remove reason") + 1
	for ended < len(steps) && steps[ended] == "remove reason" {
		ended++
	}
	removes := ended + slices.Index(steps[ended:], "remove journal")
	if removes < ended {
		return steps
	}
	var own []string
	if injects < ready { // a kind may have nothing to clean, and has something to inject
		own = []string{ownInject}
	}
	return slices.Compact(slices.Concat(steps[:injects], own, steps[ready:ended], []string{ownClean}, steps[removes:]))
}

// An injector handles signals before anything else. A signal before its first step ends it
// cleanly, with nothing done.
//
// rule 52
func TestSignalBeforeTheFirstStep(t *testing.T) {
	for _, w := range workloads() {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(w.name+", "+unix.SignalName(signal), func(t *testing.T) {
				t.Parallel()
				// The program receives a signal in a thread of its own. On a busy machine that may be
				// after the injection.
				for range 5 {
					if signalBeforeTheFirstStep(t, w, signal) {
						return
					}
				}
				t.Error("it made the ready file each time")
			})
		}
	}
}

// signalBeforeTheFirstStep is false if the injector made the ready file despite the signal.
func signalBeforeTheFirstStep(t *testing.T, w workload, signal syscall.Signal) bool {
	t.Helper()
	a := newArena(t, w)
	before := a.state()
	var steps []string
	var pid atomic.Int64
	a.launched = func(traced int) { pid.Store(int64(traced)) }
	a.injectTraced(signal, func(step string) verdict {
		if step = a.short(step); step == "remove ready" && len(steps) == 0 {
			_ = unix.Kill(int(pid.Load()), signal)
		}
		steps = append(steps, step)
		return permit
	})
	if slices.Contains(steps, "create ready") {
		t.Logf("the signal was heard late: %q", steps)
		return false
	}
	data, err := readFile(a.file("termination"))
	if want := `{"injected":false,"cleaned":true,"audited":true}`; data != want {
		t.Errorf("termination message = %s, %v, want %s", data, err, want)
	}
	if w.kind == v1beta1.KindContainerFailure && !a.target.Running() {
		t.Error("the container was ended")
	}
	a.expectClean(t, before)
	return true
}

// The journal on the disk has the end of a node before it happens.
func TestNodeIsEndedAfterTheJournalHasIt(t *testing.T) {
	a := newArena(t, workloadNamed(t, "node-failure"))
	untilInTime(t, func(deadline time.Time) bool {
		a.injection.Deadline = metav1.NewTime(deadline)
		ready := false
		a.held = func() {
			ready = true
			for ; time.Since(deadline) < time.Minute; <-time.After(10 * time.Millisecond) {
				if text, err := readFile(a.injection.SysrqTrigger); err != nil || text != "" {
					return
				}
			}
			t.Error("the node was not ended before the deadline")
		}
		var steps []string
		a.injectTraced(syscall.SIGTERM, func(step string) verdict {
			steps = append(steps, a.short(step))
			return permit
		})
		ended := slices.Index(steps, "write sysrq-trigger")
		if !ready || ended < 0 && time.Now().After(deadline) {
			return false
		}
		want := []string{"create journal.tmp", "write journal.tmp", "sync journal.tmp", "rename journal.tmp", "sync journals", "write sysrq-trigger"}
		if ended < len(want) || !slices.Equal(steps[ended+1-len(want):ended+1], want) || slices.Index(steps, "create ready") > ended-len(want) {
			t.Errorf("steps = %q, want the ready file, and later %q", steps, want)
		}
		return true
	})
}
