package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withoutTests are the rules that may still be without tests, because what
// they are about is not built yet. Never add to this list.
var withoutTests = []string{}

// numbered are all rules that docs/rules.md must list.
var numbered = []string{"1-12", "12b", "13-15", "15b", "16", "17", "17b", "18", "18b", "19", "19b", "20-56", "56b", "56c", "56d", "56e", "56f", "57-61", "E1-E5", "N1-N13", "P1-P23", "L1-L22", "I1-I16", "T1-T8", "S1-S25", "D1-D7", "C1-C14", "M1-M5", "O1-O3"}

// rule is a row of docs/rules.md.
type rule struct {
	// number is written as in the row, with its letters.
	number string
	tests  []namedTest
	// open is true for a rule that is marked as without tests.
	open bool
}

// namedTest is a test as docs/rules.md names it: "activities: TestJudge" or
// "workflows: TestStuck/it tries again by itself".
type namedTest struct{ folder, function, subtest string }

func (n namedTest) String() string {
	if n.subtest == "" {
		return n.folder + ": " + n.function
	}
	return n.folder + ": " + n.function + "/" + n.subtest
}

// TestEveryRuleHasTests finds rules that docs/rules.md leaves out or that name
// no test.
func TestEveryRuleHasTests(t *testing.T) {
	var listed, open []string
	for _, r := range rules(t) {
		number := strings.TrimSuffix(r.number, "a")
		listed = append(listed, number)
		if r.open {
			open = append(open, number)
		}
		if r.open == (len(r.tests) > 0) {
			t.Errorf("rule %s: name tests, or say that it is not built yet", r.number)
		}
	}
	if diff := cmp.Diff(spread(numbered), listed); diff != "" {
		t.Errorf("docs/rules.md must list every rule once and in order (-want +got):\n%s", diff)
	}
	for _, number := range open {
		if !slices.Contains(spread(withoutTests), number) {
			t.Errorf("rule %s had tests and must go on having some", number)
		}
	}
	for _, number := range spread(withoutTests) {
		if !slices.Contains(open, number) {
			t.Errorf("rule %s has tests now: take it off the list withoutTests", number)
		}
	}
}

// TestNamedTestsExist finds tests that docs/rules.md names and that do not exist,
// or that are in another package now. hack/suite checks at the end of make test
// that they ran and passed.
func TestNamedTestsExist(t *testing.T) {
	folders, sources := testFunctions(t)
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		for _, named := range r.tests {
			where := folders[named.function]
			switch {
			case strings.HasPrefix(named.folder, "make "):
				if !strings.Contains(recipe(string(makefile), strings.TrimPrefix(named.folder, "make ")), named.function) {
					t.Errorf("rule %s: the recipe of %s in the Makefile has no %s", r.number, named.folder, named.function)
				}
			case slices.Contains(where, named.folder):
				for part := range strings.SplitSeq(named.subtest, "/") {
					if part != "" && !strings.Contains(sources[named.folder], strconv.Quote(part)) {
						t.Errorf("rule %s names %q, but no test file of %s has the name %q", r.number, named, named.folder, part)
					}
				}
			case len(where) == 0:
				t.Errorf("rule %s names %q; no package has a function of that name", r.number, named)
			default:
				t.Errorf("rule %s names %q; %s is now in %s: change docs/rules.md", r.number, named, named.function, strings.Join(where, " and "))
			}
		}
	}
}

// TestCitedRulesExist finds comments that cite a rule that does not exist.
func TestCitedRulesExist(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rules(t) {
		known[r.number], known[strings.TrimSuffix(r.number, "a")] = true, true
	}
	for _, file := range goFiles(t, ".go") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "rules_test.go" {
			continue // its examples are no citations
		}
		for _, number := range citations(string(content)) {
			if !known[number] {
				t.Errorf("%s cites rule %s, which docs/rules.md does not have", file, number)
			}
		}
	}
}

func TestCitations(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"// rule 14", "[14]"},
		{"x := 1 // rule 2, 5-7", "[2 5 6 7]"},
		{"// (rules 43a, 48)", "[43a 48]"},
		{"// Rules 3 and T4: as they say", "[3 T4]"},
		{"// rule P3. Another sentence, 7 of them", "[P3]"},
		{"// rules I2-I4", "[I2 I3 I4]"},
		{"// rule 99b", "[99b]"},
		{"rule 9 outside of a comment", "[]"},
		{`name: "rule 9 in a string"`, "[]"},
	} {
		if got := fmt.Sprint(citations(c.source)); got != c.want {
			t.Errorf("citations(%q) = %s, want %s", c.source, got, c.want)
		}
	}
}

var (
	row       = regexp.MustCompile(`(?m)^\| ([A-Z]?\d+[a-z]?) \| .+ \| (.+) \|$`)
	tableLine = regexp.MustCompile(`(?m)^\|.*$`)
	quoted    = regexp.MustCompile("`([^`:]+): ([^`/]+)(?:/([^`]+))?`")
	citation  = regexp.MustCompile(`//.*?\b[Rr]ules? ([A-Z]?\d+[a-z]?(?:(?:-|, | and )[A-Z]?\d+[a-z]?)*)`)
	part      = regexp.MustCompile(`([A-Z]?\d+[a-z]?)(?:-([A-Z]?\d+))?`)
	function  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestEveryRowIsRead finds rows of docs/rules.md that are not read as a rule:
// their tests would not be required.
func TestEveryRowIsRead(t *testing.T) {
	content, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range tableLine.FindAllString(string(content), -1) {
		if line != "| rule | statement | tests |" && line != "|---|---|---|" && !row.MatchString(line) {
			t.Errorf("this row is not read as a rule: %.80s", line)
		}
	}
}

// rules are those of docs/rules.md.
func rules(t *testing.T) []rule {
	t.Helper()
	content, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, found := range row.FindAllStringSubmatch(string(content), -1) {
		r := rule{number: found[1], open: found[2] == "not built yet"}
		for _, q := range quoted.FindAllStringSubmatch(found[2], -1) {
			r.tests = append(r.tests, namedTest{q[1], q[2], q[3]})
		}
		all = append(all, r)
	}
	return all
}

// citations are the rules that the comments of a file cite.
func citations(source string) []string {
	numbers := []string{}
	for _, found := range citation.FindAllStringSubmatch(source, -1) {
		for _, p := range part.FindAllString(found[1], -1) {
			numbers = append(numbers, spread([]string{p})...)
		}
	}
	return numbers
}

// spread replaces spans such as P1-P3 by all numbers they hold.
func spread(spans []string) []string {
	var numbers []string
	for _, span := range spans {
		first, last, isSpan := strings.Cut(span, "-")
		if !isSpan {
			numbers = append(numbers, span)
			continue
		}
		letter := strings.TrimRight(first, "0123456789")
		from, _ := strconv.Atoi(strings.TrimPrefix(first, letter)) // the expressions take only digits
		to, _ := strconv.Atoi(strings.TrimPrefix(last, letter))
		for n := from; n <= to; n++ {
			numbers = append(numbers, letter+strconv.Itoa(n))
		}
	}
	return numbers
}

// testFunctions are the folders in which there is a test of a name, and the
// text of all Go files of a folder: a subtest may have a constant of its package
// as its name.
func testFunctions(t *testing.T) (folders map[string][]string, sources map[string]string) {
	t.Helper()
	folders, sources = map[string][]string{}, map[string]string{}
	for _, file := range goFiles(t, ".go") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		sources[folder] += string(content)
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range function.FindAllStringSubmatch(string(content), -1) {
			folders[found[1]] = append(folders[found[1]], folder)
		}
	}
	return folders, sources
}

// recipe is what the Makefile does for a target.
func recipe(makefile, target string) string {
	_, rest, _ := strings.Cut(makefile, "\n"+target+":")
	before, _, _ := strings.Cut(rest, "\n\n")
	return before
}
