//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The injector checks the result of a kind that reports success, and cleans again as after
// an error. rule 60
func TestCleaningThatOverlooksSomethingIsTriedAgain(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{Careless: 3}))
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0: the fourth cleaning did it", code)
	}
	w.expect("cleaned", "one", "two")
	if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// rule 61
func TestMarksLeftAfterASuccessfulCleaningAreNotClean(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{Careless: 100}))
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitNotCleaned {
		t.Errorf("exit code = %d, want %d", code, exitNotCleaned)
	}
	outcome := p.outcome()
	if outcome.Cleaned || outcome.Audited || !strings.Contains(outcome.Error, "2 things are left") {
		t.Errorf("outcome = %+v, want not cleaned, and how much is left", outcome)
	}
	for _, name := range []string{"first", "second"} {
		if left := strings.Join(outcome.Left, "\n"); !strings.Contains(left, w.dir+"/"+name+` is "broken" and was`) {
			t.Errorf("left = %q, want %s with both values", left, name)
		}
	}
	if len(s.journals()) == 0 {
		t.Error("the journal is gone, so that nobody can clean any more")
	}
	if code, output := s.run("clean"); code != exitNotCleaned || !strings.Contains(output, `"audited": false`) || !strings.Contains(output, w.dir+"/first") {
		t.Errorf("clean = %d, %s, want 1, not audited, and what is left", code, output)
	}
}

func TestCleaningThatCannotBeAuditedIsReported(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{Blind: true}))
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if diff := cmp.Diff(v1beta1.InjectionReport{Injected: true, Cleaned: true}, p.ending()); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// died makes journals of injectors that died: for each n, of disruption d-n with a world of
// its own on target t-n.
func died(t *testing.T, s *site, count int) []world {
	t.Helper()
	var worlds []world
	for n := range count {
		w := newWorld(t)
		injection := w.injection(fakeParams{})
		injection.Disruption.UID = types.UID(fmt.Sprintf("d-%d", n))
		injection.Disruption.Name = fmt.Sprintf("slow-%d", n)
		injection.Target.UID = types.UID(fmt.Sprintf("t-%d", n))
		p := s.inject(injection)
		p.awaitReady()
		p.signal(syscall.SIGKILL)
		p.exit()
		os.Remove(s.file("ready"))
		worlds = append(worlds, w)
	}
	return worlds
}

func TestAuditNamesTheDisruptionOfAMark(t *testing.T) {
	s := fakeSite(t)
	worlds := died(t, s, 3)
	audit := s.audit("--disruption", "d-1")
	want := v1beta1.Mark{
		Object: fmt.Sprintf(`value %s/first, changed from "one" to "broken"`, worlds[1].dir), Kind: fakeKind,
		Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "slow-1", UID: "d-1"}, Target: "t-1",
	}
	if len(audit.Marks) != 3 || !cmp.Equal(want, audit.Marks[1]) || audit.Error != "" {
		t.Errorf("audit of d-1 = %+v, want its journal, and two values such as %+v", audit, want)
	}
	if diff := cmp.Diff([]types.UID{"d-0", "d-2"}, s.audit("--except", "d-1").Disruptions); diff != "" {
		t.Errorf("disruptions but d-1 (-want +got):\n%s", diff)
	}
	if got := s.audit("--except", "d-1,d-0", "--except", "d-2"); len(got.Marks) != 0 {
		t.Errorf("audit of all but all = %+v, want nothing", got)
	}
}

func TestCleanExceptSomeDisruptions(t *testing.T) {
	s := fakeSite(t)
	worlds := died(t, s, 3)
	if code, output := s.run("clean", "--except", "d-0,d-2"); code != 0 || !strings.Contains(output, `"audited": true`) {
		t.Errorf("clean = %d, %s, want 0 and audited", code, output)
	}
	worlds[0].expect("spared", "broken", "broken")
	worlds[1].expect("cleaned", "one", "two")
	worlds[2].expect("spared", "broken", "broken")
}

func TestUnreadableJournalIsReportedAndStopsNoOther(t *testing.T) {
	s := fakeSite(t)
	worlds := died(t, s, 2)
	broken := s.file("journal/d-0_t-0_" + string(fakeKind) + ".json")
	if err := writeFile(broken, "{"); err != nil {
		t.Fatal(err)
	}
	if code, output := s.run("clean"); code != exitNotCleaned || !strings.Contains(output, "d-0_t-0") {
		t.Errorf("clean = %d, %s, want 1 and the file", code, output)
	}
	worlds[1].expect("cleaned", "one", "two")
	audit := s.audit()
	if !strings.Contains(audit.Error, broken) || len(audit.Disruptions) != 1 || audit.Disruptions[0] != "d-0" {
		t.Errorf("audit = %+v, want the error and the disruption by the file's name", audit)
	}
	if code, output := s.run("clean", "--disruption", "d-1"); code != 0 {
		t.Errorf("clean of another disruption = %d, %s, want 0", code, output)
	}
}

// An injector that died before its first record, or after its last, leaves a lock alone.
func TestLockWithoutARecordIsFoundAndRemoved(t *testing.T) {
	s := fakeSite(t)
	if err := os.Mkdir(s.file("journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".lock", ".tmp"} {
		if err := writeFile(s.file("journal/d-7_t-1_"+string(fakeKind)+".json"+suffix), ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.audit(); len(got.Marks) != 1 || got.Disruptions[0] != "d-7" || got.Error != "" {
		t.Errorf("audit = %+v, want one mark of d-7", got)
	}
	if code, output := s.run("clean"); code != 0 {
		t.Errorf("clean = %d, %s, want 0", code, output)
	}
	if len(s.journals()) > 0 || len(s.audit().Marks) > 0 {
		t.Errorf("journals = %v, want none", s.journals())
	}
}

func TestAuditFitsIntoATerminationMessage(t *testing.T) {
	s := fakeSite(t)
	died(t, s, 1)
	if err := writeFile(s.file("termination"), "what was there before, longer than the message would be"+strings.Repeat(".", 5000)); err != nil {
		t.Fatal(err)
	}
	whole := s.audit()
	text, err := readFile(s.file("termination"))
	var message v1beta1.Audit
	if err != nil || json.Unmarshal([]byte(text), &message) != nil || !cmp.Equal(whole, message) {
		t.Errorf("termination message = %q, %v, want what was printed: %+v", text, err, whole)
	}

	many := v1beta1.Audit{Error: strings.Repeat("no ", 3000)}
	for n := range 500 {
		uid := types.UID(fmt.Sprintf("5a5a26f0-f5f5-4d30-94a8-7439d9c%05d", n/10))
		many.Disruptions = append(many.Disruptions, uid)
		many.Marks = append(many.Marks, v1beta1.Mark{Object: "x", Disruption: v1beta1.DisruptionRef{UID: uid}})
	}
	for _, uids := range []int{0, 10, 60, 500} {
		a := many
		a.Disruptions = a.Disruptions[:uids]
		data := encodeFitting(uids+len(a.Marks), func(keep int) any { return cutAudit(a, keep) })
		var got v1beta1.Audit
		if err := json.Unmarshal(data, &got); err != nil || len(data) > maxOutcome {
			t.Fatalf("%d disruptions: %d bytes, %v", uids, len(data), err)
		}
		if got.More != len(a.Marks)-len(got.Marks) || len(data) < maxOutcome/2 {
			t.Errorf("%d disruptions: more = %d beside %d of %d marks, in %d bytes", uids, got.More, len(got.Marks), len(a.Marks), len(data))
		}
		if all := len(got.Disruptions) == uids; all == strings.Contains(got.Error, "did not fit") {
			t.Errorf("%d disruptions: %d were kept, and the error is %.50q", uids, len(got.Disruptions), got.Error)
		}
	}
}

// Any program can make processes that look like ours, with any UID. Such UIDs must not hide
// real marks, and must not cause work for each of them.
func TestForgedUIDsHideNothing(t *testing.T) {
	s := fakeSite(t)
	died(t, s, 1)
	var forged []v1beta1.Mark
	forge := func(uid string) {
		forged = append(forged, v1beta1.Mark{Object: "burner process 7", Kind: fakeKind, Disruption: v1beta1.DisruptionRef{UID: types.UID(uid)}})
	}
	forge(strings.Repeat("A", 5000))
	forge("x | y\n")
	for n := range 600 {
		forge(fmt.Sprintf("a%063d", n)) // a valid UID that sorts before d-0
	}
	p := program{kinds: map[v1beta1.Kind]entry{fakeKind: {audit: func(context.Context, string, []v1beta1.Injection) ([]v1beta1.Mark, error) {
		return forged, nil
	}}}}
	config := Config{JournalDir: s.file("journal"), AuditTimeout: time.Minute}

	report := p.auditNode(t.Context(), config, filter{})
	data := encodeFitting(len(report.Disruptions)+len(report.Marks), func(keep int) any { return cutAudit(report, keep) })
	var got v1beta1.Audit
	if err := json.Unmarshal(data, &got); err != nil || len(data) > maxOutcome {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if len(got.Disruptions) < 40 || got.Disruptions[0] != "d-0" {
		t.Errorf("%d disruptions, %.1q, want d-0 first, of which there is a journal", len(got.Disruptions), got.Disruptions)
	}
	var lines []string
	for _, mark := range report.Marks {
		if mark.Disruption.UID == "" {
			lines = append(lines, mark.Object)
		}
	}
	want := fmt.Sprintf("marked with what is no UID, 2 in all, the first: burner process 7, of %q", strings.Repeat("A", maxForged-3)+"…")
	if diff := cmp.Diff([]string{want}, lines); diff != "" {
		t.Errorf("marks without a disruption (-want +got):\n%s", diff)
	}
	if got := p.auditNode(t.Context(), config, filter{disruptions: []string{"d-0"}}); len(got.Marks) != 3 {
		t.Errorf("audit of d-0 = %+v, want its journal and two values", got)
	}
}

func TestCleanSeveralDisruptionsAtOnce(t *testing.T) {
	s := fakeSite(t)
	worlds := died(t, s, 3)
	if code, output := s.run("clean", "--disruption", "d-0", "--disruption", "d-2"); code != 0 || len(s.report(output).Cleaned) != 2 {
		t.Errorf("clean = %d, %s, want 0 and two injections", code, output)
	}
	worlds[0].expect("cleaned", "one", "two")
	worlds[1].expect("spared", "broken", "broken")
	worlds[2].expect("cleaned", "one", "two")
}
