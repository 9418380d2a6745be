package story

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
)

// The steps name targets, injection, probes, decisions and clean-up. They omit the waits of
// the workflow and its writes of the status.
func TestStepsOfHistories(t *testing.T) {
	for name, want := range map[string][]string{
		"control-group": {
			"begins: cpu-pressure on 2", "selected 2 of 2 targets", "probe shop is Success: status 200", "injected 2 of 2 targets",
			"is to end: enough", "phase Cleaning: enough", "cleaned up",
		},
	} {
		file, err := os.Open("../../workflows/testdata/histories/1/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		read := newChapters()
		for _, event := range recorded.GetEvents() {
			read.add(event)
		}
		var texts []string
		for _, step := range read.steps {
			texts = append(texts, step.Text)
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if read.injected.IsZero() || len(read.kinds) != 1 || len(read.shownProbes()) != 1 {
			t.Errorf("%s: injected %s, kinds %v, probes %v", name, read.injected, read.kinds, read.shownProbes())
		}
	}
}
