package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// CronRows are the header and a row for each DisruptionCron, by name.
func (l List) CronRows(crons []*v1beta1.DisruptionCron) [][]Cell {
	rows := [][]Cell{l.row("NAMESPACE", "NAME", Cell{"STATE", Quiet}, []string{"SCHEDULE", "TARGET", "NEXT", "LAST", "RESULT", "AGE"}, []string{"MESSAGE"}, Quiet)}
	for _, c := range byName(crons) {
		r := cronOf(c)
		rows = append(rows, l.row(c.Namespace, c.Name, r.state(),
			[]string{c.Spec.Schedule, c.Spec.TargetResource.String(), in(c.Status.NextScheduleTime, l.Now), l.before(c.Status.LastScheduleTime), r.lastResult(), l.ago(c.CreationTimestamp)},
			[]string{r.message()}, Plain))
	}
	return rows
}

// RolloutRows are the header and a row for each DisruptionRollout, by name.
func (l List) RolloutRows(rollouts []*v1beta1.DisruptionRollout) [][]Cell {
	rows := [][]Cell{l.row("NAMESPACE", "NAME", Cell{"STATE", Quiet}, []string{"TARGET", "RELEASED", "RESULT", "AGE"}, []string{"MESSAGE"}, Quiet)}
	for _, o := range byName(rollouts) {
		r := rolloutOf(o)
		rows = append(rows, l.row(o.Namespace, o.Name, r.state(),
			[]string{o.Spec.TargetResource.String(), l.before(o.Status.LastContainerChangeTime), r.lastResult(), l.ago(o.CreationTimestamp)},
			[]string{r.message()}, Plain))
	}
	return rows
}

func byName[T metav1.Object](objects []T) []T {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

func (l List) before(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return l.ago(*t)
}

func in(t *metav1.Time, now time.Time) string {
	switch {
	case t == nil:
		return ""
	case t.After(now):
		return "in " + duration.HumanDuration(t.Sub(now))
	}
	return "now"
}

// repeated has the common parts of DisruptionCrons and DisruptionRollouts.
type repeated struct {
	deleted, paused bool
	// ready is the condition that is True while runs can begin.
	ready      string
	conditions []metav1.Condition
	history    []v1beta1.DisruptionRun
	// run is the name of each run, in its namespace.
	namespace, run string
	missing        *metav1.Time
	target         v1beta1.TargetResource
}

func cronOf(c *v1beta1.DisruptionCron) repeated {
	return repeated{c.DeletionTimestamp != nil, c.Spec.Paused, v1beta1.ConditionScheduled, c.Status.Conditions, c.Status.History,
		c.Namespace, c.ChildName(), c.Status.TargetResourcePreviouslyMissing, c.Spec.TargetResource}
}

func rolloutOf(r *v1beta1.DisruptionRollout) repeated {
	return repeated{r.DeletionTimestamp != nil, r.Spec.Paused, v1beta1.ConditionWatching, r.Status.Conditions, r.Status.History,
		r.Namespace, r.ChildName(), r.Status.TargetResourcePreviouslyMissing, r.Spec.TargetResource}
}

func (r repeated) condition(name string) metav1.Condition {
	for _, c := range r.conditions {
		if c.Type == name {
			return c
		}
	}
	return metav1.Condition{}
}

// state is one word: whether a run is under way, the next one can begin, or why not.
func (r repeated) state() Cell {
	ready := r.condition(r.ready)
	switch {
	case r.deleted:
		return Cell{"Deleting", Careful}
	case r.running():
		return Cell{"Running", Good}
	case r.paused:
		return Cell{"Paused", Careful}
	case ready.Status == metav1.ConditionFalse:
		return Cell{ready.Reason, Bad}
	case ready.Status == "":
		return Cell{"New", Plain}
	}
	return Cell{r.ready, Plain}
}

func (r repeated) running() bool {
	return len(r.history) > 0 && r.history[len(r.history)-1].EndedAt == nil
}

func (r repeated) lastResult() string {
	if len(r.history) == 0 {
		return ""
	}
	return result(r.history[len(r.history)-1])
}

// result is the verdict of a run, or why it ended.
func result(run v1beta1.DisruptionRun) string {
	if run.EndedAt == nil {
		return "goes on"
	}
	return cmp.Or(string(run.Verdict), run.Ending, "ended")
}

// message is the obstacle to the next run, empty if there is none.
func (r repeated) message() string {
	for _, name := range []string{r.ready, v1beta1.ConditionLastRun} {
		if c := r.condition(name); c.Status == metav1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Cron is all that is known of a DisruptionCron, beside its spec.
func Cron(c *v1beta1.DisruptionCron, now time.Time) []Line {
	r := cronOf(c)
	lines := []Line{{"state", r.state()}}
	if next := c.Status.NextScheduleTime; next != nil {
		lines = append(lines, Line{"next run", Cell{fmt.Sprintf("%s, at %s", in(next, now), clock(next)), Plain}})
	}
	return append(lines, r.lines(now)...)
}

// Rollout is all that is known of a DisruptionRollout, beside its spec.
func Rollout(o *v1beta1.DisruptionRollout, now time.Time) []Line {
	r := rolloutOf(o)
	lines := []Line{{"state", r.state()}}
	released := "none seen yet: the next run begins when the containers of the workload change"
	if last := o.Status.LastContainerChangeTime; last != nil {
		released = fmt.Sprintf("%d seen, the last one %s ago", o.Status.Releases, duration.HumanDuration(now.Sub(last.Time)))
	}
	lines = append(lines, Line{"releases", Cell{released, Plain}})
	return append(lines, r.lines(now)...)
}

// lines are the runs, the newest first, and the obstacle to the next one.
func (r repeated) lines(now time.Time) []Line {
	var lines []Line
	for _, name := range []string{r.ready, v1beta1.ConditionLastRun} {
		c := r.condition(name)
		if c.Status != metav1.ConditionFalse {
			continue
		}
		lines = append(lines, Line{"problem", Cell{fmt.Sprintf("%s (%s): %s", c.Type, c.Reason, c.Message), Bad}})
		if hint := r.hint(c.Reason); hint != "" {
			lines = append(lines, Line{"", Cell{"hint: " + hint, Plain}})
		}
	}
	if r.missing != nil {
		lines = append(lines, Line{"problem", Cell{fmt.Sprintf("%s has been missing for %s", r.target, duration.HumanDuration(now.Sub(r.missing.Time))), Bad}})
	}
	if len(r.history) == 0 {
		return append(lines, Line{"runs", Cell{"none yet", Plain}})
	}
	for i, run := range slices.Backward(r.history) {
		text, tone := clock(&run.CreatedAt)+": "+result(run), Plain
		if run.Verdict != "" {
			tone = verdictTone(run.Verdict)
			text += ", " + run.Ending
		}
		if run.EndedAt != nil {
			text += ", lasted " + duration.HumanDuration(run.EndedAt.Sub(run.CreatedAt.Time))
		} else {
			text += fmt.Sprintf("; squall -n %s status %s", r.namespace, run.Name)
		}
		name := ""
		if i == len(r.history)-1 {
			name = "runs"
		}
		lines = append(lines, Line{name, Cell{text, tone}})
	}
	return lines
}

// clock is a time for a person.
func clock(t *metav1.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// hint is what to do when no run begins, empty if the message contains it.
func (r repeated) hint(reason string) string {
	switch reason {
	case "Paused":
		return "set spec.paused to false"
	case "PausedInTemporal":
		return "unpause the schedule in Temporal"
	case "InvalidSchedule", "TooFrequent":
		return "change the schedule or the duration; squall validate checks both"
	case "TemporalUnreachable", "TemporalRefused":
		return "squall doctor"
	case "EmergencyStop":
		return "squall estop shows the stop"
	case "TargetMissing":
		return fmt.Sprintf("create %s in namespace %s, or change spec.targetResource", r.target, r.namespace)
	case "Overlap":
		return fmt.Sprintf("squall -n %s status %s shows the run that has not ended", r.namespace, r.run)
	case "NameTaken":
		return fmt.Sprintf("another Disruption is named %s: delete it", r.run)
	}
	return ""
}
