//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/deadline"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// world are the files a fake disturbs.
type world struct {
	t   *testing.T
	dir string
}

func newWorld(t *testing.T) world {
	w := world{t: t, dir: t.TempDir()}
	w.set("first", "one")
	w.set("second", "two")
	return w
}

func (w world) must(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

func (w world) set(name, value string) {
	w.t.Helper()
	if err := writeFile(w.dir+"/"+name, value); err != nil {
		w.t.Fatal(err)
	}
}

// expect compares the two files with what they should hold.
func (w world) expect(when, first, second string) {
	w.t.Helper()
	for name, want := range map[string]string{"first": first, "second": second} {
		if got, err := readFile(w.dir + "/" + name); got != want || err != nil {
			w.t.Errorf("%s: file %s = %q, %v, want %q", when, name, got, err, want)
		}
	}
}

func (w world) calls() string {
	calls, _ := readFile(w.dir + "/calls")
	return strings.TrimSpace(calls)
}

func (w world) injection(params fakeParams) v1beta1.Injection {
	params.Dir = w.dir
	document, err := json.Marshal(params)
	if err != nil {
		w.t.Fatal(err)
	}
	return injectionOn(fakeKind, string(document))
}

// rules 27, 51, 55, 56, 59
func TestEitherSignalEndsAnInjectionThatHeld(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t), fakeSite(t)
			p := s.inject(w.injection(fakeParams{}))
			p.awaitReady()
			w.expect("ready", "broken", "broken")
			if code, output := s.run("ready"); code != 0 || output != "" {
				t.Errorf("ready = %d, %q, want 0", code, output)
			}
			for end := time.Now().Add(holdFor); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
				if w.calls() != "inject" || !p.running() || !s.exists("ready") {
					t.Fatalf("before the signal: calls %q, running %t, want one injection that holds", w.calls(), p.running())
				}
			}
			w.expect("held", "broken", "broken")

			p.signal(signal)
			if code := p.exit(); code != 0 {
				t.Errorf("exit code = %d, want 0", code)
			}
			w.expect("ended", "one", "two")
			if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true}, p.ending()); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"injected", "cleaning", "cleaned"}, p.messages()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			if s.exists("ready") || len(s.journals()) > 0 {
				t.Errorf("left: ready file %t, journals %v", s.exists("ready"), s.journals())
			}
		})
	}
}

// rule 55
func TestReadyFileDoesNotComeBeforeTheInjection(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	os.WriteFile(s.file("ready"), nil, 0o644) // left by an earlier run of the container
	p := s.inject(w.injection(fakeParams{Gate: "open"}))
	testcontainer.Eventually(t, "the injection has begun", func() error {
		_, err := os.Stat(w.dir + "/calls")
		return err
	})
	if s.exists("ready") {
		t.Error("the ready file is there before the injection is done")
	}
	if code, output := s.run("ready"); code == 0 || !strings.Contains(output, "not injected yet") {
		t.Errorf("ready = %d, %q, want non-zero and why", code, output)
	}
	waiting := s.start("", "ready", "--wait=1m")
	w.set("open", "")
	p.awaitReady()
	w.expect("ready", "broken", "broken")
	if code := waiting.exit(); code != 0 {
		t.Errorf("ready --wait = %d, want 0: it is injected now", code)
	}
	if code, _ := s.run("ready", "--wait=soon"); code != exitRefused {
		t.Errorf("ready --wait=soon = %d, want %d", code, exitRefused)
	}
}

func TestDeadlineEndsAnInjection(t *testing.T) {
	untilInTime(t, func(deadline time.Time) bool {
		w, s := newWorld(t), fakeSite(t)
		injection := w.injection(fakeParams{})
		injection.Deadline = metav1.NewTime(deadline)
		p := s.inject(injection)
		code := p.exit()
		if now := time.Now(); now.Before(deadline) {
			t.Errorf("ended at %s, before the deadline %s", now, deadline)
		}
		w.expect("ended", "one", "two")
		if !p.outcome().Injected {
			return false
		}
		if code != 0 {
			t.Errorf("exit code = %d, want 0", code)
		}
		return true
	})
}

func TestDeadlineInThePastInjectsNothing(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{})
	injection.Deadline = metav1.NewTime(time.Now().Add(-time.Hour))
	p := s.inject(injection)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if strings.Contains(w.calls(), "inject") || s.exists("ready") {
		t.Errorf("calls = %q, ready file %t, want no injection", w.calls(), s.exists("ready"))
	}
	report := p.ending()
	if want := "nothing is injected after the deadline, " + injection.Deadline.UTC().Format(time.RFC3339) + ": it is 20"; !strings.HasPrefix(report.Error, want) {
		t.Errorf("outcome = %+v, want the reason %s", report, want)
	}
	if diff := cmp.Diff(v1beta1.InjectionReport{Cleaned: true, Audited: true, Error: report.Error}, report); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// An injection ends on a node whose clock is behind, or was set back.
func TestRemainingTimeEndsAnInjection(t *testing.T) {
	untilInTime(t, func(end time.Time) bool {
		w, s := newWorld(t), fakeSite(t)
		injection := w.injection(fakeParams{})
		injection.Remaining.Duration = time.Until(end)
		p := s.inject(injection)
		if code := p.exit(); code != 0 || time.Now().Before(end) {
			t.Errorf("exit code = %d, %s before the end, want 0 and no sooner", code, time.Until(end))
		}
		w.expect("ended", "one", "two")
		if !p.outcome().Injected {
			return false
		}
		if !slices.ContainsFunc(p.lines(), func(line map[string]any) bool { return line["because"] == deadline.ErrPassed.Error() }) {
			t.Errorf("it said %v, want that it was cleaned because of the deadline", p.lines())
		}
		return true
	})
}

// A clock that is set to a later time ends what should have ended by then.
func TestAClockThatIsSetEndsAnInjection(t *testing.T) {
	if !testneeds.Virtual() {
		t.Skip("it sets the machine's clock, so it is run in virtual machines alone")
	}
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{})
	injection.Deadline = metav1.NewTime(time.Now().Add(time.Hour))
	injection.Remaining.Duration = time.Hour
	p := s.inject(injection)
	p.awaitReady()
	forward := func(by time.Duration) {
		to := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &to); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	forward(time.Hour)
	defer forward(-time.Hour)
	if code := p.exit(); code != 0 || !p.outcome().Injected {
		t.Errorf("exit code = %d, outcome = %+v, want 0 after an injection", code, p.outcome())
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it ended after %s, want at once", took)
	}
	w.expect("ended", "one", "two")
}

func TestInjectionWaitsForItsTime(t *testing.T) {
	untilInTime(t, func(notBefore time.Time) bool {
		w, s := newWorld(t), fakeSite(t)
		injection := w.injection(fakeParams{})
		injection.NotBefore = &metav1.Time{Time: notBefore}
		p := s.inject(injection)
		p.awaitReady()
		if now := time.Now(); now.Before(notBefore) {
			t.Errorf("injected at %s, before %s", now, notBefore)
		}
		w.expect("ready", "broken", "broken")
		return slices.Contains(p.messages(), "waiting")
	})
}

func TestSignalEndsTheWaitForTheTime(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{})
	notBefore := metav1.NewTime(time.Now().Add(50 * time.Second))
	injection.NotBefore = &notBefore
	p := s.inject(injection)
	p.awaitLine("waiting")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if strings.Contains(w.calls(), "inject") || s.exists("ready") || len(s.journals()) > 0 {
		t.Errorf("calls %q, ready file %t, journals %v, want nothing", w.calls(), s.exists("ready"), s.journals())
	}
	if diff := cmp.Diff(v1beta1.InjectionReport{Cleaned: true, Audited: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// rules 33, 57, 58
func TestInjectionErrorIsReportedAndTheRestIsCleaned(t *testing.T) {
	w, s := newWorld(t), fakeSite(t, "SQUALL_RETRY_EVERY=1h")
	p := s.inject(w.injection(fakeParams{FailSecond: true}))

	line := p.awaitLine(v1beta1.MessageInjectionFailed)
	if line["error"] != "the second file could not be broken; retried at least every 30s until the disruption ends" || line["level"] != "error" {
		t.Errorf("log line = %v, want the error and its level", line)
	}
	code, output := s.run("ready", "--wait=1h") // the injection has failed, so ready does not wait
	var printed map[string]string
	if err := json.Unmarshal([]byte(output), &printed); code != 1 || err != nil || printed["error"] != line["error"] || printed["msg"] != line["msg"] {
		t.Errorf("ready = %d, %q, want 1 and what the log says", code, output)
	}
	if s.exists("ready") || !p.running() {
		t.Errorf("ready file %t, running %t, want no file and the process", s.exists("ready"), p.running())
	}
	testcontainer.Eventually(t, "what was injected is cleaned at once", func() error {
		if first, err := readFile(w.dir + "/first"); err != nil || first != "one" {
			return fmt.Errorf("file first holds %q, %v", first, err)
		}
		return nil
	})
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	w.expect("cleaned", "one", "two")
	want := v1beta1.InjectionReport{Cleaned: true, Audited: true, Error: "the second file could not be broken"}
	if diff := cmp.Diff(want, p.outcome()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if len(s.journals()) > 0 {
		t.Errorf("journals = %v, want none", s.journals())
	}
}

// A failed injection is retried until it succeeds.
func TestAFailedInjectionIsTriedAgain(t *testing.T) {
	w, s := newWorld(t), fakeSite(t, "SQUALL_RETRY_EVERY=200ms")
	p := s.inject(w.injection(fakeParams{FailFirst: 3}))
	p.awaitLine(v1beta1.MessageInjectionFailed)
	p.awaitReady()
	w.expect("injected", "broken", "broken")
	if want := "inject clean inject clean inject clean inject"; w.calls() != want {
		t.Errorf("calls %q, want %q", w.calls(), want)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || len(s.journals()) > 0 {
		t.Errorf("exit code %d, journals %v", code, s.journals())
	}
	w.expect("cleaned", "one", "two")
	if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// rule 58
func TestSignalDuringTheInjectionCleans(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{Gate: "never"}))
	testcontainer.Eventually(t, "the injection has begun", func() error {
		_, err := os.Stat(w.dir + "/calls")
		return err
	})
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if w.calls() != "inject clean" {
		t.Errorf("calls = %q, want an injection and its cleaning", w.calls())
	}
	if diff := cmp.Diff(v1beta1.InjectionReport{Cleaned: true, Audited: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// rule 60
//
// All is cleaned, but the record cannot be removed, as on a disk that the kernel made
// read-only after an error. The injector reports that, and no person has to decide. N20
func TestARecordThatCannotBeRemovedDelaysNoEnd(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	dir := filepath.Join(s.dir, "journal")
	w.must(os.Mkdir(dir, 0o700), unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	p := s.inject(w.injection(fakeParams{}))
	p.awaitReady()
	w.must(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	w.expect("cleaned", "one", "two")
	w.must(unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	if code, output := s.run("clean", "--disruption", "d-1"); code != 0 || len(s.journals()) > 0 {
		t.Errorf("clean once the disk can be written = %d, %s, journals %v, want none", code, output, s.journals())
	}
}

func TestCleaningIsTriedFourTimes(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{FailCleans: 3}))
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0: the fourth call succeeded", code)
	}
	if w.calls() != "inject clean clean clean clean" {
		t.Errorf("calls = %q, want four cleanings", w.calls())
	}
	w.expect("cleaned", "one", "two")
}

// rule 61
func TestCleaningThatKeepsFailingIsReported(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{FailCleans: 4}))
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code == 0 {
		t.Error("exit code = 0 though nothing was cleaned")
	}
	if w.calls() != "inject clean clean clean clean" {
		t.Errorf("calls = %q, want four cleanings and no more", w.calls())
	}
	w.expect("not cleaned", "broken", "broken")
	outcome := p.outcome()
	if outcome.Cleaned || !outcome.Injected || !strings.Contains(outcome.Error, "clean call 4 failed") {
		t.Errorf("outcome = %+v, want injected, not cleaned, and the last error", outcome)
	}
	if left := strings.Join(outcome.Left, " "); !strings.Contains(left, w.dir+"/first") || !strings.Contains(left, w.dir+"/second") {
		t.Errorf("left = %v, want both files", outcome.Left)
	}
	if s.exists("ready") {
		t.Error("the ready file is still there")
	}

	// The audit finds what is left, and a later process cleans it (its fifth call).
	if code, output := s.run("audit"); code != exitMarksFound || !strings.Contains(output, "d-1") || !strings.Contains(output, w.dir+"/first") {
		t.Errorf("audit = %d, %s, want 3 and what is left", code, output)
	}
	if code, output := s.run("clean", "--disruption", "another"); code != 0 || strings.Contains(output, "d-1") {
		t.Errorf("clean of another disruption = %d, %s, want nothing done", code, output)
	}
	w.expect("another disruption cleaned", "broken", "broken")
	if code, output := s.run("clean", "--disruption", "d-1", "--target", "another"); code != 0 || strings.Contains(output, "d-1") {
		t.Errorf("clean of another target = %d, %s, want nothing done", code, output)
	}
	w.expect("another target cleaned", "broken", "broken")
	for range 2 {
		if code, output := s.run("clean", "--disruption", "d-1"); code != 0 {
			t.Errorf("clean = %d, %s, want 0", code, output)
		}
		w.expect("cleaned later", "one", "two")
	}
	if code, output := s.run("audit"); code != 0 || !strings.Contains(output, `"marks": []`) {
		t.Errorf("audit = %d, %s, want 0 and nothing", code, output)
	}
}

// A bug in a kind must not suppress the process's termination message.
func TestKindsThatHangOrPanic(t *testing.T) {
	tests := []struct {
		name    string
		params  fakeParams
		ready   bool
		code    int
		message string
		cleaned bool
	}{
		{"panic while injecting", fakeParams{Panic: true}, false, 0, "panic", true},
		{"hang while injecting", fakeParams{HangInject: true}, false, 1, "does not return", false},
		{"panic while cleaning", fakeParams{PanicClean: true}, true, 1, "panic", false},
		{"hang while cleaning", fakeParams{HangClean: true}, true, 1, "does not return", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, s := newWorld(t), fakeSite(t, "SQUALL_CLEAN_TIMEOUT=100ms")
			p := s.inject(w.injection(test.params))
			if test.ready {
				p.awaitReady()
			}
			testcontainer.Eventually(t, "the injection has begun", func() error {
				_, err := os.Stat(w.dir + "/calls")
				return err
			})
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != test.code {
				t.Errorf("exit code = %d, want %d", code, test.code)
			}
			outcome := p.outcome()
			if outcome.Cleaned != test.cleaned || !strings.Contains(outcome.Error, test.message) {
				t.Errorf("outcome = %+v, want cleaned: %t, and an error with %q", outcome, test.cleaned, test.message)
			}
			if strings.Count(w.calls(), "clean") > 1 && test.params.HangClean {
				t.Errorf("calls = %q: one that hangs was called beside itself", w.calls())
			}
			if test.cleaned == (len(s.journals()) > 0) {
				t.Errorf("cleaned: %t, journals: %v", test.cleaned, s.journals())
			}
		})
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{})
	injection.DryRun = true
	p := s.inject(injection)
	p.awaitReady()
	w.expect("ready", "one", "two")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if w.calls() != "" || len(s.journals()) > 0 {
		t.Errorf("calls = %q, journals = %v, want none", w.calls(), s.journals())
	}
	if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestKilledInjectorIsCleanedFromItsJournal(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{}))
	p.awaitReady()

	// A running injector's work is left alone.
	if code, output := s.run("clean"); code == 0 || !strings.Contains(output, "running injector") {
		t.Errorf("clean beside a living injector = %d, %s, want a refusal", code, output)
	}
	w.expect("refused", "broken", "broken")

	p.signal(syscall.SIGKILL)
	p.exit()
	w.expect("killed", "broken", "broken")
	if code, output := s.run("clean"); code != 0 || !strings.Contains(output, "shop/slow") {
		t.Errorf("clean = %d, %s, want 0 and what was cleaned", code, output)
	}
	w.expect("cleaned", "one", "two")
	if code, _ := s.run("audit"); code != 0 {
		t.Errorf("audit = %d, want 0", code)
	}
}

func TestNextInjectorStartsFromACleanTarget(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	killed := s.inject(w.injection(fakeParams{}))
	killed.awaitReady()
	killed.signal(syscall.SIGKILL)
	killed.exit()

	next := s.inject(w.injection(fakeParams{Gate: "open"}))
	testcontainer.Eventually(t, "the second injection has begun", func() error {
		if w.calls() != "inject clean inject" {
			return os.ErrNotExist
		}
		return nil
	})
	w.expect("cleaned by the next one", "one", "two")
	w.set("open", "")
	next.awaitReady()
	w.expect("injected again", "broken", "broken")
	next.signal(syscall.SIGTERM)
	if code := next.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	w.expect("ended", "one", "two")
}

func TestConflictIsLeftAloneAndReported(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{}))
	p.awaitReady()
	w.set("first", "somebody else's")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code == 0 {
		t.Error("exit code = 0 in spite of the conflict")
	}
	w.expect("ended", "somebody else's", "two")
	if outcome := p.outcome(); !strings.Contains(outcome.Error, "somebody else's") || outcome.Cleaned {
		t.Errorf("outcome = %+v, want the conflict", outcome)
	}
}

// A target that is gone, with all that was done to it, counts as cleaned.
func TestTargetThatIsGoneIsCleaned(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{FailCleans: 100})
	onPod := injectionOn(fakeKind, string(injection.Params), made)
	p := s.inject(onPod)
	p.awaitReady()
	made.Stop(t)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if len(s.journals()) > 0 {
		t.Errorf("journals = %v, want none", s.journals())
	}
}

func TestTargetThatIsNotThereIsAFailedInjection(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{})
	injection.Level = v1beta1.LevelPod
	injection.Target.Containers = []v1beta1.InjectionContainer{{Name: "app", ID: "there-is-no-such-container"}}
	p := s.inject(injection)
	line := p.awaitLine(v1beta1.MessageInjectionFailed)
	if message, _ := line["error"].(string); !strings.Contains(message, "there-is-no-such-container") {
		t.Errorf("log line = %v, want it to name the container", line)
	}
	if w.calls() != "" || len(s.journals()) > 0 {
		t.Errorf("calls = %q, journals = %v, want none", w.calls(), s.journals())
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}

func TestUnwritableReadyFileIsAFailedInjection(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	s.env = append(s.env, "SQUALL_READY_FILE="+s.dir+"/missing/ready")
	p := s.inject(w.injection(fakeParams{}))
	p.awaitLine(v1beta1.MessageInjectionFailed)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	w.expect("ended", "one", "two")
}

func TestLogLinesHaveLevelTimeAndMessage(t *testing.T) {
	var text buffer
	log, err := newLogger("info", &text)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("too much")
	log.Info("injected", zap.String("kind", "x"))
	var line map[string]string
	if err := json.Unmarshal([]byte(text.String()), &line); err != nil {
		t.Fatalf("log = %q, want one JSON object: %v", text.String(), err)
	}
	if at, err := time.Parse("2006-01-02T15:04:05.000Z0700", line["ts"]); err != nil || time.Since(at) > time.Minute {
		t.Errorf("ts = %q, %v, want now, in the form that all programs write", line["ts"], err)
	}
	delete(line, "ts")
	if diff := cmp.Diff(map[string]string{"level": "info", "msg": "injected", "kind": "x"}, line); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}
