package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"
)

// inQuarantineFor puts tests into quarantine until the end of t.
func inQuarantineFor(t *testing.T, entries ...quarantine) {
	before := quarantined
	t.Cleanup(func() { quarantined = before })
	quarantined = entries
}

var flaky = quarantine{test: "api/a: TestA", reason: "it bets on a port"}

// The list of the repository would fail the run.
func TestQuarantineIsInOrder(t *testing.T) {
	if err := newSuite("../..", io.Discard).quarantineProblems(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestQuarantineExcusesFailuresAlone(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		entry   quarantine
		failed  int
		excused int
	}{
		"a failure":                        {body: "t.Error(1)", entry: flaky, excused: 1},
		"a failure of a subtest":           {body: `t.Run("x", func(t *testing.T) { t.Error(1) })`, entry: flaky, excused: 2},
		"a pass":                           {entry: flaky},
		"a failure of another test":        {body: "t.Error(1)", entry: quarantine{test: "api/a: TestB"}, failed: 1},
		"a panic: no later test ran":       {body: "panic(1)", entry: flaky, failed: 1},
		"an exit: no later test ran":       {body: "os.Exit(1)", entry: flaky, failed: 1, excused: 1},
		"a time-out: no later test ran":    {body: "select {}", entry: flaky, failed: 1},
		"a failure of the package's own":   {body: "}\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1)", entry: flaky, failed: 1},
		"a failure that the test has told": {body: `t.Error("an error: panic: no")`, entry: flaky, excused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inQuarantineFor(t, c.entry)
			s := checkout(t, map[string]string{"api/a/a_test.go": strings.Replace(testFile(c.body), `"testing"`, "\"os\"\nimport \"testing\"\nvar _ = os.Exit", 1)})
			got, err := s.testedAlone(t)
			if err != nil || got.failed != c.failed || len(got.excused) != c.excused {
				t.Errorf("failures %q, excused %q (%v); want %d and %d", got.failures, got.excused, err, c.failed, c.excused)
			}
			if err := got.verdict(0); (err != nil) != (c.failed > 0) {
				t.Errorf("verdict() = %v with %d failed", err, c.failed)
			}
		})
	}
}

// testedAlone builds and runs the tests of the one package of a checkout.
func (s *suite) testedAlone(t *testing.T) (c counts, err error) {
	t.Helper()
	binaries, err := s.list(t.Context(), s.root, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.compileTests(t.Context(), s.root, t.TempDir(), binaries, false); err != nil {
		t.Fatal(err)
	}
	r := newReading(&c, s.logf, io.Discard)
	err = s.runTests(t.Context(), r, binaries[0], "-test.timeout=2s")
	r.end()
	return c, err
}

// go test ends with exit code 1; only its events have the reason.
func TestQuarantineExcusesGoTest(t *testing.T) {
	s := checkout(t, map[string]string{"api/a/a_test.go": testFile("t.Error(1)")})
	var c counts
	if err := s.goTest(t.Context(), &c, s.root, nil, "./..."); err != nil || c.verdict(0) == nil {
		t.Errorf("goTest() = %v, verdict %v, want a failed test", err, c.verdict(0))
	}
	inQuarantineFor(t, flaky)
	c = counts{}
	if err := s.goTest(t.Context(), &c, s.root, nil, "./..."); err != nil || c.verdict(0) != nil || len(c.excused) != 1 {
		t.Errorf("goTest() = %v, verdict %v, excused %v, want one excused", err, c.verdict(0), c.excused)
	}
	killed := s.command(t.Context(), "sh", "-c", "kill -9 $$").Run()
	if err := c.unexcused(t.Context(), killed); err != killed {
		t.Errorf("unexcused(%v) = %v, want the error itself", killed, err)
	}
	failed := exec.Command("false").Run()
	if err := (&counts{}).unexcused(t.Context(), failed); err != failed {
		t.Errorf("unexcused(%v) = %v without a failure in quarantine, want the error itself", failed, err)
	}
}

func TestQuarantineProvesNoRule(t *testing.T) {
	inQuarantineFor(t, quarantine{test: "api/v1: TestB", reason: "so"})
	results := []result{{name: "verify"}, {name: "unit", tests: counts{outcomes: map[string]string{"api:_TestA": "pass", "api/v1:_TestB/the_first_of_two:_it_is_taken": "pass"}}}}
	got := strings.Join((&suite{results: results}).unproved(proofs(someRules), nil), "; ")
	if want := "rule 1 is not proved: api/v1: TestB/the first of two: it is taken is in quarantine and proves nothing: so"; got != want {
		t.Errorf("unproved() = %q, want %q", got, want)
	}
}

func TestAnEntryOfQuarantineFailsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		commits int
		change  func(*quarantine)
		want    string
	}{
		"a new one":           {commits: 1, change: func(*quarantine) {}},
		"100 commits old":     {commits: 101, change: func(*quarantine) {}},
		"101 commits old":     {commits: 102, change: func(*quarantine) {}, want: "the entry is 101 commits old, and 100 are allowed"},
		"of no commit":        {commits: 1, change: func(q *quarantine) { q.since = "HEAD" }, want: `commit "HEAD": want 40 hexadecimal digits`},
		"without a reason":    {commits: 1, change: func(q *quarantine) { q.reason = "" }, want: "the entry has no reason"},
		"of no test":          {commits: 1, change: func(q *quarantine) { q.test = "api/a: TestAb" }, want: "api/a: TestAb in hack/suite/quarantine.go: no such test exists"},
		"of a subtest":        {commits: 1, change: func(q *quarantine) { q.test = "api/a: TestA/x" }, want: "no such test exists"},
		"of another package":  {commits: 1, change: func(q *quarantine) { q.test = "api/b: TestA" }, want: "no such test exists"},
		"of what is no test":  {commits: 1, change: func(q *quarantine) { q.test = "api/a" }, want: "no such test exists"},
		"of the whole folder": {commits: 1, change: func(q *quarantine) { q.test = "api/a: " }, want: "no such test exists"},
	} {
		t.Run(name, func(t *testing.T) {
			s, first := inCheckout(t, c.commits)
			s.write(t, "api/a/a_test.go", testFile(""))
			entry := flaky
			entry.since = first
			c.change(&entry)
			inQuarantineFor(t, entry)
			var out strings.Builder
			s.out = &out
			passed := s.run(t.Context(), nil)
			if passed != (c.want == "") || !strings.Contains(out.String(), c.want) {
				t.Errorf("run() = %t and printed %q, want %q", passed, out.String(), c.want)
			}
		})
	}
}

func TestSummaryCountsFailuresInQuarantine(t *testing.T) {
	inQuarantineFor(t, flaky)
	var out strings.Builder
	s := newSuite(".", &out)
	s.results = []result{{name: "unit", tests: counts{excused: []failure{{"api/a: TestA/x", []string{"a_test.go:7: 2, want 1\n"}}, {"api/a: TestA", nil}, {"api/a@qemu: TestA", nil}}}}}
	if !s.summary() {
		t.Error("summary() = false, want true")
	}
	for _, want := range []string{"api/a: TestA: failed 2 times", "it bets on a port", "a_test.go:7: 2, want 1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
}
