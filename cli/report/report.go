// Package report describes a run of squall to programs and to other people: as JSON,
// as JUnit and as a page of HTML. It reads no file and no clock; Files are those of --report.
package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/chart"
	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/view"
)

// Format is the version of the fields of a Report. Later versions of Squall only add
// fields to it.
const Format = 1

// Outcomes that a report knows in addition to those of package view.
const (
	// Error means that nothing was created.
	Error view.Outcome = "Error"
	// Unfinished means that the command stopped waiting and the object continues.
	Unfinished view.Outcome = "Unfinished"
)

// notEnded explains the outcome Unfinished.
const notEnded = "it has not ended"

// Report describes a run from the start of the command until it stopped waiting.
type Report struct {
	Format int `json:"format"`
	// File is the manifest; empty in a report about the past.
	File string `json:"file,omitempty"`
	// Outcome is Passed, Failed, Aborted, Inconclusive, Stuck, Rejected, Error or
	// Unfinished. Why explains it in a sentence.
	Outcome view.Outcome `json:"outcome"`
	Why     string       `json:"why"`
	// ExitCode is that of the command.
	ExitCode int       `json:"exitCode"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended"`
	// Scenario is unset for a Disruption on its own.
	Scenario *Scenario `json:"scenario,omitempty"`
	// Disruptions of the scenario in the order of its steps, or the only one.
	Disruptions []Disruption `json:"disruptions"`
}

// Disruption is what is known of one Disruption. Times are unset until they happened.
type Disruption struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// Requester is the user who asked for it; empty if Squall does not record it.
	Requester string `json:"requester,omitempty"`
	// Purpose is spec.reporting.purpose.
	Purpose string `json:"purpose,omitempty"`
	// Faults are fields of the spec, such as network.
	Faults []string `json:"faults"`
	DryRun bool     `json:"dryRun,omitempty"`
	// The fields What, WhichTargets and HowLong explain the spec in sentences.
	What         []string `json:"what"`
	WhichTargets []string `json:"whom"`
	HowLong      []string `json:"howLong"`
	// Injected of Wanted targets had every fault. Targets are those in the status.
	Injected int      `json:"injected"`
	Wanted   int      `json:"wanted"`
	Targets  []Target `json:"targets"`
	// Effect is Proven, NothingMatchedYet, Ineffective or Lost.
	Effect        string `json:"effect,omitempty"`
	EffectMessage string `json:"effectMessage,omitempty"`
	// Verdict is that of the probes; empty without probes or before the end.
	Verdict string  `json:"verdict,omitempty"`
	Summary string  `json:"summary,omitempty"`
	Probes  []Probe `json:"probes"`
	// Outcome and Why are as those of the Report.
	Outcome view.Outcome `json:"outcome"`
	Why     string       `json:"why"`
	Phase   string       `json:"phase,omitempty"`
	Ending  string       `json:"ending,omitempty"`
	// Cleaned is true once nothing is injected any more. LeftBehind names what may be left
	// on a node.
	Cleaned    bool       `json:"cleaned"`
	LeftBehind string     `json:"leftBehind,omitempty"`
	CreatedAt  *time.Time `json:"createdAt,omitempty"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	InjectedAt *time.Time `json:"injectedAt,omitempty"`
	CleanedAt  *time.Time `json:"cleanedAt,omitempty"`
	// Timeline are the changes that the command saw, in their order.
	Timeline []Moment `json:"timeline,omitempty"`
	// Answers are those to the probes over time, if they are known.
	Answers []chart.Series `json:"answers,omitempty"`
	// Steps are those of the workflow; only in a report about the past.
	Steps []Event `json:"steps,omitempty"`
}

// Event is one event of the disruption.
type Event struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Target is one fault on one target.
type Target struct {
	Name   string `json:"name"`
	Fault  string `json:"fault"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Effect string `json:"effect,omitempty"`
	// Evidence has the measured figures.
	Evidence string `json:"evidence,omitempty"`
}

// Probe has the results of a probe.
type Probe struct {
	Name string `json:"name"`
	// State is Success, Failure or Unknown, Verdict as that of the Disruption.
	State   string `json:"state"`
	Verdict string `json:"verdict,omitempty"`
	Text    string `json:"text,omitempty"`
	// Targets is how many targets were asked, Failing how many of them failed; 0 for a
	// probe that is not asked for each target.
	Targets int `json:"targets,omitempty"`
	Failing int `json:"failing,omitempty"`
}

// Moment is the state from a time on.
type Moment struct {
	Time     time.Time `json:"time"`
	Phase    string    `json:"phase"`
	Injected int       `json:"injected"`
	Wanted   int       `json:"wanted"`
	// Probes are the states of probes by name.
	Probes map[string]string `json:"probes,omitempty"`
}

// MomentOf is the state of a disruption when it was seen.
func MomentOf(d *v1beta1.Disruption, at time.Time) Moment {
	m := Moment{Time: at, Phase: string(d.Status.Phase)}
	m.Injected, m.Wanted, _ = view.CountsOf(d.Status.Targets)
	if s := d.Status.SteadyState; s != nil && len(s.Probes) > 0 {
		m.Probes = map[string]string{}
		for _, p := range s.Probes {
			m.Probes[p.Name] = cmp.Or(string(p.State), string(v1beta1.ProbeUnknown))
		}
	}
	return m
}

// Same is true if only the time differs.
func (m Moment) Same(as Moment) bool {
	return m.Phase == as.Phase && m.Injected == as.Injected && m.Wanted == as.Wanted && maps.Equal(m.Probes, as.Probes)
}

// Of describes a disruption as it was last seen. gone means that its object was deleted
// since, which only happens after the clean-up.
func Of(d *v1beta1.Disruption, gone bool) Disruption {
	s := d.Status
	r := Disruption{
		Namespace: d.Namespace, Name: d.Name, UID: string(d.UID), DryRun: d.Spec.DryRun,
		Requester: v1beta1.RequesterOf(d).User, Faults: fieldsOf(d.Spec.Kinds()),
		Phase: string(s.Phase), Ending: s.Ending, Targets: targetsOf(s), Probes: probesOf(d.Spec.SteadyState, s.SteadyState),
		CreatedAt: stamp(&d.CreationTimestamp), StartedAt: stamp(s.StartTime), InjectedAt: stamp(s.InjectedTime), CleanedAt: stamp(s.CleanedAt),
	}
	r.explain(d)
	if d.Spec.Reporting != nil {
		r.Purpose = d.Spec.Reporting.Purpose
	}
	r.Injected, r.Wanted, _ = view.CountsOf(s.Targets)
	if c := meta.FindStatusCondition(s.Conditions, v1beta1.ConditionEffectVerified); c != nil {
		r.Effect, r.EffectMessage = c.Reason, c.Message
	}
	if s.SteadyState != nil {
		r.Verdict, r.Summary = string(s.SteadyState.Verdict), s.SteadyState.Summary
	}
	stuck := view.Stuck(d) && !gone
	r.Cleaned = (s.Phase == v1beta1.PhaseFinished || gone) && !stuck
	if s.CleanedVerified != nil && !*s.CleanedVerified {
		r.LeftBehind = "something may be left on a node"
		if c := meta.FindStatusCondition(s.Conditions, v1beta1.ConditionCleaned); c != nil && c.Message != "" {
			r.LeftBehind = c.Message
		}
	}
	r.Outcome, r.Why = Unfinished, notEnded
	if gone || stuck || s.Phase.Over() {
		result := view.ResultOf(d)
		r.Outcome, r.Why = result.Outcome, result.Why
	}
	return r
}

// explain adds the sentences of squall explain.
func (r *Disruption) explain(d *v1beta1.Disruption) {
	d = d.DeepCopy()
	d.Default()
	for _, topic := range explain.Disruption(d) {
		switch topic.Name {
		case "what":
			r.What = topic.Lines
		case "whom":
			r.WhichTargets = topic.Lines
		case "how long":
			r.HowLong = topic.Lines
		}
	}
}

func targetsOf(s v1beta1.DisruptionStatus) []Target {
	all := []Target{}
	for _, name := range slices.Sorted(maps.Keys(s.TargetInjections)) {
		for _, kind := range slices.Sorted(maps.Keys(s.TargetInjections[name])) {
			at := s.TargetInjections[name][kind]
			target := Target{Name: name, Fault: kind.Field(), Status: string(at.InjectionStatus), Reason: at.Reason}
			if at.Effect != nil {
				target.Effect, target.Evidence = string(at.Effect.State), at.Effect.Evidence
			}
			all = append(all, target)
		}
	}
	return all
}

func fieldsOf(kinds v1beta1.Kinds) []string {
	fields := make([]string, len(kinds))
	for i, kind := range kinds {
		fields[i] = kind.Field()
	}
	return fields
}

// probesOf are the probes of the status, or those of the spec before they were asked.
func probesOf(spec *v1beta1.SteadyState, status *v1beta1.SteadyStateStatus) []Probe {
	all := []Probe{}
	if spec == nil {
		return all
	}
	if status != nil && len(status.Probes) > 0 {
		for _, p := range status.Probes {
			all = append(all, Probe{Name: p.Name, State: cmp.Or(string(p.State), string(v1beta1.ProbeUnknown)), Verdict: string(p.Verdict),
				Text: p.Text, Targets: p.Targets, Failing: p.Failing})
		}
		return all
	}
	for _, p := range spec.Probes {
		all = append(all, Probe{Name: p.Name, State: string(v1beta1.ProbeUnknown)})
	}
	return all
}

func stamp(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t.Time
}

// Title names what the report is about.
func (r Report) Title() string {
	switch {
	case r.Scenario != nil:
		return r.Scenario.Namespace + "/" + r.Scenario.Name
	case len(r.Disruptions) > 0:
		return r.Disruptions[0].called()
	}
	return strings.TrimSpace(r.File)
}

func (d Disruption) called() string { return d.Namespace + "/" + d.Name }
