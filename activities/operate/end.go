package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// EndInput selects the operations to end.
type EndInput struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	// OnlyEnded leaves alone the targets that are disrupted, or will be.
	OnlyEnded bool `json:"onlyEnded,omitempty"`
	// Over is true when the time for the driver is over: Squall removes the labels that no
	// driver has removed.
	Over bool `json:"over,omitempty"`
	// Counts makes EndOperations count a pod that cannot be written to in the result.
	// Without it EndOperations fails.
	Counts bool `json:"counts,omitempty"`
	// SkipRecovery is true when the disruption ends without waiting until the pods are in
	// service again.
	SkipRecovery bool `json:"hurried,omitempty"`
}

// EndResult counts the operations that have not ended.
type EndResult struct {
	// Left counts the pods that still have labels of the operation, Unavailable those whose
	// operation ended and that are not in service again.
	Left        int `json:"left,omitempty"`
	Unavailable int `json:"unavailable,omitempty"`
	// Pods describes the problems of at most 10 of these pods. With SkipRecovery it lists
	// an unavailable pod only if no driver would bring it back into service.
	Pods []string `json:"pods,omitempty"`
	// Again is true when a pod could not be written to. The workflow retries soon: no event
	// reports when the pod can be written.
	Again bool `json:"again,omitempty"`
}

// EndOperations ends the disruption's operation on every pod that no chaos pod of it
// disrupts any more (rule L8). It undoes an operation that is not granted yet and finishes
// the others. It finds the pods by their labels, independent of the records. The condition
// Operating shows which pods it waits for.
func (a *Activities) EndOperations(ctx context.Context, in EndInput) (EndResult, error) {
	e := &ending{a: a, in: in, operation: podops.OfDisruption(in.Disruption.UID), problems: map[string]string{}}
	pods, err := e.pods(ctx)
	if err != nil {
		return EndResult{}, err
	}
	spared, operated, err := e.spared(ctx)
	if err != nil {
		return EndResult{}, err
	}
	e.warnNeverGiven(ctx)
	if pods, err = e.withUnlisted(ctx, pods); err != nil {
		return EndResult{}, err
	}
	errs := kube.Each(len(pods), a.Parallel, func(i int) error {
		pod := &pods[i]
		if spared[pod.UID] && !e.overdue(pod) {
			return nil
		}
		err := e.unprotect(ctx, pod)
		if err == nil && !spared[pod.UID] {
			err = e.end(ctx, pod, operated[pod.UID])
		}
		if err != nil && in.Counts {
			err = e.note(pod, err)
		}
		return err
	})
	if err := cluster.FirstOf(errs, "operations are not ended"); err != nil {
		e.warn(ctx, err)
		return EndResult{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(e.problems)) {
		if len(e.result.Pods) < 10 {
			e.result.Pods = append(e.result.Pods, name+": "+e.problems[name])
		}
	}
	if in.Counts && (e.result.Left > 0 || e.result.Unavailable > 0 && !in.SkipRecovery) {
		e.show(ctx, "GivingBack", "waiting for "+strings.Join(e.result.Pods, "; "))
	}
	return e.result, nil
}

// ending is one EndOperations.
type ending struct {
	a         *Activities
	in        EndInput
	operation podops.Operation
	mu        sync.Mutex
	result    EndResult
	// problems has, by pod name, why the operation is not over.
	problems map[string]string
	// waited are the targets that are not granted yet.
	waited []targets.Target
	// had are the targets that the disruption operated on and that were not lost.
	had []targets.Target
}

// pods are the pods that a driver manages, and those with a label of the operation.
func (e *ending) pods(ctx context.Context) ([]corev1.Pod, error) {
	found := map[types.UID]corev1.Pod{}
	for _, selector := range []string{podops.LabelManaged + "=" + podops.ManagedValue, e.operation.Selector()} {
		err := kube.Pages(ctx, e.a.Kube.CoreV1().Pods(e.in.Disruption.Namespace).List, metav1.ListOptions{LabelSelector: selector}, func(page *corev1.PodList) {
			for _, pod := range page.Items {
				pod.ManagedFields = nil
				// An operation needs no more of the spec.
				pod.Spec = corev1.PodSpec{ReadinessGates: pod.Spec.ReadinessGates}
				found[pod.UID] = pod
			}
		})
		if err != nil {
			return nil, fmt.Errorf("list pods of namespace %s with %s: %w", e.in.Disruption.Namespace, selector, err)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// spared are the targets whose operation must not end yet. operated are the targets that
// the disruption asked a driver for.
func (e *ending) spared(ctx context.Context) (spared, operated map[types.UID]bool, err error) {
	spared, operated = map[types.UID]bool{}, map[types.UID]bool{}
	err = cluster.EachChaosPod(ctx, e.a.Cluster, e.in.Disruption, func(pod *corev1.Pod) { spared[chaospod.TargetUID(pod)] = true })
	if err != nil {
		return nil, nil, err
	}
	shards, err := e.a.Targets.Shards(ctx, e.in.Disruption)
	if err != nil && e.in.OnlyEnded {
		return nil, nil, err // otherwise an unreadable record blocks nothing
	}
	for _, shard := range shards {
		for _, target := range shard.Targets {
			spared[target.UID] = spared[target.UID] || e.in.OnlyEnded && target.Active()
			operated[target.UID] = target.Operation == targets.OperationAsked || target.Operation == targets.OperationGiven
			if waited(target) {
				e.waited = append(e.waited, target)
			}
			if operated[target.UID] && !target.Lost {
				e.had = append(e.had, target)
			}
		}
	}
	return spared, operated, nil
}

// withUnlisted adds the targets that no label selects any more. Another user removed the
// label that marks them for their driver, so no driver brings them back into service.
func (e *ending) withUnlisted(ctx context.Context, pods []corev1.Pod) ([]corev1.Pod, error) {
	listed := map[types.UID]bool{}
	for i := range pods {
		listed[pods[i].UID] = true
	}
	for _, target := range e.had {
		if listed[target.UID] || e.in.OnlyEnded {
			continue
		}
		pod, err := e.a.Kube.CoreV1().Pods(e.in.Disruption.Namespace).Get(ctx, target.Name, metav1.GetOptions{})
		switch {
		case err == nil && pod.UID == target.UID && kube.PodUp(pod):
			pods = append(pods, *pod)
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read target pod %s/%s: %w", e.in.Disruption.Namespace, target.Name, err)
		}
	}
	return pods, nil
}

// overdue is true for a pod whose protection has lasted longer than allowed, clean or not.
func (e *ending) overdue(pod *corev1.Pod) bool {
	return slices.ContainsFunc(podops.Protections(pod), func(p podops.Protection) bool {
		return p.Operation.ID == e.operation.ID && p.Over(pod, time.Now()) != ""
	})
}

// unprotect ends the protection of the pod from others. It runs before the end of the
// operation: the next operation on the pod must not wait for this one.
func (e *ending) unprotect(ctx context.Context, pod *corev1.Pod) error {
	if !e.operation.Protects(pod) {
		return nil
	}
	_, err := e.a.patchTarget(ctx, pod.Namespace, pod.Name, e.operation.Unprotect(pod.UID))
	if err != nil && !apierrors.IsNotFound(err) && !AnotherPod(err) {
		return fmt.Errorf("let others have pod %s: %w", pod.Name, err)
	}
	return nil
}

// end requests the end of the operation on one pod, and counts what is left of it.
func (e *ending) end(ctx context.Context, pod *corev1.Pod, operated bool) error {
	managed := podops.Managed(pod)
	pod, stripped, err := e.patch(ctx, pod)
	if err != nil || pod == nil || pod.DeletionTimestamp != nil {
		return err // no driver handles a pod that is being deleted
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	available, unreadable := podops.Available(pod)
	switch {
	case e.operation.On(pod):
		e.result.Left++
		e.problems[pod.Name] = e.awaits(pod)
	case operated && !available:
		e.result.Unavailable++
		switch {
		case !managed:
			e.problems[pod.Name] = "no driver manages it any more, so Squall took the labels of its operation off: " + asTheDriverLeftIt
		case stripped != "":
			e.problems[pod.Name] = stripped + ", so Squall took the labels of its operation off: " + asTheDriverLeftIt
		case e.in.SkipRecovery: // the pod is about to be in service
		case unreadable != nil:
			e.problems[pod.Name] = unreadable.Error()
		default:
			e.problems[pod.Name] = "it lacks the label " + podops.LabelAvailable + missing(pod)
		}
	}
	return nil
}

const asTheDriverLeftIt = "the condition " + podops.ReadinessGate + " is as that driver left it"

// patch writes to the pod until the driver has what it needs to end the operation. It
// returns the pod after the last write, nil if the pod is gone. stripped is why Squall
// removed labels in place of the driver.
func (e *ending) patch(ctx context.Context, pod *corev1.Pod) (after *corev1.Pod, stripped string, err error) {
	// at most three writes: restore a label, end the operation, remove the remaining labels
	for range 3 {
		patch := e.operation.End(pod)
		if stripped == "" && e.in.Over && e.operation.Stands(pod) {
			patch, stripped = e.operation.Strip(pod), "no driver answered"
		}
		if patch == nil {
			patch = e.operation.Stray(pod)
		}
		if patch == nil {
			break
		}
		after, err := e.a.patchTarget(ctx, pod.Namespace, pod.Name, patch)
		if stripped == "" && e.in.Over && err != nil && !apierrors.IsNotFound(err) && !AnotherPod(err) {
			stripped = "the driver refused the end of its operation (" + err.Error() + ")"
			after, err = e.a.patchTarget(ctx, pod.Namespace, pod.Name, e.operation.Strip(pod))
		}
		switch {
		case apierrors.IsNotFound(err), AnotherPod(err):
			return nil, "", nil
		case err != nil:
			return nil, "", fmt.Errorf("end the operation on pod %s: %w", pod.Name, err)
		}
		pod = after
	}
	return pod, stripped, nil
}

// awaits is why the operation on the pod has not ended.
func (e *ending) awaits(pod *corev1.Pod) string {
	why := "the driver has not ended the operation " + e.operation.ID + " yet"
	if busy := e.operation.Busy(pod); busy != "" {
		return why + ", as another one goes on: " + busy
	}
	if finalizers := missing(pod); finalizers != "" && e.operation.Completing(pod) {
		return "the operation " + e.operation.ID + " is over" + finalizers
	}
	return why
}

// missing names the finalizers that the pod's annotation lists and the pod lacks; empty
// when it has all.
func missing(pod *corev1.Pod) string {
	finalizers, err := podops.MissingFinalizers(pod)
	if err != nil || len(finalizers) == 0 {
		return ""
	}
	return fmt.Sprintf(": it waits for finalizer %s (annotation %s), which the controller of its traffic adds", strings.Join(finalizers, ", "), podops.AnnotationAvailable)
}

// note counts a pod that could not be written to.
func (e *ending) note(pod *corev1.Pod, why error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.result.Left++
	e.result.Again = true
	e.problems[pod.Name] = why.Error()
	return nil
}

// warnNeverGiven records a warning with the targets that were not granted before the
// disruption ended: its duration also counts while it waits for them.
func (e *ending) warnNeverGiven(ctx context.Context) {
	if !e.in.Counts || e.in.SkipRecovery || len(e.waited) == 0 {
		return
	}
	var names []string
	for _, target := range e.waited {
		names = append(names, target.Name)
	}
	slices.Sort(names)
	cluster.Events(e.a.Kube).Warn(ctx, status.Named(e.in.Disruption), "TargetNotGiven",
		fmt.Sprintf("targets never disrupted, as the disruption ended before they were given: %d (%s)", len(names), cluster.ShortList(names)), strings.Join(names, ","))
}

// warn writes into status that operations cannot be ended. The workflow retries until they
// are.
func (e *ending) warn(ctx context.Context, why error) {
	e.show(ctx, "NotEnded", "it is tried again until it succeeds: "+why.Error())
}

func (e *ending) show(ctx context.Context, reason, message string) {
	_ = e.a.Disruptions.UpdateStatus(ctx, e.in.Disruption, func(d *v1beta1.Disruption) {
		status.ShowOperation(d, status.Operation{Reason: reason, Message: message})
	})
}
