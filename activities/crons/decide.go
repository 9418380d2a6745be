package crons

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/start"
)

// against is what keeps a run from beginning, as far as its cron and have, the
// disruption that has its name, can tell; without a reason if nothing does.
func against(c *v1beta1.DisruptionCron, scheduled, now time.Time, have *v1beta1.Disruption) Begun {
	late := now.Sub(scheduled) - start.Jitter(c.Spec)
	switch {
	case c.Spec.Paused:
		return Begun{Reason: Paused, Message: "spec.paused is true"}
	case late > start.Lateness(c.Spec):
		return Begun{Reason: TooLate, Message: fmt.Sprintf("it could have begun %s late, and delayedStartTolerance is %s", late.Truncate(time.Second), start.Lateness(c.Spec))}
	case have == nil:
		return Begun{}
	case !c.Owns(have):
		return Begun{Reason: NameTaken, Message: fmt.Sprintf("there is a Disruption %s that is no run of this cron: delete it, or give the cron another name", have.Name)}
	case !have.Settled():
		return Begun{Reason: Overlap, Message: "the run before it is not over"}
	}
	return Begun{}
}

// disruptionOf is the run of a cron. The labels by which the workload selects its
// pods narrow down what the template selects, and never widen it.
func disruptionOf(c *v1beta1.DisruptionCron, workload metav1.LabelSelector, at time.Time) *v1beta1.Disruption {
	controller := true
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.ChildName(),
			Labels:      map[string]string{v1beta1.LabelCron: c.Name},
			Annotations: map[string]string{v1beta1.AnnotationScheduledAt: at.UTC().Format(time.RFC3339)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionCron", Name: c.Name, UID: c.UID, Controller: &controller,
			}},
		},
		Spec: *c.Spec.DisruptionTemplate.DeepCopy(),
	}
	if d.Spec.Reporting == nil {
		d.Spec.Reporting = c.Spec.Reporting.DeepCopy()
	}
	if d.Spec.Selector == nil {
		d.Spec.Selector = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(workload.MatchLabels)) {
		value := workload.MatchLabels[key]
		if has, set := d.Spec.Selector[key]; set && has != value {
			// No pod has both: the disruption says that it has no targets.
			d.Spec.AdvancedSelector = append(d.Spec.AdvancedSelector, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
			continue
		}
		d.Spec.Selector[key] = value
	}
	d.Spec.AdvancedSelector = append(d.Spec.AdvancedSelector, workload.MatchExpressions...)
	return d
}
