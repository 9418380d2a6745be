package orphans

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/nodecommand"
	"github.com/squall-chaos/squall/activities/status"
)

// Activities carries what the activities of a sweep need. Its methods are
// registered with a Temporal worker under their own names.
type Activities struct {
	Kube        kubernetes.Interface
	Disruptions *status.Disruptions
	// Temporal starts and ends workflows of disruptions that nobody else does.
	Temporal Orchestrator
	// Cluster is whose workflows it starts, see start.In.
	Cluster types.UID
	// Builder makes the pods of commands on nodes.
	Builder chaospod.Builder
	// Parallel bounds the nodes that one activity looks at at once.
	Parallel int
}

// maxNamed bounds what a history carries of each sort of orphans.
const maxNamed = 50

// commands runs commands on nodes.
func (a *Activities) commands() nodecommand.Runner {
	return nodecommand.Runner{Kube: a.Kube, Builder: a.Builder}
}
