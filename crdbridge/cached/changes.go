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

// OnUpdate passes creations and deletions, and the updates that change something. It drops
// a resync; only the Disruptions' own watch needs one.
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

// served has the readiness and the finalizers of a pod that a driver moves; it is empty for
// any other.
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

// BudgetChanged is true when a budget allows another number, or its status was late and is
// current now.
func BudgetChanged(before, after client.Object) bool {
	old, ok := before.(*policyv1.PodDisruptionBudget)
	now, found := after.(*policyv1.PodDisruptionBudget)
	if !ok || !found {
		return true
	}
	return old.UID != now.UID || old.Generation != now.Generation || old.Status.ObservedGeneration != now.Status.ObservedGeneration ||
		old.Status.DisruptionsAllowed != now.Status.DisruptionsAllowed
}

// MarkChanged compares the fields that selectors use, and whether an object is being
// deleted. The same name with another UID is a replacement that the watch did not see.
func MarkChanged(old, now client.Object) bool {
	return old.GetUID() != now.GetUID() ||
		(old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) ||
		!maps.Equal(old.GetLabels(), now.GetLabels()) ||
		!maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}
