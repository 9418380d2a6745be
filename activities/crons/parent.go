package crons

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// parent is an object with runs: a DisruptionCron or a DisruptionRollout. Its pointers
// point into object.
type parent struct {
	object         runtime.Object
	meta           *metav1.ObjectMeta
	kind, resource string
	// child is the name of its runs; label marks them as its own.
	child, label string
	owns         func(*v1beta1.Disruption) bool

	target    v1beta1.TargetResource
	template  *v1beta1.DisruptionSpec
	reporting *v1beta1.Reporting
	paused    bool
	// lateness is how late, after jitter, a run may begin.
	lateness, jitter time.Duration
	// releases counts the releases that a DisruptionRollout has seen.
	releases int64

	history    *[]v1beta1.DisruptionRun
	conditions *[]metav1.Condition
	// lastTime and missing are nil for a DisruptionRollout, where the controller writes
	// them.
	lastTime, missing **metav1.Time
}

func (p *parent) String() string { return p.kind + " " + p.meta.Namespace + "/" + p.meta.Name }

func ofCron(c *v1beta1.DisruptionCron) *parent {
	return &parent{
		object: c, meta: &c.ObjectMeta, kind: v1beta1.KindDisruptionCron, resource: crons,
		child: c.ChildName(), label: v1beta1.LabelCron, owns: c.Owns,
		target: c.Spec.TargetResource, template: &c.Spec.DisruptionTemplate, reporting: c.Spec.Reporting, paused: c.Spec.Paused,
		lateness: start.Lateness(c.Spec), jitter: start.Jitter(c.Spec),
		history: &c.Status.History, conditions: &c.Status.Conditions,
		lastTime: &c.Status.LastScheduleTime, missing: &c.Status.TargetResourcePreviouslyMissing,
	}
}

func ofRollout(r *v1beta1.DisruptionRollout) *parent {
	return &parent{
		object: r, meta: &r.ObjectMeta, kind: v1beta1.KindDisruptionRollout, resource: rollouts,
		child: r.ChildName(), label: v1beta1.LabelRollout, owns: r.Owns,
		target: r.Spec.TargetResource, template: &r.Spec.DisruptionTemplate, reporting: r.Spec.Reporting, paused: r.Spec.Paused,
		lateness: start.RolloutLateness(r.Spec), releases: r.Status.Releases,
		history: &r.Status.History, conditions: &r.Status.Conditions,
	}
}

// get reads the object with runs, live. Another one of its name counts as not found.
func (a *Activities) get(ctx context.Context, ref contract.CronRef) (*parent, error) {
	var found *parent
	if ref.Rollout() {
		found = ofRollout(&v1beta1.DisruptionRollout{})
	} else {
		found = ofCron(&v1beta1.DisruptionCron{})
	}
	err := a.Client.Get().Namespace(ref.Namespace).Resource(found.resource).Name(ref.Name).Do(ctx).Into(found.object)
	if err == nil && found.meta.UID != ref.UID {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: found.resource}, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", found.kind, ref, err)
	}
	switch object := found.object.(type) { // its fields have values now
	case *v1beta1.DisruptionRollout:
		return ofRollout(object), nil
	case *v1beta1.DisruptionCron:
		return ofCron(object), nil
	}
	return found, nil
}

// childName is the name of the runs of ref.
func childName(ref contract.CronRef) string {
	if ref.Rollout() {
		return v1beta1.RolloutChildPrefix + ref.Name
	}
	return v1beta1.CronChildPrefix + ref.Name
}
