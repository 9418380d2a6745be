package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Progress is the progress of a disruption in one line. key changes with the state, text
// with the time as well. The most important parts come first.
func Progress(d *v1beta1.Disruption, now time.Time) (key, text string) {
	parts := []string{Phase(d).Text}
	bar := ""
	if injected, wanted, ok := CountsOf(d.Status.Targets); ok {
		parts = append(parts, d.Status.Targets+" injected")
		bar = Bar(injected, wanted, 10) + " "
	}
	first := len(parts) // a narrow terminal shows these
	if c := condition(d, v1beta1.ConditionEffectVerified); c != nil {
		parts = append(parts, "effect "+c.Reason)
	}
	parts = append(parts, steady(d)...)
	key = strings.Join(parts, ", ")
	if left := left(d, now); left != "" {
		parts = slices.Insert(parts, first, left)
	}
	return key, bar + strings.Join(parts, ", ")
}

// left is when a disruption ends, empty if that is unknown.
func left(d *v1beta1.Disruption, now time.Time) string {
	switch expiry := d.Status.ExpiryTime; {
	case expiry == nil || d.Status.Phase.Ending() || d.DeletionTimestamp != nil:
		return ""
	case expiry.After(now):
		return "ends in " + duration.HumanDuration(expiry.Sub(now))
	}
	return "ends now"
}

// CountsOf are the numbers of status.targets.
func CountsOf(targets string) (injected, wanted int, ok bool) {
	before, after, found := strings.Cut(targets, "/")
	injected, err1 := strconv.Atoi(before)
	wanted, err2 := strconv.Atoi(after)
	return injected, wanted, found && err1 == nil && err2 == nil
}

// steady describes the steady state by its probes.
func steady(d *v1beta1.Disruption) []string {
	s := d.Status.SteadyState
	if s == nil {
		return nil
	}
	if s.Verdict != "" {
		return []string{"verdict " + string(s.Verdict)}
	}
	var bad []string
	for _, p := range s.Probes {
		if p.State == v1beta1.ProbeFailure {
			bad = append(bad, p.Name)
		}
	}
	text := "probes of phase " + cmp.Or(string(s.Phase), "none")
	if len(bad) > 0 {
		return []string{text + " fail: " + strings.Join(bad, ", ")}
	}
	return []string{text}
}

// Result is the end of a disruption.
type Result struct {
	Outcome Outcome
	Tone    Tone
	// Why explains it in a sentence.
	Why string
}

// Outcome is a verdict, or another end.
type Outcome string

// The outcomes. Passed is also the outcome of a disruption that ended well without a steady
// state.
const (
	Passed       Outcome = "Passed"
	Failed       Outcome = "Failed"
	Aborted      Outcome = "Aborted"
	Inconclusive Outcome = "Inconclusive"
	IsStuck      Outcome = "Stuck"
	Rejected     Outcome = "Rejected"
)

// ResultOf judges a disruption that is over, stuck, or gone, as it was last seen.
func ResultOf(d *v1beta1.Disruption) Result {
	s := d.Status
	switch {
	case Stuck(d):
		return Result{IsStuck, Bad, "not everything could be cleaned up: a person must decide"}
	case s.Phase == v1beta1.PhaseRejected:
		why := s.Ending
		if c := condition(d, v1beta1.ConditionAccepted); c != nil {
			why = c.Message
		}
		return Result{Rejected, Bad, "nothing was injected: " + why}
	case d.Spec.SteadyState != nil && s.SteadyState != nil && s.SteadyState.Verdict != "":
		return verdict(s.SteadyState)
	case d.Stopped() != "":
		return Result{Aborted, Bad, d.Stopped()}
	case d.DeletionTimestamp != nil && reasonOf(d, v1beta1.ConditionOrchestrated) == v1beta1.ReasonNothingLeft:
		return Result{Aborted, Bad, condition(d, v1beta1.ConditionOrchestrated).Message}
	case d.DeletionTimestamp != nil:
		return Result{Aborted, Bad, "it was deleted before its time was over"}
	case abortedBy(s.Ending):
		return Result{Aborted, Bad, s.Ending}
	case d.Spec.SteadyState != nil:
		return Result{Inconclusive, Careful, "it has ended without a verdict on the steady state"}
	case s.InjectedTime == nil && !d.Spec.DryRun:
		return Result{Inconclusive, Careful, "not every target was injected" + reasonWhy(d, v1beta1.ConditionInjected)}
	}
	return passed(d)
}

// Ended is what the workflow of a disruption returns.
type Ended struct {
	Ending       string          `json:"ending"`
	Verdict      v1beta1.Verdict `json:"verdict"`
	Targets      int             `json:"targets"`
	ReleasedPods int             `json:"releasedPods"`
	NotVerified  []string        `json:"notVerified"`
}

// ResultOfEnded is ResultOf for a disruption of which only the result of the workflow is
// left. Its Why is empty.
func ResultOfEnded(e Ended) Result {
	switch {
	case e.Ending == "rejected":
		return Result{Outcome: Rejected, Tone: Bad}
	case e.Verdict != "":
		return verdict(&v1beta1.SteadyStateStatus{Verdict: e.Verdict})
	case abortedBy(e.Ending):
		return Result{Outcome: Aborted, Tone: Bad}
	case e.Targets == 0:
		return Result{Outcome: Inconclusive, Tone: Careful}
	case e.ReleasedPods > 0 || len(e.NotVerified) > 0:
		return Result{Outcome: Passed, Tone: Careful}
	}
	return Result{Outcome: Passed, Tone: Good}
}

// passed names what was less than wanted, although nothing went wrong.
func passed(d *v1beta1.Disruption) Result {
	r := Result{Passed, Good, "it was injected and cleaned up (" + cmp.Or(d.Status.Ending, "finished") + ")"}
	if injected, wanted, ok := CountsOf(d.Status.Targets); ok && injected > 0 && injected < wanted {
		r.Tone = Careful
		r.Why += fmt.Sprintf(", on %d of %d targets", injected, wanted)
	}
	if c := condition(d, v1beta1.ConditionEffectVerified); c != nil && c.Reason == string(v1beta1.EffectNothingMatchedYet) {
		r.Tone = Careful
		r.Why += ", but the fault matched nothing: " + c.Message
	}
	return r
}

// abortedBy is true for endings before the time that a person or a failure caused.
func abortedBy(ending string) bool {
	switch v1beta1.ClassOf(ending) {
	case v1beta1.ClassEmergencyStop, v1beta1.ClassDeleted, v1beta1.ClassCancelled, v1beta1.ClassFailed:
		return true
	}
	return false
}

func verdict(s *v1beta1.SteadyStateStatus) Result {
	r := Result{Outcome(s.Verdict), Bad, cmp.Or(s.Summary, "by the results of the probes")}
	switch s.Verdict {
	case v1beta1.VerdictPassed:
		r.Tone = Good
	case v1beta1.VerdictInconclusive:
		r.Tone = Careful
	}
	return r
}

// reasonWhy adds the message of a condition that is False.
func reasonWhy(d *v1beta1.Disruption, name string) string {
	if c := condition(d, name); c != nil && c.Status == metav1.ConditionFalse && c.Message != "" {
		return fmt.Sprintf(": %s", c.Message)
	}
	if c := condition(d, v1beta1.ConditionTargetsSelected); c != nil && c.Status == metav1.ConditionFalse {
		return ": " + c.Message
	}
	return ""
}
