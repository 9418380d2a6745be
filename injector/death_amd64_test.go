//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func permitAll(string) verdict { return permit }

// deadlineBound is how long after its deadline an injector may take to clean and exit, when
// nothing else could end it. The time that the machine spent on other tests does not count.
const deadlineBound = 5 * time.Second

// The injector ends at its deadline without any signal, like a dead man's switch.
func TestEveryKindEndsAtItsDeadline(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, w)
			before := a.state()
			untilInTime(t, func(deadline time.Time) bool { return a.endsAt(t, deadline, before) })
		})
	}
}

// endsAt wants the injector to end at its deadline without a signal. It returns false if
// the deadline came before the injection.
func (a *arena) endsAt(t *testing.T, deadline time.Time, before string) (injected bool) {
	t.Helper()
	removeStale(a.file("ready"), a.file("termination"))
	a.injection.Deadline = metav1.NewTime(deadline)
	code := 0
	passed := make(chan func() (took, lost time.Duration), 1)
	atDeadline := time.AfterFunc(time.Until(deadline), func() { passed <- patience.Stopwatch(t) })
	if a.workload.refused != "" {
		a.injectTraced(0, permitAll)
	} else {
		code = a.inject(a.injection).exit()
	}
	late := time.Since(deadline)
	var lost time.Duration
	if !atDeadline.Stop() {
		_, lost = (<-passed)()
	}
	report, err := os.ReadFile(a.file("termination"))
	a.expectClean(t, before) // its audit writes that file, too
	if bytes.Contains(report, []byte(`"injected":false`)) {
		return false
	}
	if late < 0 {
		t.Errorf("the injector ended %s before its deadline", -late)
	}
	patience.Kept(t, "deadline", deadlineBound, "the injector's end after its deadline", late-lost, lost)
	if err != nil || code != 0 || !bytes.Contains(report, []byte(`"injected":true,"cleaned":true,"audited":true`)) {
		t.Errorf("exit code %d, last words = %s, %v, want 0, and injected, cleaned and audited", code, report, err)
	}
	return true
}

// With another boot ID, the objects in the kernel ended with that boot. Objects under the
// same names belong to others now.
func TestRecordOfAnEarlierBootUndoesNothing(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, w)
			before := a.state()
			a.injectTraced(syscall.SIGKILL, permitAll)
			path := a.file("journal/" + a.uid() + "_t-1_" + string(w.kind) + ".json")
			record, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			now, err := journal.BootID()
			if err != nil {
				t.Fatal(err)
			}
			a.settled(t)
			killed := a.state()
			if err := os.WriteFile(path, bytes.ReplaceAll(record, []byte(now), []byte("an earlier one")), 0o600); err != nil {
				t.Fatal(err)
			}
			// The cleaner covers all disruptions here. For this one alone it would report the marks
			// that exist, as in truth no boot came between.
			if code, output := a.run("clean"); code != 0 {
				t.Errorf("clean = %d, %s, want 0", code, output)
			}
			if len(a.journals()) > 0 {
				t.Errorf("journals = %v, want the record of the earlier boot gone", a.journals())
			}
			kernel := func(state string) string { // the state outside the journal's directory
				_, rest, _ := strings.Cut(state, "neighbour runs")
				return rest
			}
			if diff := cmp.Diff(lines(kernel(killed)), lines(kernel(a.state()))); diff != "" {
				t.Errorf("what is in the kernel now (-before +after):\n%s", diff)
			}

			// The original record, with this boot's ID.
			if err := os.WriteFile(path, record, 0o600); err != nil {
				t.Fatal(err)
			}
			a.heal(t, "nothing")
			a.expectClean(t, before)
		})
	}
}

// settled waits until what reverts itself after a SIGKILL is gone.
func (a *arena) settled(t *testing.T) {
	t.Helper()
	if a.workload.reverts {
		a.reverted(t, "nothing")
	}
	testcontainer.Eventually(t, "only the target's processes are in its cgroups", func() error {
		for _, dir := range a.target.Cgroups {
			if procs, err := readFile(dir + "/cgroup.procs"); err != nil || strings.Count(procs, "\n") > 1 {
				return fmt.Errorf("%s holds %q: %w", dir, procs, err)
			}
		}
		return nil
	})
}

// A disk limit that a user changed meanwhile stays and is reported by name; the others are
// removed. Once the user has removed it, cleaning succeeds.
func TestCleanerLeavesAChangedLimitAndNamesIt(t *testing.T) {
	a := newArena(t, workloadNamed(t, "disk-pressure"))
	before := a.state()
	a.injectTraced(syscall.SIGKILL, permitAll)
	limits := a.target.File(t, "blkio", "blkio.throttle.read_bps_device", "io.max")
	ours, err := readFile(limits)
	if err != nil {
		t.Fatal(err)
	}
	device, _, _ := strings.Cut(ours, " ")
	key := ""
	if strings.HasSuffix(limits, "io.max") {
		key = "rbps="
	}
	set := func(value string) {
		t.Helper()
		if err := os.WriteFile(limits, []byte(device+" "+key+value), 0); err != nil {
			t.Fatal(err)
		}
	}
	set("77777777")
	for range 2 {
		code, output := a.run("clean", "--disruption", a.uid())
		if code != exitNotCleaned || !strings.Contains(output, limits) || !strings.Contains(output, "77777777") || !strings.Contains(output, "another program changed it") {
			t.Errorf("clean = %d, %s, want 1, the limit's name and value", code, output)
		}
		if now, _ := readFile(limits); !strings.Contains(now, "77777777") || strings.Contains(now, "10485760") {
			t.Errorf("%s = %q, want somebody's value left alone", limits, now)
		}
	}
	if other, err := readFile(a.target.File(t, "blkio", "blkio.throttle.write_iops_device", "io.max")); err != nil || strings.Contains(other, "1000\n") {
		t.Errorf("the other limit = %q, %v, want it taken off", other, err)
	}
	if audit := a.audit("--disruption", a.uid()); len(audit.Marks) == 0 {
		t.Error("audit says nothing of what is left")
	}
	set(map[string]string{"": "0", "rbps=": "max"}[key])
	a.heal(t, "nothing")
	a.expectClean(t, before)
}

// A clsact that we made and another program uses meanwhile stays for that program. Our
// filters are removed. The audit does not report a foreign filter on it.
func TestCleanerLeavesAClsactInUse(t *testing.T) {
	a := newArena(t, workloadNamed(t, "network by cls_bpf"))
	a.injectTraced(syscall.SIGKILL, permitAll)
	a.inside(t, func() error {
		return exec.Command("tc", strings.Fields("filter add dev eth0 egress protocol ip pref 9 u32 match ip dst 10.1.2.3/32 flowid 1:1")...).Run()
	})
	a.heal(t, "nothing")
	state := a.state()
	if strings.Contains(state, "squall:") || !strings.Contains(state, "clsact ffff: dev eth0") || strings.Contains(state, "clsact ffff: dev lo") {
		t.Errorf("want only the clsact of eth0 left, with somebody's filter:\n%s", state)
	}
	if audit := a.audit("--disruption", a.uid()); len(audit.Marks) > 0 {
		t.Errorf("audit = %+v, want nothing", audit)
	}
}

// Without its journal the injection cannot be undone, and the cleaner does not report it as
// cleaned.
func TestCleanerReportsMarksWithoutAJournal(t *testing.T) {
	a := newArena(t, workloadNamed(t, "network by cls_bpf"))
	a.injectTraced(syscall.SIGKILL, permitAll)
	if err := os.RemoveAll(a.file("journal")); err != nil {
		t.Fatal(err)
	}
	code, output := a.run("clean", "--disruption", a.uid())
	if code != exitNotCleaned || !strings.Contains(output, "filter squall:"+a.uid()) || !strings.Contains(output, `"audited": false`) {
		t.Errorf("clean = %d, %s, want 1 and the filters' names", code, output)
	}
	if code, output := a.run("clean", "--disruption", a.uid(), "--target", "another"); code != 0 {
		t.Errorf("clean of another target = %d, %s, want 0", code, output)
	}
}

// A sweep may find a node full of journals whose targets are gone.
func TestHundredsOfJournals(t *testing.T) {
	a := newArena(t, workloadNamed(t, "network by cls_bpf"))
	a.injectTraced(syscall.SIGKILL, permitAll)
	path := a.file("journal/" + a.uid() + "_t-1_" + string(a.workload.kind) + ".json")
	record, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a.target.Stop(t)
	const count = 300
	for n := range count {
		uid := fmt.Sprintf("gone-%d", n)
		other := bytes.ReplaceAll(record, []byte(a.uid()), []byte(uid))
		if err := os.WriteFile(strings.Replace(path, a.uid(), uid, 1), other, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	named := slices.DeleteFunc(a.audit("--except", a.uid()).Disruptions, func(uid types.UID) bool {
		return !strings.HasPrefix(string(uid), "gone-") // of another test on this machine
	})
	if len(named) != count {
		t.Errorf("audit names %d disruptions, want %d", len(named), count)
	}
	cleaner := a.start("", "clean", "--except", a.uid())
	if code := cleaner.exit(); code != 0 || !strings.Contains(cleaner.stdout.String(), `"audited": true`) {
		t.Errorf("clean = %d, %.1000s, want 0 and audited", code, cleaner.stdout)
	}
	// Processor time is measured instead of elapsed time, which other tests share.
	used := cleaner.command.ProcessState.UserTime() + cleaner.command.ProcessState.SystemTime()
	t.Logf("%d journals cleaned with %s of a processor", count, used)
	if used > 10*time.Second {
		t.Errorf("cleaning took %s of a processor, want at most 10 s", used)
	}
	if left := a.journals(); len(left) != 2 {
		t.Errorf("journals = %v, want the one excepted and its lock", left)
	}
	a.heal(t, "nothing")
}
