package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const someRules = `
| rule | statement | tests |
|---|---|---|
| 1 | It runs. | ` + "`api: TestA`, `api/v1: TestB/the first of two: it is taken`" + ` |
| 2a | It waits. | not built yet |
| 2b | It goes on. | ` + "`api: TestA`" + ` |
| T4 | It is determined. | ` + "`make verify: workflowcheck`" + ` |
`

const longRules = `
| 7 | It lasts. | ` + "`api: TestA` (long), `api: TestA/at once`, `api: TestC d` (long)" + ` |
`

func TestProofs(t *testing.T) {
	got := fmt.Sprint(proofs(someRules + longRules))
	want := "[{1 api: TestA false} {1 api/v1: TestB/the first of two: it is taken false} {2b api: TestA false}" +
		" {T4 make verify: workflowcheck false} {7 api: TestA true} {7 api: TestA/at once false} {7 api: TestC d true}]"
	if got != want {
		t.Errorf("proofs() = %s, want %s", got, want)
	}
}

// Each row of the list is read; other lists are ignored.
func TestEveryRowOfTheRulesIsRead(t *testing.T) {
	content, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	read, tests := map[string]bool{}, 0
	for _, p := range proofs(string(content)) {
		read[p.rule] = true
		tests++
	}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		number := strings.TrimPrefix(cells[0], "| ")
		if len(cells) > 2 && strings.ContainsAny(number, "0123456789") && cells[len(cells)-1] != "not built yet |" && !read[number] {
			t.Errorf("rule %s names tests that nobody reads", number)
		}
	}
	t.Logf("%d rules name %d tests", len(read), tests)
}

func TestRulesAreProvedByWhatRanAndPassed(t *testing.T) {
	const a, b = "api:_TestA", "api/v1:_TestB/the_first_of_two:_it_is_taken"
	ran := func(outcomes map[string]string, verify error) []result {
		return []result{{name: "unit", tests: counts{outcomes: outcomes}}, {name: "verify", err: verify}}
	}
	inPart := counts{
		outcomes: map[string]string{a: "pass", a + "/fanotify": "pass", a + "/BPF_LSM": "skip", a + "/fmod_ret": "pass", a + "/fmod_ret/deep": "skip", b: "pass"},
		skipped:  []skip{{"api: TestA/fmod_ret/deep", "so"}, {"api: TestA/BPF LSM", "the kernel lacks it"}},
	}
	for name, c := range map[string]struct {
		results []result
		want    string
	}{
		"all passed":         {ran(map[string]string{a: "pass", b: "pass"}, nil), ""},
		"a test is missing":  {ran(map[string]string{b: "pass"}, nil), "rule 1 is not proved: api: TestA did not run; rule 2b is not proved: api: TestA did not run"},
		"a test was skipped": {ran(map[string]string{a: "skip", b: "pass"}, nil), "rule 1 is not proved: api: TestA was skipped; rule 2b is not proved: api: TestA was skipped"},
		"a subtest failed":   {ran(map[string]string{a: "pass", b: "fail"}, nil), "rule 1 is not proved: api/v1: TestB/the first of two: it is taken failed"},
		"skipped in one stage, passed in another": {
			append(ran(map[string]string{a: "skip", b: "pass"}, nil), result{name: "e2e", tests: counts{outcomes: map[string]string{a: "pass"}}}), ""},
		"passed in one stage, failed in another": {
			append(ran(map[string]string{a: "pass", b: "pass"}, nil), result{name: "e2e", tests: counts{outcomes: map[string]string{a: "fail"}}}),
			"rule 1 is not proved: api: TestA failed; rule 2b is not proved: api: TestA failed"},
		"subtests were skipped": {
			[]result{{name: "unit", tests: inPart}, {name: "verify"}},
			"rule 1 is not proved: api: TestA was proved only in part: 2 subtests skipped: BPF_LSM: the kernel lacks it; rule 2b is not proved: api: TestA was proved only in part: 2 subtests skipped: BPF_LSM: the kernel lacks it"},
		"subtests were skipped, and one of them passed in another stage": {
			[]result{{name: "unit", tests: inPart}, {name: "verify"}, {name: "e2e", tests: counts{outcomes: map[string]string{a + "/BPF_LSM": "pass"}}}},
			"rule 1 is not proved: api: TestA was proved only in part: 1 subtests skipped: fmod_ret/deep: so; rule 2b is not proved: api: TestA was proved only in part: 1 subtests skipped: fmod_ret/deep: so"},
		"subtests were skipped, and all passed on another kernel": {
			[]result{{name: "unit", tests: inPart}, {name: "verify"}, {name: "kernel", tests: counts{
				outcomes: map[string]string{"api@qemu:_TestA": "pass", "api@qemu:_TestA/BPF_LSM": "pass", "api@qemu:_TestA/fmod_ret/deep": "pass"}}}}, ""},
		"a subtest failed on another kernel": {
			append(ran(map[string]string{a: "pass", b: "pass"}, nil), result{name: "kernel", tests: counts{outcomes: map[string]string{"api@uml:_TestA/x": "fail"}}}),
			"rule 1 is not proved: api: TestA failed; rule 2b is not proved: api: TestA failed"},
		"another test with a longer name was skipped": {ran(map[string]string{a: "pass", b: "pass", a + "nother/x": "skip"}, nil), ""},
		"make verify failed":                          {ran(map[string]string{a: "pass", b: "pass"}, errNotRun), "rule T4 is not proved: make verify: workflowcheck did not pass"},
		"make verify not run":                         {ran(map[string]string{a: "pass", b: "pass"}, nil)[:1], "rule T4 is not proved: make verify: workflowcheck did not pass"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join((&suite{results: c.results}).unproved(proofs(someRules), nil), "; ")
			if got != c.want {
				t.Errorf("unproved() = %q, want %q", got, c.want)
			}
		})
	}
}
