package crons

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// against returns why a run must not begin, as far as its object and have, the existing
// disruption of its name, show it; no reason if it may begin.
func against(c *parent, scheduled, now time.Time, have *v1beta1.Disruption) Begun {
	late := now.Sub(scheduled) - c.jitter
	switch {
	case c.paused:
		return Begun{Reason: Paused, Message: "spec.paused is true"}
	case late > c.lateness:
		return Begun{Reason: TooLate, Message: fmt.Sprintf("it could have begun %s late, and delayedStartTolerance is %s", late.Truncate(time.Second), c.lateness)}
	case have == nil:
		return Begun{}
	case !c.owns(have):
		return Begun{Reason: NameTaken, Message: fmt.Sprintf("there is a Disruption %s that is no run of this %s: delete it, or give the %s another name", have.Name, c.kind, c.kind)}
	case !have.Settled():
		return Begun{Reason: Overlap, Message: "the run before it is not over"}
	}
	return Begun{}
}

// disruptionOf returns the run of a DisruptionCron or DisruptionRollout. The labels by
// which the workload selects its pods restrict the template's selector, and never widen
// it.
func disruptionOf(c *parent, workload metav1.LabelSelector, at time.Time) *v1beta1.Disruption {
	controller := true
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.meta.Namespace, Name: c.child,
			// Set at creation, so that also a run that is deleted before the controller has seen
			// it is noted.
			Finalizers:  []string{v1beta1.DisruptionFinalizer},
			Labels:      map[string]string{c.label: c.meta.Name},
			Annotations: map[string]string{v1beta1.AnnotationScheduledAt: at.UTC().Format(time.RFC3339)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: c.kind, Name: c.meta.Name, UID: c.meta.UID, Controller: &controller,
			}},
		},
		Spec: *c.template.DeepCopy(),
	}
	maps.Copy(d.Annotations, v1beta1.JudgedAnnotations(c.meta))
	if d.Spec.Reporting == nil {
		d.Spec.Reporting = c.reporting.DeepCopy()
	}
	if d.Spec.Selector == nil {
		d.Spec.Selector = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(workload.MatchLabels)) {
		value := workload.MatchLabels[key]
		if has, set := d.Spec.Selector[key]; set && has != value {
			// No pod has both, so the disruption reports that it has no targets.
			d.Spec.AdvancedSelector = append(d.Spec.AdvancedSelector, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
			continue
		}
		d.Spec.Selector[key] = value
	}
	d.Spec.AdvancedSelector = append(d.Spec.AdvancedSelector, workload.MatchExpressions...)
	return d
}
