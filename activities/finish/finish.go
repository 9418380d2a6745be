// Package finish ends a Disruption: the activities Finish and WasInjected. It promises that
// the records and the finalizer stay until no chaos pod, cordon or operation is left.
package finish

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// Activities has the activities Finish and WasInjected.
type Activities struct{ *cluster.Cluster }

// Finish writes the last status, deletes the records and removes the Disruption's
// finalizer, in this order. It does so only once no chaos pod, cordon or operation is left
// (rule 6). Otherwise it changes nothing and returns how many are left.
func (a *Activities) Finish(ctx context.Context, e status.FinishInput) (left int, err error) {
	if err := cluster.EachChaosPod(ctx, a.Cluster, e.Disruption, func(*corev1.Pod) { left++ }); err != nil || left > 0 {
		return left, err
	}
	if left, err = a.cordonsLeft(ctx, e); err != nil || left > 0 {
		return left, err
	}
	if left, err = a.operationsLeft(ctx, e); err != nil || left > 0 {
		return left, err
	}
	if !e.Rejected {
		if err := a.reportFinished(ctx, e); err != nil {
			return 0, err
		}
	}
	if err := a.Targets.DeleteRecords(ctx, e.Disruption); err != nil {
		return 0, err
	}
	return 0, a.Disruptions.RemoveFinalizer(ctx, e.Disruption, func(d *v1beta1.Disruption) error { return a.noteRun(ctx, d) })
}

// WasInjected is true when status has the time at which all targets were injected. The
// workflow does not know that when the watch of the injection wrote it and the API server
// went away before the answer. A Disruption that is gone was not injected.
func (a *Activities) WasInjected(ctx context.Context, ref v1beta1.DisruptionRef) (bool, error) {
	d, err := a.Disruptions.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether all targets of disruption %s/%s were injected: %w", ref.Namespace, ref.Name, err)
	}
	return d.Status.InjectedTime != nil, nil
}

// noteRun records the start of d with its owner: a DisruptionCron, DisruptionRollout or
// DisruptionScenario. The worker that created d may have died before it recorded that.
// Without the record the owner would create the run again once d is gone (rules C6, C9,
// C10). If the owner cannot be written, noteRun logs that and blocks nothing.
func (a *Activities) noteRun(ctx context.Context, d *v1beta1.Disruption) error {
	owner, err := metav1.GetControllerOf(d), error(nil)
	switch {
	case owner == nil:
	case owner.Kind == v1beta1.KindDisruptionScenario:
		err = scenarios.Note(ctx, a.Disruptions.Client(), d)
	case owner.Kind == v1beta1.KindDisruptionCron, owner.Kind == v1beta1.KindDisruptionRollout:
		err = crons.Note(ctx, a.Disruptions.Client(), d)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		activity.GetLogger(ctx).Warn("what a disruption is a run of does not know that it began", "disruption", d.Name, "error", err)
		return nil
	}
	return err
}

func (a *Activities) reportFinished(ctx context.Context, e status.FinishInput) error {
	var events sync.WaitGroup
	defer events.Wait()
	d := status.Named(e.Disruption)
	events.Go(func() { cluster.Events(a.Kube).Record(ctx, d, "Finished", "the disruption is over", "") })
	events.Go(func() {
		// a deleted disruption has no condition that could show this
		if left := e.LeftOnNodes(); left != "" {
			cluster.Events(a.Kube).Warn(ctx, d, status.ReasonNotVerified, left, "")
			return
		}
		cluster.Events(a.Kube).Record(ctx, d, "Cleaned", "no chaos pod is left", "")
	})
	return a.showFinished(ctx, e)
}

func (a *Activities) showFinished(ctx context.Context, e status.FinishInput) error {
	e.At = activity.GetInfo(ctx).ScheduledTime
	if e.Ending == v1beta1.EndingDeleted {
		a.Disruptions.Deleted(e.Disruption)
	}
	return a.Disruptions.UpdateStatus(ctx, e.Disruption, func(d *v1beta1.Disruption) { status.ShowFinished(d, e) })
}

// operationsLeft counts the pods on which the disruption's operation has not ended.
func (a *Activities) operationsLeft(ctx context.Context, e status.FinishInput) (int, error) {
	if !e.Operated {
		return 0, nil
	}
	operation := podops.OfDisruption(e.Disruption.UID)
	left := 0
	if e.NotEnded {
		a.warnNotInService(ctx, e)
		return 0, nil // the controller ends the remaining operations
	}
	err := kube.Pages(ctx, a.Kube.CoreV1().Pods(e.Disruption.Namespace).List, metav1.ListOptions{LabelSelector: operation.Selector()}, func(page *corev1.PodList) {
		for i := range page.Items {
			if operation.Begun(&page.Items[i]) && page.Items[i].DeletionTimestamp == nil {
				left++
			}
		}
	})
	if err != nil {
		return 0, fmt.Errorf("list pods of namespace %s with %s: %w", e.Disruption.Namespace, operation.Selector(), err)
	}
	if left == 0 {
		a.warnNotInService(ctx, e)
	}
	return left, nil
}

func (a *Activities) warnNotInService(ctx context.Context, e status.FinishInput) {
	if len(e.NotInService) > 0 {
		cluster.Events(a.Kube).Warn(ctx, status.Named(e.Disruption), "NotInService", "pods that are not in service after the operation: "+strings.Join(e.NotInService, "; "), "")
	}
}

// cordonsLeft counts the nodes that the disruption has left cordoned. It ignores cordons
// that a person force-released.
func (a *Activities) cordonsLeft(ctx context.Context, e status.FinishInput) (int, error) {
	if e.Rejected || e.ReleasedPods > 0 {
		return 0, nil
	}
	d, err := a.Targets.LoadSpec(ctx, e.Disruption)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if !replacement.MayCordon(d) {
		return 0, nil
	}
	nodes, err := replacement.Cordons{Kube: a.Kube}.Of(ctx, e.Disruption.UID)
	return len(nodes), err
}
