package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// eventPages are the pages that list the reasons of events and conditions.
var eventPages = []string{"events.md", "cron.md", "rollout.md", "scenario.md"}

// notReasons are the words of the code that look like a reason of an event or a
// condition, and what they are.
var notReasons = map[string]string{
	"Accept":                   "header of HTTP",
	"Authorization":            "header of HTTP",
	"Host":                     "header of HTTP",
	"ConfigMap":                "kind",
	"Disruption":               "kind",
	"DisruptionCron":           "kind",
	"List":                     "kind",
	"Node":                     "kind",
	"Pod":                      "kind",
	"ContainerCannotRun":       "reason of a container",
	"ContainerCreating":        "reason of a container",
	"ContainerStatusUnknown":   "reason of a container",
	"OutOf":                    "beginning of a pod's reason",
	"PodInitializing":          "reason of a container",
	"StartError":               "reason of a container",
	"Google":                   "name of a cloud",
	"Kuperator":                "name of a driver",
	"Began":                    "run of a cron, whose condition is True then",
	"Gone":                     "run that is not reported: its parent is gone",
	"Superseded":               "run that is not reported: a later one has its place",
	"GoesOn":                   "type of an error",
	"NotDelivered":             "type of an error",
	"NotProven":                "type of an error",
	"ProberStopped":            "type of an error",
	"Success":                  "result of a probe",
	"Failure":                  "result of a probe",
	"Unknown":                  "result of a probe",
	"Pending":                  "phase",
	"Replacing":                "state of a replacement",
	"Unmanaged":                "state of an operation",
	"Run":                      "prefix of events",
	"TemporalReportedProblems": "search attribute",
}

// Every word that looks like a reason of an event or a condition is on a page, or in the
// list above.
func TestReasonsAreOnThePages(t *testing.T) {
	pages := ""
	for _, page := range eventPages {
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text)
	}
	found := camelCase(t, "../activities/", "../crdbridge/")
	if len(found) < 80 {
		t.Fatalf("%d words were found: the test would prove little", len(found))
	}
	for _, word := range slices.Sorted(maps.Keys(found)) {
		switch onPage := strings.Contains(pages, "`"+word+"`"); {
		case !onPage && notReasons[word] == "":
			t.Errorf("%s: %q is on none of the pages %v; if it is no reason of an event or a condition, add it to notReasons", found[word], word, eventPages)
		}
	}
	for word := range notReasons {
		if _, found := found[word]; !found {
			t.Errorf("notReasons has %q, which the code does not have", word)
		}
	}
}

// Every condition of the API is on a page.
func TestConditionsAreOnThePages(t *testing.T) {
	pages := ""
	for _, page := range append(slices.Clone(eventPages), "emergency-stop.md") {
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text)
	}
	declared := regexp.MustCompile(`(?m)^\s*(?:const )?(?:Condition|Reason|Effect)[A-Z]\w* +(?:EffectState +)?= "(\w+)"`)
	conditions := 0
	for _, file := range goFiles(t, ".go") {
		if !strings.HasPrefix(file, "../api/v1beta1/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range declared.FindAllSubmatch(code, -1) {
			conditions++
			if !strings.Contains(pages, "`"+string(found[1])+"`") {
				t.Errorf("%s: %s is on none of the pages", file, found[1])
			}
		}
	}
	if conditions < 15 {
		t.Fatalf("%d conditions were found: the test would prove little", conditions)
	}
}

// camelWords are the string literals of one word that begins with a capital letter in
// the code below some directories, and where one of them is.
func camelCase(t *testing.T, directories ...string) map[string]string {
	t.Helper()
	word := regexp.MustCompile(`^[A-Z][a-z]+(?:[A-Z][a-z]+)*$`)
	found := map[string]string{}
	for _, file := range goFiles(t, ".go") {
		in := slices.ContainsFunc(directories, func(directory string) bool { return strings.HasPrefix(file, directory) })
		if !in || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/internal/") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && word.MatchString(text(literal)) {
				found[text(literal)] = set.Position(literal.Pos()).String()
			}
			return true
		})
	}
	return found
}
