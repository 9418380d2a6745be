package cached

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// OnUpdate lets creations and deletions pass, and the updates that change
// something. A resync is for the Disruptions' own watch, which drops nothing.
func OnUpdate(changed func(before, after client.Object) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

// DeletionBegan is true when an object waits for its finalizers and did not before.
func DeletionBegan(before, after client.Object) bool {
	return (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

func PodChanged(before, after client.Object) bool {
	old, ok := before.(*corev1.Pod)
	now, found := after.(*corev1.Pod)
	if !ok || !found {
		return true
	}
	return kube.PodHealthy(old) != kube.PodHealthy(now) || kube.PodWaits(old) != kube.PodWaits(now) || kube.PodUp(old) != kube.PodUp(now) ||
		kube.InjectorEnded(old) != kube.InjectorEnded(now) || podops.Busy(old) != podops.Busy(now) || served(old) != served(now) || MarkChanged(old, now)
}

// served sums up, of a pod that a driver moves, whether it is in service and who
// serves it; it is empty for any other.
func served(pod *corev1.Pod) string {
	if pod.Labels[podops.LabelManaged] != podops.ManagedValue {
		return ""
	}
	return fmt.Sprint(podops.Ready(pod), podops.Managed(pod), pod.Finalizers)
}

func NodeChanged(before, after client.Object) bool {
	old, ok := before.(*corev1.Node)
	now, found := after.(*corev1.Node)
	if !ok || !found {
		return true
	}
	return kube.NodeHealthy(old) != kube.NodeHealthy(now) || MarkChanged(old, now)
}

// BudgetChanged is true when a budget allows something else, or its status was late
// and is not any more.
func BudgetChanged(before, after client.Object) bool {
	old, ok := before.(*policyv1.PodDisruptionBudget)
	now, found := after.(*policyv1.PodDisruptionBudget)
	if !ok || !found {
		return true
	}
	return old.UID != now.UID || old.Generation != now.Generation || old.Status.ObservedGeneration != now.Status.ObservedGeneration ||
		old.Status.DisruptionsAllowed != now.Status.DisruptionsAllowed
}

// MarkChanged compares what selectors look at, and whether an object ends. The
// same name with another UID is a replacement the watch did not see.
func MarkChanged(old, now client.Object) bool {
	return old.GetUID() != now.GetUID() ||
		(old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) ||
		!maps.Equal(old.GetLabels(), now.GetLabels()) ||
		!maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}
