//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// report decodes what clean printed.
func (s *site) report(output string) v1beta1.CleanReport {
	s.t.Helper()
	var report v1beta1.CleanReport
	if err := decodeStrictly([]byte(output), &report); err != nil {
		s.t.Fatalf("clean said %q: %v", output, err)
	}
	return report
}

// Two kinds disrupt one target and the injector of one dies. Its cleaner must not wait for
// the running injector of the other kind, and must not report that one's marks as left.
func TestCleanOfOneKindLeavesTheOthersOfItsTarget(t *testing.T) {
	dead, alive := newWorld(t), newWorld(t)
	s := fakeSite(t)
	killed := s.inject(dead.injection(fakeParams{}))
	killed.awaitReady()
	killed.signal(syscall.SIGKILL)
	killed.exit()
	if err := os.Remove(s.file("ready")); err != nil {
		t.Fatal(err)
	}
	other := alive.injection(fakeParams{})
	other.Kind = otherFakeKind
	living := s.inject(other)
	living.awaitReady()
	clean := []string{"clean", "--disruption", "d-1", "--target", "t-1"}

	t.Run("its own is cleaned and proved", func(t *testing.T) {
		code, output := s.run(append(clean, "--kind", string(fakeKind))...)
		report := s.report(output)
		if code != exitOK || len(report.Cleaned) != 1 || !strings.HasPrefix(report.Cleaned[0], string(fakeKind)+" ") || !report.Audited || len(report.Left) != 0 {
			t.Errorf("clean = %d, %+v, want 0, its own injection alone, audited", code, report)
		}
		dead.expect("cleaned", "one", "two")
		alive.expect("spared", "broken", "broken")
		data, err := readFile(s.file("termination"))
		if err == nil && !cmp.Equal(report, s.report(data)) {
			t.Errorf("termination message = %q, want what was printed", data)
		}
	})
	t.Run("the living one is busy for who asks for its kind, for both kinds or for all", func(t *testing.T) {
		for _, kinds := range [][]string{
			{"--kind", string(otherFakeKind)},
			{"--kind", string(fakeKind), "--kind", string(otherFakeKind)},
			nil,
		} {
			code, output := s.run(append(clean, kinds...)...)
			if report := s.report(output); code != exitNotCleaned || len(report.Left) != 1 || !strings.Contains(report.Left[0].Error, "running injector") {
				t.Errorf("clean %v = %d, %+v, want 1 and the living injector", kinds, code, report)
			}
		}
		alive.expect("spared", "broken", "broken")
	})
	t.Run("an audit of one kind sees no mark of the other", func(t *testing.T) {
		if marks := s.audit("--kind", string(fakeKind)).Marks; len(marks) != 0 {
			t.Errorf("marks = %+v, want none", marks)
		}
		if marks := s.audit("--kind", string(otherFakeKind)).Marks; len(marks) != 3 {
			t.Errorf("marks = %+v, want the journal and two values", marks)
		}
	})
	t.Run("a kind that this injector does not know is refused, as it would clean nothing", func(t *testing.T) {
		for _, command := range []string{"clean", "audit"} {
			p := s.start("", command, "--kind", "fake")
			if code := p.exit(); code != exitRefused || !strings.Contains(p.stderr.String(), `"fake"`) {
				t.Errorf("%s --kind fake = %d, %s, want %d and the name", command, code, p.stderr, exitRefused)
			}
		}
	})
	living.signal(syscall.SIGTERM)
	if code := living.exit(); code != exitOK {
		t.Errorf("the living injector ended with %d, want 0", code)
	}
	alive.expect("ended", "one", "two")
}

// An unreadable journal of another kind does not stop this cleaner.
func TestCleanOfOneKindIsNotStoppedByABrokenJournalOfAnother(t *testing.T) {
	s := fakeSite(t)
	worlds := died(t, s, 1)
	if err := writeFile(s.file("journal/d-0_t-1_"+string(otherFakeKind)+".json"), "{"); err != nil {
		t.Fatal(err)
	}
	code, output := s.run("clean", "--disruption", "d-0", "--kind", string(fakeKind))
	if report := s.report(output); code != exitOK || !report.Audited {
		t.Errorf("clean = %d, %+v, want 0 and audited", code, report)
	}
	worlds[0].expect("cleaned", "one", "two")
}

// The kubelet ends a cleaner at the deadline of its pod. The cleaner then reports what is
// left, and why.
func TestCleanThatIsAskedToEndReportsWhatIsLeft(t *testing.T) {
	w, s := newWorld(t), fakeSite(t, "SQUALL_CLEAN_BACKOFF=1h")
	killed := s.inject(w.injection(fakeParams{FailCleans: 100}))
	killed.awaitReady()
	killed.signal(syscall.SIGKILL)
	killed.exit()
	cleaner := s.start("", "clean", "--disruption", "d-1")
	testcontainer.Eventually(t, "it has tried once", func() error {
		if !strings.Contains(cleaner.stderr.String(), "trying again") {
			return errors.New(w.calls())
		}
		return nil
	})
	cleaner.signal(syscall.SIGTERM)
	code := cleaner.exit()
	report := s.report(cleaner.stdout.String())
	if code != exitNotCleaned || len(report.Left) != 1 || !strings.Contains(report.Left[0].Error, "clean call 1 failed") || report.Audited {
		t.Errorf("clean = %d, %+v, want %d and the failure of its one try", code, report, exitNotCleaned)
	}
}

// The cleaner reports what it cleaned although the search for more marks hangs.
func TestCleanOutlivesAnAuditThatHangs(t *testing.T) {
	dead, alive := newWorld(t), newWorld(t)
	s := fakeSite(t, "SQUALL_AUDIT_TIMEOUT=100ms")
	killed := s.inject(dead.injection(fakeParams{}))
	killed.awaitReady()
	killed.signal(syscall.SIGKILL)
	killed.exit()
	if err := os.Remove(s.file("ready")); err != nil {
		t.Fatal(err)
	}
	other := alive.injection(fakeParams{HangAudit: true})
	other.Kind = otherFakeKind
	s.inject(other).awaitReady()
	code, output := s.run("clean", "--disruption", "d-1", "--kind", string(fakeKind))
	if report := s.report(output); code != exitOK || len(report.Cleaned) != 1 || report.Audited {
		t.Errorf("clean = %d, %+v, want 0, one cleaned and not audited", code, report)
	}
	if audit := s.audit("--kind", string(otherFakeKind)); len(audit.Marks) != 3 || !strings.Contains(audit.Error, "does not return") {
		t.Errorf("audit = %+v, want what the journal tells, and what does not return", audit)
	}
}

func TestCleanReportFitsIntoATerminationMessage(t *testing.T) {
	report := v1beta1.CleanReport{Cleaned: []string{}, Left: []v1beta1.LeftInjection{}}
	for range 200 {
		report.Cleaned = append(report.Cleaned, strings.Repeat("cleaned ", 10))
		report.Left = append(report.Left, v1beta1.LeftInjection{Injection: "left", Error: strings.Repeat("busy ", 1000), Objects: make([]string, 100)})
	}
	data := encodeFitting(400, func(keep int) any { return cutCleanReport(report, keep) })
	var got v1beta1.CleanReport
	if err := json.Unmarshal(data, &got); err != nil || len(data) > maxOutcome {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if got.More != 400-len(got.Left)-len(got.Cleaned) || len(got.Left) == 0 || len(got.Cleaned) != 0 {
		t.Errorf("%d left, %d cleaned, %d more, want what is left first, and all of 400", len(got.Left), len(got.Cleaned), got.More)
	}
}
