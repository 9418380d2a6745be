// Package targets chooses the targets of disruptions and keeps their records: the spec
// of a disruption as it was when it began, and the targets that it has claimed. Two
// disruptions that may not share a target never hold the same one. A disruption never
// chooses a target again that it has disrupted.
package targets

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/memo"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Store reads and writes the records in one namespace of a cluster.
type Store struct {
	Kube kubernetes.Interface
	// Namespace is where the records live, never a target's own.
	Namespace string
	// System is the namespace of worker and controller, whose nodes are not disrupted.
	System string
	// Watch is this worker's one watch on the claims of all disruptions.
	Watch *Watch
	// Parallel bounds the API calls that one claim has under way at once.
	Parallel int
	// ControlPlane allows nodes of the control plane as targets.
	ControlPlane bool

	// pageSize is how many pods or nodes one list of candidates holds in memory.
	pageSize int64
	// listSlots has one element for each list of candidates that is under way.
	listSlots chan struct{}
	// lists are the lists of pods.
	lists podLists
	// specs caches the specs that were read last, by UID.
	specs *memo.Memo[types.UID, *v1beta1.Disruption]
}

// parallelLists bounds for how many disruptions a worker lists candidates at once: each
// list holds one page of pods or nodes in memory.
const parallelLists = 8

// candidatePage is how many pods or nodes one page has: twice a usual page, so that a
// thousand of them take one call.
const candidatePage = 2 * kube.PageSize

// keptSpecs bounds the cached specs, in bytes of their documents; in memory they are
// several times as large.
const keptSpecs = 16 << 20

// DefaultSystem is the namespace of worker and controller unless a setting names
// another.
const DefaultSystem = "squall-system"

// NewStore returns a store of the records in a namespace.
func NewStore(clientset kubernetes.Interface, namespace string, watch *Watch, parallel int) *Store {
	return &Store{
		Kube: clientset, Namespace: namespace, System: DefaultSystem, Watch: watch, Parallel: parallel,
		pageSize: candidatePage, listSlots: make(chan struct{}, parallelLists), specs: memo.New[types.UID, *v1beta1.Disruption](keptSpecs),
		lists: podLists{waiting: map[string]*podList{}, last: map[string]*podList{}},
	}
}
