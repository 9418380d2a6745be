package clean

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// advance takes every step towards the removal of one chaos pod that is possible now. nil
// means that the pod is gone.
func (c *cleaning) advance(ctx context.Context, pod *corev1.Pod) (*chaospod.LeftPod, error) {
	if notEnding(pod) {
		return beingDeleted(pod), c.a.delete(ctx, pod)
	}
	outcome, why := chaospod.Judge(pod, true)
	if outcome == chaospod.Failed {
		cleanable, err := c.cleanable(ctx, pod)
		if err != nil {
			return nil, err
		}
		outcome, why = chaospod.Judge(pod, cleanable)
	}
	if c.released(pod) && (outcome == chaospod.Failed || outcome == chaospod.Waiting && c.a.overdue(pod)) {
		c.markUnverified(pod)
		return chaospod.NewLeftPod(pod, chaospod.Waiting, "a person released it"), c.a.force(ctx, pod)
	}
	if left, settled, err := c.settleNodeFailure(ctx, pod, outcome); settled || err != nil {
		return left, err
	}
	if outcome == chaospod.Waiting && chaospod.Unstarted(pod) && !c.a.mayStart(pod) {
		c.markUnverified(pod) // 42: its finalizer is removed, and its node is searched
		outcome = chaospod.Clean
	}
	if outcome == chaospod.Failed {
		if left, err := c.cleanAgain(ctx, pod); left != nil || err != nil {
			return left, err
		}
	}
	if outcome != chaospod.Clean {
		return chaospod.NewLeftPod(pod, outcome, why), nil
	}
	return c.finalizeClean(ctx, pod)
}

// notEnding is true for a chaos pod that has not ended and that is not being deleted. A
// Pending pod may run in a moment, so advance judges it only after its kubelet has seen the
// deletion.
func notEnding(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !kube.InjectorEnded(pod) }

func beingDeleted(pod *corev1.Pod) *chaospod.LeftPod {
	return chaospod.NewLeftPod(pod, chaospod.Waiting, "the chaos pod is being deleted")
}

// finalizeClean removes the finalizer of a clean chaos pod. nil means that the pod is gone.
func (c *cleaning) finalizeClean(ctx context.Context, pod *corev1.Pod) (*chaospod.LeftPod, error) {
	if !chaospod.Audited(pod) {
		c.markUnverified(pod)
	}
	c.noteNeverInjected(pod)
	c.noteEffect(pod)
	gone, err := Finalize(ctx, c.a, pod)
	if err != nil || gone {
		return nil, err
	}
	return chaospod.NewLeftPod(pod, chaospod.Waiting, "the node's kubelet removes the chaos pod"), nil
}

// noteNeverInjected remembers a chaos pod that ended without having injected.
func (c *cleaning) noteNeverInjected(pod *corev1.Pod) {
	why, never := chaospod.NeverInjected(pod)
	if !never {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	target := chaospod.TargetUID(pod)
	if c.neverInjected[target] == nil {
		c.neverInjected[target] = map[types.UID]string{}
	}
	c.neverInjected[target][pod.UID] = why
}

// noteEffect remembers the last measurement of a clean chaos pod's injector.
func (c *cleaning) noteEffect(pod *corev1.Pod) {
	if effect := chaospod.EffectOf(pod); effect != nil {
		c.addEffect(*effect)
	}
}

func (c *cleaning) addEffect(effect chaospod.EffectAtEnd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := slices.ContainsFunc(c.effects, func(e chaospod.EffectAtEnd) bool { return e.Pod == effect.Pod })
	if !known && len(c.effects) < maxLeft {
		c.effects = append(c.effects, effect)
	}
}

// markUnverified remembers the node of a chaos pod that may have left something there.
func (c *cleaning) markUnverified(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unverified[pod.Spec.NodeName] = true
}

// released is true for a chaos pod that a person force-released: the pod failed, or its end
// was overdue, before that. A later failure is not covered by the release.
func (c *cleaning) released(pod *corev1.Pod) bool {
	if named(c.in.Release, pod) {
		return true
	}
	if c.in.ReleaseUntil == nil {
		return false
	}
	failed := chaospod.FailedAt(pod)
	if !kube.InjectorEnded(pod) && pod.DeletionTimestamp != nil {
		failed = pod.DeletionTimestamp.Time // overdue since then
	}
	return !failed.After(*c.in.ReleaseUntil)
}

// named is true if one of the IDs, UIDs or names, is that of the chaos pod.
func named(ids []string, pod *corev1.Pod) bool {
	return slices.Contains(ids, string(pod.UID)) || slices.Contains(ids, pod.Name)
}

// StartPatience is how long the finalizer stays on a chaos pod that was Pending when it was
// deleted. Its kubelet may have been starting it: then the pod's exit is the proof.
const StartPatience = 5 * time.Second

// mayStart is true while a chaos pod that was deleted as Pending may still turn out to run.
func (a *Activities) mayStart(pod *corev1.Pod) bool {
	return a.Clock.Now().Sub(deletedAt(pod)) <= cmp.Or(a.StartPatience, StartPatience)
}

// deletedAt is when the pod's deletion was requested: the deletion timestamp is the end of
// its grace period.
func deletedAt(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// overdue is true when the kubelet should have ended the pod by now: the deletion timestamp
// is the end of its grace period.
func (a *Activities) overdue(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && a.Clock.Now().After(pod.DeletionTimestamp.Time)
}

// delete deletes the chaos pod with exactly this UID. A pod that is gone is no error.
func (a *Activities) delete(ctx context.Context, pod *corev1.Pod) error {
	err := a.Kube.CoreV1().Pods(a.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete chaos pod %s: %w", pod.Name, err)
	}
	return nil
}

// deleteTogether deletes all chaos pods of a shard with one call, unless one of them is
// ending already. That costs the API server less than one call for each pod. After a
// failure the caller deletes them one by one.
func (c *cleaning) deleteTogether(ctx context.Context, pods []corev1.Pod) bool {
	ends := func(pod corev1.Pod) bool { return !notEnding(&pod) }
	if c.in.OnlyEnded || c.in.Shard.Number == chaospod.AllShards || len(pods) < 2 || slices.ContainsFunc(pods, ends) {
		return false
	}
	all := metav1.ListOptions{LabelSelector: chaospod.Selector(c.in.Shard.Disruption, c.in.Shard.Number) + ",!" + v1beta1.LabelCleaner}
	return c.a.Kube.CoreV1().Pods(c.a.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all) == nil
}

// Finalize removes Squall's finalizer from the pod as it was judged, and deletes the pod if
// it is not being deleted yet. gone is false when the pod changed since, so that it must be
// judged again. gone is also false while the kubelet still has to remove the pod.
func Finalize(ctx context.Context, a *Activities, pod *corev1.Pod) (gone bool, err error) {
	held := slices.Contains(pod.Finalizers, v1beta1.ChaosPodFinalizer)
	if !held && pod.DeletionTimestamp != nil {
		return false, nil
	}
	if held {
		err := a.removeFinalizer(ctx, pod)
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case apierrors.IsInvalid(err), apierrors.IsConflict(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("release chaos pod %s: %w", pod.Name, err)
		}
		countEnd(ctx, pod)
	}
	if pod.DeletionTimestamp == nil {
		return false, a.delete(ctx, pod)
	}
	return chaospod.Dropped(pod), nil
}

// countEnd counts the results of a removed chaos pod's injector in the worker's metrics: an
// injector serves no metrics of its own (rule 52).
func countEnd(ctx context.Context, pod *corev1.Pod) {
	injected, cleaned := chaospod.Results(pod)
	if injected != "" {
		metric.InjectorInjected.Add(ctx, 1, injected)
	}
	if cleaned != "" {
		metric.InjectorCleaned.Add(ctx, 1, cleaned)
	}
}

// removeFinalizer writes the whole pod, as it was read, without Squall's finalizer. That
// costs the API server a third of what a patch costs. It also drops the managed fields, so
// the API server need not compute them: no later write to this pod matters.
func (a *Activities) removeFinalizer(ctx context.Context, pod *corev1.Pod) error {
	without := *pod
	without.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers), func(name string) bool { return name == v1beta1.ChaosPodFinalizer })
	without.ManagedFields = []metav1.ManagedFieldsEntry{{}} // empty: drops them
	err := a.Kube.CoreV1().RESTClient().Put().Namespace(a.Namespace).Resource("pods").Name(pod.Name).
		SetHeader("Accept", chaospod.MetadataOnly).Body(&without).Do(ctx).Error()
	if !apierrors.IsConflict(err) || chaospod.InjectorState(pod).Terminated == nil {
		return err
	}
	// The exit code is final, but the kubelet may still write to the pod. So the removal of
	// the finalizer does not depend on the pod's version.
	patch, _ := kube.FinalizerPatchAnyVersion(pod, v1beta1.ChaosPodFinalizer)
	_, err = a.Kube.CoreV1().Pods(a.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// force removes the finalizer and the pod, whatever its outcome.
func (a *Activities) force(ctx context.Context, pod *corev1.Pod) error {
	if patch, found := kube.FinalizerPatch(pod, v1beta1.ChaosPodFinalizer); found {
		_, err := a.Kube.CoreV1().Pods(a.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
		if apierrors.IsInvalid(err) {
			return nil // the pod changed meanwhile: the next round handles it
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("release chaos pod %s: %w", pod.Name, err)
		}
		if err == nil {
			countEnd(ctx, pod)
		}
	}
	now := int64(0)
	err := a.Kube.CoreV1().Pods(a.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete chaos pod %s: %w", pod.Name, err)
	}
	return nil
}
