package orphans

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/nodecommand"
	"github.com/squall-chaos/squall/activities/status"
)

// Activities has the clients for the activities of a sweep. Its methods are registered
// with a Temporal worker under their own names.
type Activities struct {
	Kube        kubernetes.Interface
	Disruptions *status.Disruptions
	// Temporal starts and ends the workflows of orphans.
	Temporal Orchestrator
	// Cluster is the cluster whose workflows it starts, see start.In.
	Cluster types.UID
	// Builder builds the pods of commands on nodes.
	Builder chaospod.Builder
	// Parallel bounds the nodes that one activity searches at once.
	Parallel int
}

// maxNamed bounds the orphans of each sort in a history.
const maxNamed = 50

// commands runs commands on nodes.
func (a *Activities) commands() nodecommand.Runner {
	return nodecommand.Runner{Kube: a.Kube, Builder: a.Builder}
}
