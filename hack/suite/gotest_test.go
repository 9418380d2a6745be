package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestReadingCountsAndKeepsReasons(t *testing.T) {
	stream := strings.Join([]string{
		`{"Action":"start","Package":"github.com/squall-chaos/squall/api"}`,
		`{"Action":"run","Package":"github.com/squall-chaos/squall/api","Test":"TestA"}`,
		`{"Action":"pass","Package":"github.com/squall-chaos/squall/api","Test":"TestA","Elapsed":0.1}`,
		`{"Action":"output","Package":"github.com/squall-chaos/squall/api","Test":"TestB","Output":"=== RUN   TestB\n"}`,
		`{"Action":"output","Package":"github.com/squall-chaos/squall/api","Test":"TestB","Output":"    a_test.go:7: no tcx before kernel 6.6\n"}`,
		`{"Action":"output","Package":"github.com/squall-chaos/squall/api","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}`,
		`{"Action":"skip","Package":"github.com/squall-chaos/squall/api","Test":"TestB","Elapsed":0}`,
		`{"Action":"output","Package":"github.com/squall-chaos/squall/api","Test":"TestC/a_case","Output":"=== RUN   TestC/a_case\n"}`,
		`{"Action":"output","Package":"github.com/squall-chaos/squall/api","Test":"TestC/a_case","Output":"    a_test.go:9: 2, want 1\n"}`,
		`{"Action":"fail","Package":"github.com/squall-chaos/squall/api","Test":"TestC/a_case","Elapsed":0}`,
		`{"Action":"fail","Package":"github.com/squall-chaos/squall/api","Elapsed":1}`,
		`{"ImportPath":"x","Action":"build-output","Output":"x.go:1: syntax error\n"}`,
		`go: a line that is no event`,
	}, "\n")
	var c counts
	var printed []string
	r := newReading(&c, func(format string, args ...any) { printed = append(printed, fmt.Sprintf(format, args...)) }, io.Discard)
	r.read(strings.NewReader(stream))
	r.end()

	got := fmt.Sprintf("%d passed, %d failed, %q, %q", c.passed, c.failed, c.skipped, c.failures)
	want := `1 passed, 1 failed, ["api: TestB: no tcx before kernel 6.6"], [{"api: TestC/a_case" ["=== RUN   TestC/a_case\n" "    a_test.go:9: 2, want 1\n"]}]`
	if got != want {
		t.Errorf("counts = %s, want %s", got, want)
	}
	if got := c.failures[0].ends(1); !slices.Equal(got, []string{"    a_test.go:9: 2, want 1\n"}) {
		t.Errorf("the summary repeats %q of the failure, want its only line", got)
	}
	for _, line := range []string{"x.go:1: syntax error", "a line that is no event", "FAIL api (1.0 s)"} {
		if !strings.Contains(strings.Join(printed, "\n"), line) {
			t.Errorf("printed %q, want a line with %q", printed, line)
		}
	}
}

func TestSummaryRepeatsBothEndsOfAFailure(t *testing.T) {
	buried := failure{output: []string{"a\n", "b\n", "a_test.go:7: 2, want 1\n", "c\n"}}
	if got, want := buried.ends(1), []string{"a\n", "a_test.go:7: 2, want 1\n", "... 1 lines\n", "c\n"}; !slices.Equal(got, want) {
		t.Errorf("of a failure with its error in the middle %q is repeated, want %q", got, want)
	}
	long := failure{output: []string{"=== RUN   TestA\n", "a_test.go:7: 2, want 1\nb\n", "c\n", "d\n"}}
	if got, want := long.ends(1), []string{"a_test.go:7: 2, want 1\n", "... 2 lines\n", "d\n"}; !slices.Equal(got, want) {
		t.Errorf("of a long failure %q is repeated, want %q", got, want)
	}
	if got := long.ends(2); len(got) != 4 {
		t.Errorf("of a failure of four lines %q are repeated, want all", got)
	}
}

func TestCauseOfAFailure(t *testing.T) {
	for want, output := range map[string][]string{
		"a_test.go:7: 2, want 1": {"    a_test.go:6: took 3 s\n", "    a_test.go:7: 2, want 1\n", "    server.go:86: 3, want 4\n", "    a_test.go:9: left\n"},
		"a_test.go:9: not ended": {"    a_test.go:6: took 3 s\n", "    a_test.go:9: not ended\n", "    server.go:86: what it logged\n"},
		"":                       {"panic: nil\n"},
	} {
		if got := (failure{output: output}).cause(); got != want {
			t.Errorf("cause of %q = %q, want %q", output, got, want)
		}
	}
}

func TestReadingNamesAPackageThatDidNotStart(t *testing.T) {
	var c counts
	r := newReading(&c, func(string, ...any) {}, io.Discard)
	r.read(strings.NewReader(`{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}`))
	r.end()
	if len(c.failures) != 1 || c.failures[0].name != "p" {
		t.Errorf("failures = %v, want p", c.failures)
	}
}

func summaryOf(ended []result) bool {
	s := newSuite(".", io.Discard)
	s.results = ended
	return s.summary()
}

func TestSummaryFailsWithAnyStage(t *testing.T) {
	for name, c := range map[string]struct {
		results []result
		want    bool
	}{
		"all passed":        {[]result{{name: "a"}, {name: "b"}}, true},
		"one failed":        {[]result{{name: "a"}, {name: "b", err: fmt.Errorf("no")}}, false},
		"one could not run": {[]result{{name: "a", err: errNotRun}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summaryOf(c.results); got != c.want {
				t.Errorf("summary() = %t, want %t", got, c.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	const listed = "test/e2e: TestNodeFailureEndsTheNode"
	for name, c := range map[string]struct {
		counts counts
		want   string
	}{
		"enough passed":         {counts{passed: 10}, ""},
		"too few passed":        {counts{passed: 9}, "9 tests passed, and at least 10 must"},
		"a listed one skipped":  {counts{passed: 10, skipped: []skip{{listed, "so"}}}, ""},
		"for what UML lacks":    {counts{passed: 10, skipped: []skip{{"injector/network@uml: TestA/tcx", noTCX + ", probe"}}}, ""},
		"the same natively":     {counts{passed: 10, skipped: []skip{{"injector/network: TestA/tcx", noTCX + ", probe"}}}, noTCX},
		"another one skipped":   {counts{passed: 10, skipped: []skip{{"api: TestA", "no tcx"}}}, "api: TestA: no tcx"},
		"listed ones count not": {counts{passed: 9, skipped: []skip{{listed, "so"}}}, "9 tests passed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.counts.verdict(10)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("verdict() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestATestThatFailedOnceHasFailed(t *testing.T) {
	var c counts
	for _, outcome := range []string{"pass", "fail", "pass", "skip"} {
		c.record("api: TestA/a b", outcome)
	}
	if got := c.outcomes["api:_TestA/a_b"]; got != "fail" {
		t.Errorf("outcome = %q, want fail", got)
	}
}
