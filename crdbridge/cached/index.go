package cached

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Indexes of the caches.
const (
	// IndexDisruptionUID finds chaos pods by the UID of their Disruption, and a Disruption
	// by its own. Names do not fit into labels, UIDs do.
	IndexDisruptionUID = "disruptionUID"
	// indexUnready finds the Nodes that are not ready.
	indexUnready = "unready"
	// IndexLevel finds the Disruptions of a level that are not settled.
	IndexLevel = "level"
)

// Index adds the indexes to the caches of a manager.
func Index(indexer client.FieldIndexer, chaosNamespace string) error {
	ctx := context.Background() // registering starts nothing
	chaosPod := func(o client.Object) []string {
		if IsChaosPod(o, chaosNamespace) {
			return []string{o.GetLabels()[v1beta1.LabelDisruptionUID]}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, IndexDisruptionUID, chaosPod); err != nil {
		return err
	}
	unready := func(o client.Object) []string {
		if node, ok := o.(*corev1.Node); ok && !kube.NodeReady(node) {
			return []string{"true"}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &corev1.Node{}, indexUnready, unready); err != nil {
		return err
	}
	own := func(o client.Object) []string { return []string{string(o.GetUID())} }
	if err := indexer.IndexField(ctx, &v1beta1.Disruption{}, IndexDisruptionUID, own); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &v1beta1.Disruption{}, IndexLevel, func(o client.Object) []string {
		d, ok := o.(*v1beta1.Disruption)
		if !ok || d.Settled() {
			return nil
		}
		return []string{string(levelOf(d))}
	})
}

// IsChaosPod is true for a pod that injects, and false for a cleaner.
func IsChaosPod(pod client.Object, chaosNamespace string) bool {
	labels := pod.GetLabels()
	return pod.GetNamespace() == chaosNamespace && labels[v1beta1.LabelDisruptionUID] != "" && labels[v1beta1.LabelCleaner] == ""
}

func levelOf(d *v1beta1.Disruption) v1beta1.Level {
	if d.Spec.Level == v1beta1.LevelNode {
		return v1beta1.LevelNode
	}
	return v1beta1.LevelPod
}

// Everyone selects every Disruption.
func Everyone(*v1beta1.Disruption) bool { return true }

// Find returns the keys of the Disruptions that o selects and concerned accepts.
func Find(ctx context.Context, cache client.Reader, concerned func(*v1beta1.Disruption) bool, o ...client.ListOption) []reconcile.Request {
	var list v1beta1.DisruptionList
	if err := cache.List(ctx, &list, append(o, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // only for an index that does not exist, and Index made them
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if d := &list.Items[i]; concerned(d) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(d)})
		}
	}
	return requests
}

// UnreadyNodes are the names of the Nodes that are not ready.
func UnreadyNodes(ctx context.Context, cache client.Reader) (map[string]bool, error) {
	var nodes corev1.NodeList
	if err := cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy, client.MatchingFields{indexUnready: "true"}); err != nil {
		return nil, fmt.Errorf("list nodes that are not ready: %w", err)
	}
	names := make(map[string]bool, len(nodes.Items))
	for i := range nodes.Items {
		names[nodes.Items[i].Name] = true
	}
	return names, nil
}

// StopExists is true while there is any EmergencyStop.
func StopExists(ctx context.Context, cache client.Reader) bool {
	var stops v1beta1.EmergencyStopList
	err := cache.List(ctx, &stops, client.UnsafeDisableDeepCopy)
	return err == nil && len(stops.Items) > 0 // the cache fails only for a type without a watch
}
