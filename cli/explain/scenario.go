package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Scenario explains s, whose defaults are set and which is valid: its steps, and briefly
// each of its disruptions.
func Scenario(s *v1beta1.DisruptionScenario) []Topic {
	var steps []string
	for i, step := range s.Spec.Steps {
		steps = append(steps, fmt.Sprintf("%d. %s: %s%s", i+1, step.Name, When(step.When), ofStep(step)))
		for j, one := range step.Disruptions {
			d := &v1beta1.Disruption{Spec: *one.Template.DeepCopy()}
			d.Namespace = s.Namespace
			for k, line := range what(d.Spec) {
				before := "      "
				if k == 0 {
					before = fmt.Sprintf("   %d.%d ", i+1, j+1)
				}
				steps = append(steps, before+line)
			}
			steps = append(steps, "       to "+amount(d.Spec)+" "+thoseThat(d)+", for "+span(d.Spec.Duration))
		}
	}
	ends := []string{"when its last step is over; a step is over when all of its disruptions are, and clean"}
	topics := []Topic{{"steps", steps}}
	if s.Spec.SteadyState != nil {
		topics = append(topics, Topic{"guards", guards(s.Spec.SteadyState.WithDefaults())})
		ends = append(ends, "when a probe that aborts it fails, or the steady state is not reached before the first step; running disruptions are cleaned up first")
	}
	topics = append(topics, Topic{"ends", append(ends,
		"when it is deleted: squall stop, or kubectl delete discenario; running disruptions are cleaned up first",
		"when a user creates an emergency stop: squall estop on",
	)})
	if to := recipients(s.Spec.Reporting); len(to) > 0 {
		topics = append(topics, Topic{"notifies", to})
	}
	return topics
}

// guards are the probes of the whole run.
func guards(s v1beta1.SteadyState) (lines []string) {
	for _, probe := range s.Probes {
		var phases []string
		for _, phase := range probe.Phases {
			phases = append(phases, map[v1beta1.ProbePhase]string{
				v1beta1.ProbeBefore: fmt.Sprintf("before the first step, for %s at most", short(s.GateTimeout())),
				v1beta1.ProbeDuring: map[bool]string{true: "during all steps, to record it", false: "during all steps, to end them if it fails"}[probe.OnFailure == v1beta1.ProbeRecord],
				v1beta1.ProbeAfter:  fmt.Sprintf("after the last one, for %s at most", short(s.RecoveryTimeout())),
			}[phase])
		}
		lines = append(lines, fmt.Sprintf("probe %s asks %s", probe.Name, strings.Join(phases, ", ")))
		if probe.Budget != nil {
			lines = append(lines, fmt.Sprintf("   %d%% of its answers may fail in %s", probe.Budget.Percent, span(&probe.Budget.Window)))
		}
	}
	return lines
}

// When is the beginning of a step's description if the step has a condition, else empty.
func When(c *v1beta1.ScenarioCondition) string {
	if c == nil {
		return ""
	}
	var verdicts []string
	for _, verdict := range c.Verdict {
		verdicts = append(verdicts, string(verdict))
	}
	return fmt.Sprintf("only if %s is %s: ", c.Step, strings.Join(verdicts, " or "))
}

func ofStep(step v1beta1.ScenarioStep) string {
	switch {
	case step.Wait != nil:
		return "waits for " + span(step.Wait)
	case step.Approval != nil:
		return "waits for an approval, with the message: " + step.Approval.Message
	}
	text := "one disruption"
	if n := len(step.Disruptions); n > 1 {
		text = fmt.Sprintf("%d disruptions, which begin together", n)
	}
	if cmp.Or(step.OnFailure, v1beta1.OnFailureStop) == v1beta1.OnFailureContinue {
		return text + "; whatever becomes of them, the next step follows"
	}
	return text + "; no step follows if one of them does not pass"
}
