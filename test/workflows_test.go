package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sharedByWorkflows are the packages below workflows that are not a workflow, and
// notification, the child of two of them. Each may import only those before it. Any other
// package below workflows is a workflow: it may import all of these and no other workflow.
var sharedByWorkflows = []string{"contract", "steadystate", "connect", "start", "traces", "flow", "prober", "notification"}

// forClients is how many of sharedByWorkflows serve those who start and signal workflows.
const forClients = 5

// TestWorkflowsPointOneWay holds the imports among the packages below workflows: none
// points up, and none from one workflow to another.
func TestWorkflowsPointOneWay(t *testing.T) {
	imports, err := importsOf()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sharedByWorkflows {
		if _, found := imports["workflows/"+name]; !found {
			t.Errorf("there is no package workflows/%s: the rule would prove nothing", name)
		}
	}
	for _, wrong := range upwardInWorkflows(imports) {
		t.Error(wrong)
	}
}

// upwardInWorkflows lists the imports of packages below workflows that point up, and
// those from elsewhere that bypass package workflows.
func upwardInWorkflows(imports map[string][]string) (wrong []string) {
	for importer, all := range imports {
		for _, imported := range all {
			from, to := floor(importer), floor(imported)
			switch {
			case to < 0 || strings.HasPrefix(importer, "test/"):
			case from >= 0 && to >= from:
				wrong = append(wrong, fmt.Sprintf("%s imports %s, which is not below it", importer, imported))
			case from < 0 && to >= forClients && imported != "workflows":
				wrong = append(wrong, fmt.Sprintf("%s imports %s, which only packages below workflows may", importer, imported))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// floor is where a package stands among those below workflows; negative for any other.
func floor(name string) int {
	below, found := strings.CutPrefix(name, "workflows/")
	switch shared := slices.Index(sharedByWorkflows, below); {
	case name == "workflows":
		return len(sharedByWorkflows) + 1
	case !found:
		return -1
	case shared >= 0:
		return shared
	default:
		return len(sharedByWorkflows)
	}
}

func TestUpwardInWorkflows(t *testing.T) {
	got := upwardInWorkflows(map[string][]string{
		"workflows":              {"workflows/scenario", "workflows/new"},
		"workflows/new":          {"workflows/flow", "workflows/scenario", "api"},
		"workflows/scenario":     {"workflows/notification", "activities"},
		"workflows/notification": {"workflows/flow"},
		"workflows/flow":         {"workflows/prober"},
		"worker":                 {"workflows", "workflows/contract", "workflows/new"},
		"activities":             {"workflows/contract", "workflows/flow"},
		"test/world":             {"workflows/scenario"},
	})
	want := []string{
		"activities imports workflows/flow, which only packages below workflows may",
		"worker imports workflows/new, which only packages below workflows may",
		"workflows/flow imports workflows/prober, which is not below it",
		"workflows/new imports workflows/scenario, which is not below it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("upward imports (-want +got):\n%s", diff)
	}
}
