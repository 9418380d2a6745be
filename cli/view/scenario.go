package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ScenarioRows are the header and a row for each scenario, those that wait for a person
// first.
func (l List) ScenarioRows(scenarios []v1beta1.DisruptionScenario) [][]Cell {
	sorted := slices.Clone(scenarios)
	slices.SortStableFunc(sorted, func(a, b v1beta1.DisruptionScenario) int {
		return cmp.Or(cmp.Compare(scenarioUrgency(&a), scenarioUrgency(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	rows := [][]Cell{l.row("NAMESPACE", "NAME", Cell{"PHASE", Quiet}, []string{"STEP", "STEPS", "VERDICT", "AGE"}, []string{"MESSAGE"}, Quiet)}
	for i := range sorted {
		s := &sorted[i]
		rows = append(rows, l.row(s.Namespace, s.Name, scenarioPhase(s),
			[]string{s.Status.Step, fmt.Sprintf("%d/%d", len(s.Status.Steps), len(s.Spec.Steps)), string(s.Status.Verdict), l.ago(s.CreationTimestamp)},
			[]string{s.Status.Message}, Plain))
	}
	return rows
}

func scenarioUrgency(s *v1beta1.DisruptionScenario) int {
	switch phase := s.Status.Phase; {
	case phase == v1beta1.ScenarioSuspended:
		return 0
	case phase.Over():
		return 2
	}
	return 1
}

func scenarioPhase(s *v1beta1.DisruptionScenario) Cell {
	phase := s.Status.Phase
	switch {
	case phase == v1beta1.ScenarioRejected:
		return Cell{string(phase), Bad}
	case phase == v1beta1.ScenarioFinished:
		return Cell{string(phase), Quiet}
	case s.DeletionTimestamp != nil:
		return Cell{"Deleting", Careful}
	case phase == v1beta1.ScenarioSuspended:
		return Cell{string(phase), Careful}
	}
	if c := unorchestrated(s); c != nil {
		return Cell{cmp.Or(string(phase), "Waiting") + "," + c.Reason, Careful}
	}
	return Cell{cmp.Or(string(phase), "New"), Plain}
}

// unorchestrated is the condition of why no program runs a scenario that is not over; nil
// if one does.
func unorchestrated(s *v1beta1.DisruptionScenario) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionOrchestrated)
	if c == nil || c.Status != metav1.ConditionFalse || s.Status.Phase.Over() {
		return nil
	}
	return c
}

// Scenario returns all that is known of a scenario.
func Scenario(s *v1beta1.DisruptionScenario, now time.Time) []Line {
	lines := []Line{{"phase", scenarioPhase(s)}}
	if s.Status.Verdict != "" {
		lines = append(lines, Line{"verdict", Cell{string(s.Status.Verdict), verdictTone(s.Status.Verdict)}})
	}
	if s.Status.Message != "" {
		lines = append(lines, Line{"message", Cell{s.Status.Message, Plain}})
	}
	if c := unorchestrated(s); c != nil {
		lines = append(lines, Line{"problem", Cell{fmt.Sprintf("%s (%s): %s", c.Type, c.Reason, c.Message), Bad}})
	}
	lines = append(lines, steadyLines(s.Status.SteadyState)...)
	for i, step := range s.Spec.Steps {
		name := ""
		if i == 0 {
			name = "steps"
		}
		at := statusOf(s, step.Name)
		lines = append(lines, Line{name, ofStep(i+1, step, at, now)})
		if at == nil {
			continue
		}
		for _, run := range at.Disruptions {
			text := fmt.Sprintf("   %s: %s", run.Name, cmp.Or(run.Ending, "goes on"))
			if run.Verdict != "" {
				text += ", " + string(run.Verdict)
			}
			lines = append(lines, Line{"", Cell{text, Plain}})
		}
		if at.Phase == v1beta1.ScenarioSuspended && step.Approval != nil {
			lines = append(lines, Line{"", Cell{"   " + step.Approval.Message, Careful}},
				Line{"", Cell{fmt.Sprintf("   squall -n %s approve %s %s", s.Namespace, s.Name, step.Name), Careful}})
		}
	}
	return lines
}

func ofStep(number int, step v1beta1.ScenarioStep, at *v1beta1.ScenarioStepStatus, now time.Time) Cell {
	if at == nil {
		return Cell{fmt.Sprintf("%d. %s: to come", number, step.Name), Quiet}
	}
	text, tone := fmt.Sprintf("%d. %s: %s", number, step.Name, at.Phase), Plain
	if at.Phase == v1beta1.ScenarioSkipped {
		return Cell{text, Quiet}
	}
	if at.Verdict != "" {
		text, tone = text+", "+string(at.Verdict), verdictTone(at.Verdict)
	}
	if at.ApprovedBy != "" {
		text += ", approved by " + at.ApprovedBy
	}
	end := now
	if at.EndedAt != nil {
		end = at.EndedAt.Time
	}
	return Cell{text + ", " + duration.HumanDuration(max(0, end.Sub(at.StartedAt.Time))), tone}
}

func statusOf(s *v1beta1.DisruptionScenario, step string) *v1beta1.ScenarioStepStatus {
	for i := range s.Status.Steps {
		if s.Status.Steps[i].Name == step {
			return &s.Status.Steps[i]
		}
	}
	return nil
}

func verdictTone(v v1beta1.Verdict) Tone {
	switch v {
	case v1beta1.VerdictPassed:
		return Good
	case v1beta1.VerdictFailed, v1beta1.VerdictAborted:
		return Bad
	}
	return Careful
}

// ScenarioProgress is the progress of a scenario in one line.
func ScenarioProgress(s *v1beta1.DisruptionScenario) string {
	text := scenarioPhase(s).Text
	if s.Status.Step != "" {
		text = fmt.Sprintf("step %d of %d, %s: %s", len(s.Status.Steps), len(s.Spec.Steps), s.Status.Step, text)
	}
	return text
}

// HowToApprove names the command that approves the waiting step, empty if the scenario
// waits for no approval.
func HowToApprove(s *v1beta1.DisruptionScenario) string {
	if s.Status.Phase != v1beta1.ScenarioSuspended || s.DeletionTimestamp != nil {
		return ""
	}
	return fmt.Sprintf("to approve: squall -n %s approve %s %s", s.Namespace, s.Name, s.Status.Step)
}

// ScenarioResult judges a scenario as it was last seen. It is over, or gone, or only stuck
// disruptions are left.
func ScenarioResult(s *v1beta1.DisruptionScenario, gone bool, stuck int) Result {
	switch verdict := s.Status.Verdict; {
	case stuck > 0:
		return Result{IsStuck, Bad, fmt.Sprintf("%d of its disruptions could not be cleaned up: a person must decide", stuck)}
	case s.Status.Phase == v1beta1.ScenarioRejected:
		return Result{Rejected, Bad, "nothing was begun: " + s.Status.Message}
	case verdict != "":
		return Result{Outcome(verdict), verdictTone(verdict), s.Status.Message}
	case gone || s.DeletionTimestamp != nil:
		return Result{Aborted, Bad, "it was deleted before its last step"}
	}
	return Result{Inconclusive, Careful, "it has ended without a verdict"}
}

// Left counts the disruptions of a scenario that are not over, with those that wait for a person.
func Left(owned []v1beta1.Disruption) (left int, stuck []v1beta1.Disruption) {
	for i := range owned {
		d := &owned[i]
		if d.Status.Phase.Over() {
			continue
		}
		left++
		if Stuck(d) {
			stuck = append(stuck, *d)
		}
	}
	return left, stuck
}
