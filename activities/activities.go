// Package activities holds the activities of a Disruption's workflow: each is one attempt
// at one effect on the cluster. Any worker may run an activity again at any time. So each
// activity is idempotent, reads live before it destroys anything, and leaves decisions to
// the workflow.
package activities

import (
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/finish"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/permission"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/report"
	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/verify"
)

// Each step has a name of its own here, so that Activities can embed all of them.
type (
	preparing = prepare.Activities
	choosing  = choose.Activities
	operating = operate.Activities
	injecting = inject.Activities
	probing   = steadystate.Activities
	replacing = replace.Activities
	reporting = report.Activities
	cleaning  = clean.Activities
	verifying = verify.Activities
	finishing = finish.Activities
)

// Activities are the activities of all steps on one cluster. The worker registers them with
// Temporal under the names of their methods. Workflows name them by its zero value.
type Activities struct {
	*cluster.Cluster
	// Rules are those of Prepare and of SelectTargets.
	Rules *permission.Rules
	*preparing
	*choosing
	*operating
	*injecting
	*probing
	*replacing
	*reporting
	*cleaning
	*verifying
	*finishing
}

// New returns the activities on a cluster. The caller adds the settings of the steps.
func New(on *cluster.Cluster) *Activities {
	rules := &permission.Rules{Cluster: on}
	return &Activities{
		Cluster:   on,
		Rules:     rules,
		preparing: &preparing{Cluster: on, Rules: rules},
		choosing:  &choosing{Cluster: on, Rules: rules},
		operating: &operating{Cluster: on},
		injecting: &injecting{Cluster: on},
		probing:   &probing{Cluster: on},
		replacing: &replacing{Cluster: on},
		reporting: &reporting{Cluster: on},
		cleaning:  &cleaning{Cluster: on},
		verifying: &verifying{Cluster: on},
		finishing: &finishing{Cluster: on},
	}
}
