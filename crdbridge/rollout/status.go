package rollout

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/runs"
	"github.com/squall-chaos/squall/kube"
)

// Reasons of the condition Watching.
const (
	reasonWatching = "Watching"
	reasonPaused   = "Paused"
	reasonMissing  = "TargetMissing"
	reasonDeleted  = "Deleted"
)

// state is the workload of a rollout as it was seen, nil for none, and when.
type state struct {
	release *kube.Release
	now     time.Time
}

// note puts the workload's containers into status. Other containers than before are a
// release; those of a workload that is seen for the first time are none. For a workload
// that is gone the last ones stay, for comparison when it is back.
func (s state) note(o *v1beta1.DisruptionRollout) {
	if s.release == nil {
		return
	}
	known := &o.Status
	target := o.Spec.TargetResource.String()
	first := known.ObservedTarget != target
	if !first && known.LatestContainersHash == s.release.Containers && known.LatestInitContainersHash == s.release.InitContainers {
		return
	}
	known.ObservedTarget = target
	known.LatestContainersHash, known.LatestInitContainersHash = s.release.Containers, s.release.InitContainers
	if first {
		return
	}
	known.Releases++
	at := s.now.Truncate(time.Second)
	if last := known.LastContainerChangeTime; last != nil && !at.After(last.Time) {
		at = last.Add(time.Second) // each release has a time of its own, which marks its run
	}
	seen := metav1.NewTime(at)
	known.LastContainerChangeTime = &seen
}

// show puts into status whether releases are seen, and that a workflow was started for the
// last one unless Temporal refused.
func (s state) show(o *v1beta1.DisruptionRollout, refused error) {
	condition := metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonWatching, Message: "A run begins once a release is rolled out."}
	if refused == nil {
		o.Status.StartedRelease = o.Status.Releases
	}
	if s.release != nil {
		o.Status.TargetResourcePreviouslyMissing = nil
	} else if o.Status.TargetResourcePreviouslyMissing == nil {
		now := metav1.NewTime(s.now.Truncate(time.Second))
		o.Status.TargetResourcePreviouslyMissing = &now
	}
	switch {
	case refused != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = runs.Failed(refused)
	case o.Spec.Paused:
		condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonPaused, Message: "spec.paused is true."}
	case s.release == nil:
		condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonMissing, Message: fmt.Sprintf("There is no %s in %s.", o.Spec.TargetResource, o.Namespace)}
	}
	set(o, condition)
}

// deleted marks a rollout that is being deleted and waits for its run.
func deleted(o *v1beta1.DisruptionRollout) {
	set(o, metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonDeleted, Message: "It is being deleted, and its last run cleans."})
}

func set(o *v1beta1.DisruptionRollout, condition metav1.Condition) {
	condition.Type, condition.ObservedGeneration = v1beta1.ConditionWatching, o.Generation
	meta.SetStatusCondition(&o.Status.Conditions, condition)
}

// write writes the status that change makes, unless the rollout has changed since it was
// read.
func (r *reconciler) write(ctx context.Context, o *v1beta1.DisruptionRollout, change func()) error {
	before := o.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(before.Status, o.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, o, patch, fieldManager); err != nil {
		return fmt.Errorf("write status of DisruptionRollout %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}
