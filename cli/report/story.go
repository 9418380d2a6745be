package report

import (
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/cli/view"
)

// OfStory describes a disruption of which only the history of its workflow is left.
func OfStory(s story.Story) Disruption {
	d := Disruption{
		Requester: s.Requester, Faults: []string{}, Targets: []Target{}, Probes: []Probe{},
		Outcome: s.Outcome, Why: s.Result, Ending: s.Ending, Verdict: s.Verdict, InjectedAt: s.InjectedAt,
	}
	d.Namespace, d.Name, _ = strings.Cut(s.Disruption, "/")
	for _, kind := range s.Kinds {
		d.Faults = append(d.Faults, v1beta1.Kind(kind).Field())
	}
	for _, p := range s.Probes {
		d.Probes = append(d.Probes, Probe{Name: p.Name, State: p.State})
	}
	n := len(s.Steps)
	if n > 0 {
		d.StartedAt = &s.Steps[0].Time
	}
	switch d.Outcome {
	case "":
		d.Outcome, d.Why = Unfinished, notEnded
	case view.Rejected:
	default: // a workflow with a result has cleaned up
		d.Cleaned = true
		if n > 0 {
			d.CleanedAt = &s.Steps[n-1].Time
		}
	}
	return d
}
