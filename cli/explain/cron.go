package explain

import (
	"fmt"
	"time"

	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Cron explains c, whose defaults are set and which is valid: when it runs, as
// seen at now, and what each run does.
func Cron(c *v1beta1.DisruptionCron, now time.Time) []Topic {
	return runs(c.Namespace, c.Spec.TargetResource, c.Spec.DisruptionTemplate, when(c.Spec, now))
}

// Rollout explains r, whose defaults are set and which is valid.
func Rollout(r *v1beta1.DisruptionRollout) []Topic {
	lines := []string{"each time the containers of the " + r.Spec.TargetResource.String() + " change, once that is rolled out; not for what it is when it is seen first"}
	if r.Spec.Paused {
		lines = append(lines, "paused: no run begins until spec.paused is false")
	}
	lines = append(lines, "one run at a time; one that cannot begin within "+span(r.Spec.DelayedStartTolerance)+" of the change is left out")
	return runs(r.Namespace, r.Spec.TargetResource, r.Spec.DisruptionTemplate, lines)
}

// runs explains runs that begin at certain times, on the pods of a workload.
func runs(namespace string, target v1beta1.TargetResource, template v1beta1.DisruptionSpec, when []string) []Topic {
	run := &v1beta1.Disruption{Spec: *template.DeepCopy()}
	run.Namespace = namespace
	topics := Disruption(run)
	for i := range topics {
		if topics[i].Name == "whom" {
			topics[i].Lines[0] = amount(run.Spec) + " " + thoseOf(namespace, target, template)
		}
	}
	return append([]Topic{{"when", when}}, topics...)
}

// thoseOf describes the pods that runs choose from.
func thoseOf(namespace string, target v1beta1.TargetResource, template v1beta1.DisruptionSpec) string {
	if namespace == "" {
		namespace = "the namespace it is created in"
	} else {
		namespace = "namespace " + namespace
	}
	text := "pods of the " + target.String() + " of " + namespace
	if len(template.Selector)+len(template.AdvancedSelector) > 0 {
		text += " that the template's selectors match, too"
	}
	return text
}

func when(s v1beta1.DisruptionCronSpec, now time.Time) []string {
	times, err := schedule.Parse(s)
	if err != nil {
		return []string{err.Error()}
	}
	lines := []string{fmt.Sprintf("by the schedule %q in the time zone %s", s.Schedule, times.Zone())}
	if s.Paused {
		lines = append(lines, "paused: no run begins until spec.paused is false")
	} else {
		next := "the next times are"
		for at, i := now, 0; i < 3; i++ {
			at = times.Next(at)
			next += at.Format(" 2006-01-02 15:04 MST,")
		}
		lines = append(lines, next[:len(next)-1])
	}
	if s.Jitter != nil && s.Jitter.Duration > 0 {
		lines = append(lines, "each up to "+span(s.Jitter)+" later, by chance")
	}
	return append(lines, "one run at a time; one that cannot begin within "+span(s.DelayedStartTolerance)+" of its time is left out")
}
