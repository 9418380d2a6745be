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
	run := &v1beta1.Disruption{Spec: *c.Spec.DisruptionTemplate.DeepCopy()}
	run.Namespace = c.Namespace
	topics := Disruption(run)
	for i := range topics {
		if topics[i].Name == "whom" {
			topics[i].Lines[0] = amount(run.Spec) + " " + thoseOf(c)
		}
	}
	return append([]Topic{{"when", when(c.Spec, now)}}, topics...)
}

// thoseOf are the pods that a cron's runs choose from.
func thoseOf(c *v1beta1.DisruptionCron) string {
	namespace := "the namespace it is created in"
	if c.Namespace != "" {
		namespace = "namespace " + c.Namespace
	}
	said := "pods of the " + c.Spec.TargetResource.String() + " of " + namespace
	if len(c.Spec.DisruptionTemplate.Selector)+len(c.Spec.DisruptionTemplate.AdvancedSelector) > 0 {
		said += " that the template's selectors match, too"
	}
	return said
}

func when(s v1beta1.DisruptionCronSpec, now time.Time) []string {
	times, err := schedule.Parse(s)
	if err != nil {
		return []string{err.Error()}
	}
	lines := []string{fmt.Sprintf("by the schedule %q in the time zone %s", s.Schedule, times.Zone())}
	if s.Paused {
		lines = append(lines, "paused: no run begins until that is taken off")
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
