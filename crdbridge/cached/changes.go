package cached

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/squall-chaos/squall/kube"
)

// OnUpdate lets creations and deletions pass, and the updates that change
// something. A resync is for the Disruptions' own watch, which drops nothing.
func OnUpdate(changed func(before, after client.Object) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

func PodChanged(before, after client.Object) bool {
	old, ok := before.(*corev1.Pod)
	now, found := after.(*corev1.Pod)
	if !ok || !found {
		return true
	}
	return kube.PodHealthy(old) != kube.PodHealthy(now) || kube.InjectorEnded(old) != kube.InjectorEnded(now) || MarkChanged(old, now)
}

func NodeChanged(before, after client.Object) bool {
	old, ok := before.(*corev1.Node)
	now, found := after.(*corev1.Node)
	if !ok || !found {
		return true
	}
	return kube.NodeHealthy(old) != kube.NodeHealthy(now) || MarkChanged(old, now)
}

// MarkChanged compares what selectors look at, and whether an object ends. The
// same name with another UID is a replacement the watch did not see.
func MarkChanged(old, now client.Object) bool {
	return old.GetUID() != now.GetUID() ||
		(old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) ||
		!maps.Equal(old.GetLabels(), now.GetLabels()) ||
		!maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}
