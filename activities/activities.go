// Package activities holds the activities of a Disruption's workflow: each is one attempt
// at one effect on the cluster. Any worker may run an activity again at any time. So each
// activity is idempotent, reads live before it destroys anything, and leaves decisions to
// the workflow.
package activities

import (
	"time"

	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/verify"
)

// Each step has a name of its own here, so that Activities can embed all of them.
type (
	asking    = steadystate.Activities
	operating = operate.Activities
	replacing = replace.Activities
	verifying = verify.Activities
)

// Activities are the activities of all steps on one cluster. The worker registers them with
// Temporal under the names of their methods. Workflows name them by its zero value.
type Activities struct {
	*cluster.Cluster
	*asking
	*operating
	*replacing
	*verifying
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
	// Notify has the receivers of notifications. The zero value has none.
	Notify notify.Settings
	// StartPatience is how long the finalizer stays on a chaos pod that was Pending when it
	// was deleted. 0 means 5 s.
	StartPatience time.Duration
}

// New returns the activities on a cluster. The caller adds the settings of the steps.
func New(on *cluster.Cluster) *Activities {
	return &Activities{
		Cluster:   on,
		asking:    &asking{Cluster: on},
		operating: &operating{Cluster: on},
		replacing: &replacing{Cluster: on},
		verifying: &verifying{Cluster: on},
	}
}
