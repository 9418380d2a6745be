// Package activities holds the activities of a Disruption's workflow: each is one attempt
// at one effect on the cluster. Any worker may run an activity again at any time. So each
// activity is idempotent, reads live before it destroys anything, and leaves decisions to
// the workflow.
package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/nodecommand"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Activities carries what every activity needs. The worker registers its methods with
// Temporal under their own names.
type Activities struct {
	Kube kubernetes.Interface
	// Clock is the API server's. nil means this machine's clock.
	Clock       *kube.Clock
	Disruptions *status.Disruptions
	// ChaosPods is this worker's only watch on chaos pods.
	ChaosPods *chaospod.Watch
	// Targets are the records of all disruptions' targets.
	Targets *targets.Store
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
	// Namespace is where chaos pods and records live, never a target's own.
	Namespace string
	// Builder makes chaos pods.
	Builder chaospod.Builder
	// Prober asks the probes of disruptions. nil means that this worker asks no probes.
	Prober *steadystate.Prober
	// Notify has the receivers of notifications. The zero value has none.
	Notify notify.Settings
	// Parallel is the highest number of API calls that one activity has under way at once.
	Parallel int
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

// Ref names the disruption an activity works for.
type Ref = v1beta1.DisruptionRef

// Report is what the workflow decided and a user must see.
type Report = status.Report

// FinishInput describes how a disruption finished.
type FinishInput = status.FinishInput

// Selection has the targets that SelectTargets found and chose.
type Selection = targets.Selection

// Shard names a part of a disruption's targets. Number -1 means all of them.
type Shard struct {
	Disruption Ref `json:"disruption"`
	Number     int `json:"number"`
}

// AllShards is the Number that means every chaos pod of the disruption.
const AllShards = chaospod.AllShards

// LeftPod is a chaos pod that is to be removed and cannot be removed yet.
type LeftPod = chaospod.LeftPod

// EffectAtEnd is what an injector measured before it cleaned.
type EffectAtEnd = chaospod.EffectAtEnd

// Outcome is how a chaos pod ended, as far as known.
type Outcome = chaospod.Outcome

// The outcomes that workflows know.
const (
	Waiting = chaospod.Waiting
	Clean   = chaospod.Clean
	Failed  = chaospod.Failed
)

// commands runs commands on nodes.
func (a *Activities) commands() nodecommand.Runner {
	return nodecommand.Runner{Kube: a.Kube, Builder: a.Builder}
}

func (a *Activities) events() status.Events { return Events(a.Kube) }

// Events records events. It counts and logs an event that cannot be stored: the disruption
// continues without it.
func Events(kube kubernetes.Interface) status.Events {
	return status.Events{Kube: kube, Lost: func(ctx context.Context, event *corev1.Event, err error) {
		metric.EventsLost.Add(ctx, 1, "")
		about := event.InvolvedObject
		activity.GetLogger(ctx).Warn("event not recorded", "reason", event.Reason, "message", event.Message,
			"object", about.Kind+" "+about.Namespace+"/"+about.Name, "error", err)
	}}
}
