// Package activities holds the activities of a Disruption's workflow: each is one attempt
// at one effect on the cluster. Any worker may run an activity again at any time. So each
// activity is idempotent, reads live before it destroys anything, and leaves decisions to
// the workflow.
package activities

import (
	"time"

	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/nodecommand"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/steadystate"
)

// Activities carries what every activity needs. The worker registers its methods with
// Temporal under their own names.
type Activities struct {
	*cluster.Cluster
	// Policies is this worker's only watch on DisruptionPolicies. nil means no policies.
	Policies *policy.Watch
	// OptIn is true if disruptions need the opt-in label on their namespace. Each check of
	// policies then reads the namespace live.
	OptIn bool
	// SafeMode catches disruptions of more targets than their author may have meant. nil is
	// off.
	SafeMode *SafeMode
	// NodeShare is the highest percentage of a node's pods that may be chaos pods. 0 means
	// no limit.
	NodeShare int
	// Clouds knows the address ranges of cloud providers' services.
	Clouds *cloud.Clouds
	// Prober asks the probes of disruptions. nil means that this worker asks no probes.
	Prober *steadystate.Prober
	// Notify has the receivers of notifications. The zero value has none.
	Notify notify.Settings
	// CordonsAtOnce is the highest number of the cluster's nodes that pod replacement keeps
	// cordoned at once. 0 means 1.
	CordonsAtOnce int
	// GonePatience is how long ReplacePods waits for a pod's removal after its grace
	// period. 0 means 2 minutes.
	GonePatience time.Duration
	// SuccessorPatience is how long ReplacePods then waits until the pods' successors have a
	// node. 0 means 30 s.
	SuccessorPatience time.Duration
	// StartPatience is how long the finalizer stays on a chaos pod that was Pending when it
	// was deleted. 0 means 5 s.
	StartPatience time.Duration
}

// commands runs commands on nodes.
func (a *Activities) commands() nodecommand.Runner {
	return nodecommand.Runner{Kube: a.Kube, Builder: a.Builder}
}
