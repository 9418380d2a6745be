package activities

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

// advance brings one chaos pod as far as it can go now; nil means it is let go.
func (c *cleaning) advance(ctx context.Context, pod *corev1.Pod) (*LeftPod, error) {
	if goesOn(pod) {
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
		c.markUnverified(pod) // 42: let go, and its node is searched
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
	return c.letGo(ctx, pod)
}

// goesOn is true for a chaos pod that has not ended, and that nobody has told to. One that is Pending now may
// run in a moment: it is judged when its kubelet has seen that it is to go.
func goesOn(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !kube.InjectorEnded(pod) }

func beingDeleted(pod *corev1.Pod) *LeftPod {
	return chaospod.NewLeftPod(pod, chaospod.Waiting, "the chaos pod is being deleted")
}

// letGo lets a clean chaos pod go; nil means that it is gone.
func (c *cleaning) letGo(ctx context.Context, pod *corev1.Pod) (*LeftPod, error) {
	if !chaospod.Audited(pod) {
		c.markUnverified(pod)
	}
	c.noteNeverInjected(pod)
	c.noteEffect(pod)
	gone, err := c.a.finalize(ctx, pod)
	if err != nil || gone {
		return nil, err
	}
	return chaospod.NewLeftPod(pod, chaospod.Waiting, "the node's kubelet removes the chaos pod"), nil
}

// noteNeverInjected notes a chaos pod that ended without having injected.
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

// noteEffect notes what the injector of a chaos pod that is let go measured last.
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

// markUnverified notes that a chaos pod is let go of which nobody knows what it left.
func (c *cleaning) markUnverified(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unverified[pod.Spec.NodeName] = true
}

// released is true for a chaos pod that failed, or should have ended, before a
// person decided to let go of it. Nothing that fails later was decided on.
func (c *cleaning) released(pod *corev1.Pod) bool {
	if named(c.in.Release, pod) {
		return true
	}
	if c.in.ReleaseUntil == nil {
		return false
	}
	failed := chaospod.FailedAt(pod)
	if !kube.InjectorEnded(pod) && pod.DeletionTimestamp != nil {
		failed = pod.DeletionTimestamp.Time // it is overdue since then
	}
	return !failed.After(*c.in.ReleaseUntil)
}

// named tells whether IDs of chaos pods name this one.
func named(ids []string, pod *corev1.Pod) bool {
	return slices.Contains(ids, string(pod.UID)) || slices.Contains(ids, pod.Name)
}

// StartPatience is how long a worker holds a chaos pod that was Pending when it was
// deleted: its kubelet may have been starting it, and it is judged by its end then.
const StartPatience = 5 * time.Second

// mayStart is true as long as the kubelet of a chaos pod, deleted while it was
// Pending, may still say that it runs.
func (a *Activities) mayStart(pod *corev1.Pod) bool {
	return a.Clock.Now().Sub(deletedAt(pod)) <= cmp.Or(a.StartPatience, StartPatience)
}

// deletedAt is when somebody asked for the pod's end: the deletion timestamp is
// the end of its grace period.
func deletedAt(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// overdue is true when the kubelet should have ended the pod by now: the
// deletion timestamp is the end of its grace period.
func (a *Activities) overdue(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && a.Clock.Now().After(pod.DeletionTimestamp.Time)
}

// delete asks for the end of exactly this chaos pod. Gone is done.
func (a *Activities) delete(ctx context.Context, pod *corev1.Pod) error {
	err := a.Kube.CoreV1().Pods(a.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete chaos pod %s: %w", pod.Name, err)
	}
	return nil
}

// deleteTogether asks with one call for the end of all chaos pods of a shard, if all of
// them go on: that costs the API server less than as many calls. If it does not succeed,
// nothing is lost: each is asked for by itself then.
func (c *cleaning) deleteTogether(ctx context.Context, pods []corev1.Pod) bool {
	ends := func(pod corev1.Pod) bool { return !goesOn(&pod) }
	if c.in.OnlyEnded || c.in.Shard.Number == AllShards || len(pods) < 2 || slices.ContainsFunc(pods, ends) {
		return false
	}
	all := metav1.ListOptions{LabelSelector: chaospod.Selector(c.in.Shard.Disruption, c.in.Shard.Number) + ",!" + v1beta1.LabelCleaner}
	return c.a.Kube.CoreV1().Pods(c.a.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all) == nil
}

// finalize takes our finalizer off the pod as it was judged, and deletes it when
// nobody did. gone is false when the pod changed since, so that it must be
// judged again, or when only the kubelet holds it any more.
func (a *Activities) finalize(ctx context.Context, pod *corev1.Pod) (gone bool, err error) {
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

// countEnd counts what the injector of a chaos pod that was just let go did: it has
// no page of its own from which anybody could read it (rule 52).
func countEnd(ctx context.Context, pod *corev1.Pod) {
	injected, cleaned := chaospod.Results(pod)
	if injected != "" {
		metric.InjectorInjected.Add(ctx, 1, injected)
	}
	if cleaned != "" {
		metric.InjectorCleaned.Add(ctx, 1, cleaned)
	}
}

// removeFinalizer writes the whole pod, as it was read, without our finalizer.
// That costs the API server a third of what a patch costs, the more so as it
// need not work out who owns which field: nobody writes to this pod any more.
func (a *Activities) removeFinalizer(ctx context.Context, pod *corev1.Pod) error {
	without := *pod
	without.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers), func(name string) bool { return name == v1beta1.ChaosPodFinalizer })
	without.ManagedFields = []metav1.ManagedFieldsEntry{{}} // forget them
	err := a.Kube.CoreV1().RESTClient().Put().Namespace(a.Namespace).Resource("pods").Name(pod.Name).
		SetHeader("Accept", chaospod.MetadataOnly).Body(&without).Do(ctx).Error()
	if !apierrors.IsConflict(err) || chaospod.InjectorState(pod).Terminated == nil {
		return err
	}
	// How it exited is said once and for all, while the kubelet still writes to
	// the pod: any version of it will do.
	patch, _ := kube.FinalizerPatchAnyVersion(pod, v1beta1.ChaosPodFinalizer)
	_, err = a.Kube.CoreV1().Pods(a.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// force lets a chaos pod go whatever it says: a person took the decision.
func (a *Activities) force(ctx context.Context, pod *corev1.Pod) error {
	if patch, found := kube.FinalizerPatch(pod, v1beta1.ChaosPodFinalizer); found {
		_, err := a.Kube.CoreV1().Pods(a.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
		if apierrors.IsInvalid(err) {
			return nil // it changed meanwhile: the next round sees it again
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

// listChaosPods is a live, consistent read of one shard's chaos pods, of which there
// are few.
func (a *Activities) listChaosPods(ctx context.Context, s Shard) ([]corev1.Pod, error) {
	list, err := a.Kube.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: chaospod.Selector(s.Disruption, s.Number)})
	if err != nil {
		return nil, fmt.Errorf("list chaos pods of disruption %s/%s: %w", s.Disruption.Namespace, s.Disruption.Name, err)
	}
	return list.Items, nil
}

// pageChaosPods is listChaosPods of all shards, in pages. With cleaners alone it reads
// no other pods.
func (a *Activities) pageChaosPods(ctx context.Context, ref Ref, cleaners bool, take func([]corev1.Pod)) error {
	selector := chaospod.Selector(ref, AllShards)
	if cleaners {
		selector += "," + v1beta1.LabelCleaner
	}
	err := kube.Pages(ctx, a.Kube.CoreV1().Pods(a.Namespace).List, metav1.ListOptions{LabelSelector: selector}, func(page *corev1.PodList) { take(page.Items) })
	if err != nil {
		return fmt.Errorf("list chaos pods of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

// eachChaosPod reads all chaos pods of a disruption in pages.
func (a *Activities) eachChaosPod(ctx context.Context, ref Ref, take func(*corev1.Pod)) error {
	return a.pageChaosPods(ctx, ref, false, func(pods []corev1.Pod) {
		for i := range pods {
			take(&pods[i])
		}
	})
}
