package report

import (
	"maps"
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/view"
)

// Scenario is what is known of a DisruptionScenario beside its Disruptions.
type Scenario struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// Requester is the user who asked for it; empty if Squall does not record it.
	Requester string `json:"requester,omitempty"`
	// Verdict is the worst of its steps and probes.
	Verdict string  `json:"verdict,omitempty"`
	Phase   string  `json:"phase,omitempty"`
	Message string  `json:"message,omitempty"`
	Steps   []Step  `json:"steps"`
	Probes  []Probe `json:"probes"`
}

// Step is a step of a scenario. Phase is empty if it did not begin.
type Step struct {
	Name       string `json:"name"`
	Phase      string `json:"phase,omitempty"`
	Verdict    string `json:"verdict,omitempty"`
	ApprovedBy string `json:"approvedBy,omitempty"`
	// Disruptions are the names of its disruptions.
	Disruptions []string   `json:"disruptions,omitempty"`
	StartedAt   *time.Time `json:"startedAt,omitempty"`
	EndedAt     *time.Time `json:"endedAt,omitempty"`
}

// OfScenario describes a scenario as the command last saw it, and its disruptions. seen has
// the disruptions that the command saw, by UID; the others have only their ending.
func OfScenario(s *v1beta1.DisruptionScenario, seen map[string]Disruption) (*Scenario, []Disruption) {
	r := &Scenario{
		Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Requester: v1beta1.RequesterOf(s).User,
		Verdict: string(s.Status.Verdict), Phase: string(s.Status.Phase), Message: s.Status.Message,
		Steps: []Step{}, Probes: probesOf(s.Spec.SteadyState, s.Status.SteadyState),
	}
	disruptions := []Disruption{}
	for _, step := range s.Spec.Steps {
		described := Step{Name: step.Name}
		for _, at := range s.Status.Steps {
			if at.Name != step.Name {
				continue
			}
			described.Phase, described.Verdict, described.ApprovedBy = string(at.Phase), string(at.Verdict), at.ApprovedBy
			described.StartedAt, described.EndedAt = stamp(&at.StartedAt), stamp(at.EndedAt)
			for _, run := range at.Disruptions {
				described.Disruptions = append(described.Disruptions, run.Name)
				disruptions = append(disruptions, ofRun(s.Namespace, run, seen))
			}
		}
		r.Steps = append(r.Steps, described)
	}
	// A scenario that was deleted may not name its newest disruptions.
	for _, uid := range slices.Sorted(maps.Keys(seen)) {
		if !slices.ContainsFunc(disruptions, func(d Disruption) bool { return d.UID == uid }) {
			disruptions = append(disruptions, seen[uid])
		}
	}
	return r, disruptions
}

// ofRun describes a disruption of a scenario.
func ofRun(namespace string, run v1beta1.ScenarioRun, seen map[string]Disruption) Disruption {
	d, known := seen[string(run.UID)]
	if !known {
		d = Disruption{Namespace: namespace, Name: run.Name, UID: string(run.UID),
			Faults: []string{}, Targets: []Target{}, Probes: []Probe{}, Outcome: Unfinished, Why: notEnded}
	}
	if run.Ending == "" {
		return d
	}
	d.Ending, d.Cleaned = run.Ending, d.Outcome != view.IsStuck
	if d.Outcome == Unfinished {
		d.Outcome, d.Why = view.Outcome(run.Verdict), run.Ending
	}
	return d
}
