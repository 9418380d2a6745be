package report

import (
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/cli/view"
)

// OfStory describes a disruption of which only the history of its workflow is left.
func OfStory(told story.Story) Disruption {
	d := Disruption{
		Requester: told.Requester, Faults: []string{}, Targets: []Target{}, Probes: []Probe{},
		Outcome: told.Outcome, Why: told.Result, Ending: told.Ending, Verdict: told.Verdict, InjectedAt: told.InjectedAt,
	}
	d.Namespace, d.Name, _ = strings.Cut(told.Disruption, "/")
	for _, kind := range told.Kinds {
		d.Faults = append(d.Faults, fieldOf(v1beta1.Kind(kind)))
	}
	for _, p := range told.Probes {
		d.Probes = append(d.Probes, Probe{Name: p.Name, State: p.State})
	}
	n := len(told.Steps)
	if n > 0 {
		d.StartedAt = &told.Steps[0].Time
	}
	switch d.Outcome {
	case "":
		d.Outcome, d.Why = Unfinished, "it has not ended"
	case view.Rejected:
	default: // a workflow with a result has cleaned up
		d.Cleaned = true
		if n > 0 {
			d.CleanedAt = &told.Steps[n-1].Time
		}
	}
	return d
}
