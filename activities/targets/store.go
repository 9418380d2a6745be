// Package targets chooses the targets of disruptions and keeps their records:
// the spec of a disruption as it was when it began, and which targets it has
// claimed. No two disruptions that may not share a target ever hold the same
// one, and none is chosen again by a disruption that has had it.
package targets

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"
)

// Store reads and writes the records in one namespace of a cluster.
type Store struct {
	Kube kubernetes.Interface
	// Namespace is where the records live, never a target's own.
	Namespace string
	// Watch is this worker's one watch on the claims of all disruptions.
	Watch *Watch
	// Parallel bounds the API calls that one claim has under way at once.
	Parallel int

	// pageSize is how many pods one list of candidates holds in memory.
	pageSize int64
	// listSlots has one element for each list of candidates that is under way.
	listSlots chan struct{}
	// specs keeps the specs that were read last, by UID.
	specs *lru.Cache
}

// parallelLists bounds for how many disruptions a worker lists candidates at
// once: each of them holds one page of pods in memory.
const parallelLists = 8

// NewStore returns a store of the records in a namespace.
func NewStore(clientset kubernetes.Interface, namespace string, watch *Watch, parallel int) *Store {
	return &Store{
		Kube: clientset, Namespace: namespace, Watch: watch, Parallel: parallel,
		pageSize: 1000, listSlots: make(chan struct{}, parallelLists), specs: lru.New(1000),
	}
}
