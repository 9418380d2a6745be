package main

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Indexes of the caches.
const (
	// indexDisruptionUID finds chaos pods by the UID of their Disruption, and
	// a Disruption by its own. Names do not fit into labels, UIDs do.
	indexDisruptionUID = "disruptionUID"
	// indexLevel finds the Disruptions of a level that are not settled.
	indexLevel = "level"
)

// watch lets r hear of every Disruption, and of the pods and nodes that
// concern one. Handlers only put keys into the queue.
func watch(m manager.Manager, r *reconciler, o controller.Options) error {
	if err := r.index(m.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index the caches: %w", err)
	}
	err := builder.ControllerManagedBy(m).
		Named("disruption").
		WithOptions(o).
		For(&v1beta1.Disruption{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.concernedByPod), builder.WithPredicates(r.podPredicate())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.concernedByNode), builder.WithPredicates(onUpdate(nodeChanged))).
		Watches(&v1beta1.EmergencyStop{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.pulse.changed, handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Channel(r.terminated.found, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("build the controller: %w", err)
	}
	return nil
}

func (r *reconciler) index(indexer client.FieldIndexer) error {
	ctx := context.Background() // registering starts nothing
	chaosPod := func(o client.Object) []string {
		if isChaosPod(o, r.chaosNamespace) {
			return []string{o.GetLabels()[v1beta1.LabelDisruptionUID]}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexDisruptionUID, chaosPod); err != nil {
		return err
	}
	own := func(o client.Object) []string { return []string{string(o.GetUID())} }
	if err := indexer.IndexField(ctx, &v1beta1.Disruption{}, indexDisruptionUID, own); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &v1beta1.Disruption{}, indexLevel, func(o client.Object) []string {
		d, ok := o.(*v1beta1.Disruption)
		if !ok || settled(d) {
			return nil
		}
		return []string{string(levelOf(d))}
	})
}

// isChaosPod is true for a pod that disturbs, not for one that cleans.
func isChaosPod(pod client.Object, chaosNamespace string) bool {
	labels := pod.GetLabels()
	return pod.GetNamespace() == chaosNamespace && labels[v1beta1.LabelDisruptionUID] != "" && labels[v1beta1.LabelCleaner] == ""
}

func levelOf(d *v1beta1.Disruption) v1beta1.Level {
	if d.Spec.Level == v1beta1.LevelNode {
		return v1beta1.LevelNode
	}
	return v1beta1.LevelPod
}

// concernedByPod are the Disruptions a pod may change: its own, when it is a
// chaos pod, else those of its namespace that chose it or could.
func (r *reconciler) concernedByPod(ctx context.Context, pod client.Object) []reconcile.Request {
	if isChaosPod(pod, r.chaosNamespace) {
		return r.find(ctx, everyone, client.MatchingFields{indexDisruptionUID: pod.GetLabels()[v1beta1.LabelDisruptionUID]})
	}
	return r.find(ctx, concerns(pod), client.InNamespace(pod.GetNamespace()), client.MatchingFields{indexLevel: string(v1beta1.LevelPod)})
}

func (r *reconciler) concernedByNode(ctx context.Context, node client.Object) []reconcile.Request {
	return r.find(ctx, concerns(node), client.MatchingFields{indexLevel: string(v1beta1.LevelNode)})
}

// all are the Disruptions that are not settled.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return append(
		r.find(ctx, everyone, client.MatchingFields{indexLevel: string(v1beta1.LevelPod)}),
		r.find(ctx, everyone, client.MatchingFields{indexLevel: string(v1beta1.LevelNode)})...)
}

func everyone(*v1beta1.Disruption) bool { return true }

func (r *reconciler) find(ctx context.Context, concerned func(*v1beta1.Disruption) bool, o ...client.ListOption) []reconcile.Request {
	var list v1beta1.DisruptionList
	if err := r.client.List(ctx, &list, append(o, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // only for an index that does not exist, and index made them
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if d := &list.Items[i]; concerned(d) {
			requests = append(requests, reconcile.Request{NamespacedName: nameOf(d)})
		}
	}
	return requests
}

// concerns tells of which Disruptions target is one. An update is mapped in
// its old and its new form, so a target that ceases to match is still found.
func concerns(target client.Object) func(*v1beta1.Disruption) bool {
	return func(d *v1beta1.Disruption) bool {
		_, chosen := d.Status.TargetInjections[target.GetName()]
		return chosen || d.Spec.Matches(target.GetLabels(), target.GetAnnotations())
	}
}

// podPredicate lets pass what onUpdate does, but of chaos pods only what ends:
// that they begin is no news to the workflow that made them.
func (r *reconciler) podPredicate() predicate.Predicate {
	news := onUpdate(func(before, after client.Object) bool {
		if isChaosPod(after, r.chaosNamespace) && !going(after) {
			return markChanged(before, after)
		}
		return podChanged(before, after)
	})
	news.CreateFunc = func(e event.CreateEvent) bool { return !isChaosPod(e.Object, r.chaosNamespace) || going(e.Object) }
	return news
}

// going is true of a pod that has ended or is being deleted.
func going(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return !ok || kube.InjectorEnded(pod) || pod.DeletionTimestamp != nil
}

// onUpdate lets creations and deletions pass, and the updates that change
// something. A resync is for the Disruptions' own watch, which drops nothing.
func onUpdate(changed func(before, after client.Object) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

func podChanged(before, after client.Object) bool {
	old, ok := before.(*corev1.Pod)
	now, found := after.(*corev1.Pod)
	if !ok || !found {
		return true
	}
	return kube.PodHealthy(old) != kube.PodHealthy(now) || kube.InjectorEnded(old) != kube.InjectorEnded(now) || markChanged(old, now)
}

func nodeChanged(before, after client.Object) bool {
	old, ok := before.(*corev1.Node)
	now, found := after.(*corev1.Node)
	if !ok || !found {
		return true
	}
	return kube.NodeHealthy(old) != kube.NodeHealthy(now) || markChanged(old, now)
}

// markChanged compares what selectors look at, and whether an object ends. The
// same name with another UID is a replacement the watch did not see.
func markChanged(old, now client.Object) bool {
	return old.GetUID() != now.GetUID() ||
		(old.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) ||
		!maps.Equal(old.GetLabels(), now.GetLabels()) ||
		!maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}

// stripPod keeps of a pod what the bridge reads; a cluster has many.
func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	kept := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: stripMeta(pod.ObjectMeta)}
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Status.Phase = pod.Status.Phase
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{
				Name:  c.Name,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: c.State.Terminated.ExitCode}},
			})
		}
	}
	return kept, nil
}

func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	kept := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: stripMeta(node.ObjectMeta)}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			kept.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return kept, nil
}

func stripMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              m.Name,
		Namespace:         m.Namespace,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp,
		Labels:            m.Labels,
		Annotations:       m.Annotations,
	}
}
