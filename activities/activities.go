// Package activities holds the single attempts at single effects on the
// cluster that a Disruption's workflow is made of. An activity may be carried
// out again at any time, by any worker: each one is idempotent, reads live
// before it destroys anything, and leaves the deciding to the workflow.
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

// Activities carries what every activity needs. Its methods are registered
// with a Temporal worker under their own names.
type Activities struct {
	Kube kubernetes.Interface
	// Clock is the API server's. nil is that of this machine.
	Clock       *kube.Clock
	Disruptions *status.Disruptions
	// ChaosPods is this worker's one watch on chaos pods.
	ChaosPods *chaospod.Watch
	// Targets are the records of all disruptions' targets.
	Targets *targets.Store
	// Policies is this worker's one watch on DisruptionPolicies. nil judges by none.
	Policies *policy.Watch
	// OptIn is true where namespaces have to agree that they are disrupted, by their
	// label. Then that is read live wherever policies are judged.
	OptIn bool
	// SafeMode judges disruptions of more than anybody named. nil judges none.
	SafeMode *SafeMode
	// NodeShare is how many of a node's pods, in percent, chaos pods may be. 0 bounds none.
	NodeShare int
	// Clouds know the ranges of cloud providers' services.
	Clouds *cloud.Clouds
	// Namespace is where chaos pods and records live, never a target's own.
	Namespace string
	// Builder makes chaos pods.
	Builder chaospod.Builder
	// Prober asks the probes of disruptions. nil asks none.
	Prober *steadystate.Prober
	// Notify says who hears of disruptions. The zero value tells nobody.
	Notify notify.Settings
	// Parallel bounds the API calls one activity has under way at once.
	Parallel int
	// CordonsAtOnce bounds the nodes of the cluster that pod replacement keeps cordoned at
	// once. 0 means 1.
	CordonsAtOnce int
	// GonePatience and SuccessorPatience are how long ReplacePods waits for pods
	// to go after their grace period, and for their successors to have a node. 0
	// means 2 minutes, and 30 s.
	GonePatience, SuccessorPatience time.Duration
	// StartPatience is how long a chaos pod that was Pending when it was deleted is
	// held. 0 means 5 s.
	StartPatience time.Duration
}

// Ref names the disruption an activity works for.
type Ref = v1beta1.DisruptionRef

// Report is what the workflow decided and a user must see.
type Report = status.Report

// FinishInput is what a finished disruption is asked for.
type FinishInput = status.FinishInput

// Selection says what SelectTargets found and chose.
type Selection = targets.Selection

// Shard names a part of a disruption's targets. Number -1 means all of them.
type Shard struct {
	Disruption Ref `json:"disruption"`
	Number     int `json:"number"`
}

// AllShards is the Number that means every chaos pod of the disruption.
const AllShards = chaospod.AllShards

// LeftPod is a chaos pod that is to go and cannot go yet.
type LeftPod = chaospod.LeftPod

// EffectAtEnd is what an injector measured before it cleaned.
type EffectAtEnd = chaospod.EffectAtEnd

// Outcome is what became of a chaos pod.
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

// Events records events. One that cannot be stored is counted and logged: a
// disruption begins, goes on and ends without it.
func Events(kube kubernetes.Interface) status.Events {
	return status.Events{Kube: kube, Lost: func(ctx context.Context, event *corev1.Event, err error) {
		metric.EventsLost.Add(ctx, 1, "")
		about := event.InvolvedObject
		activity.GetLogger(ctx).Warn("event not recorded", "reason", event.Reason, "message", event.Message,
			"object", about.Kind+" "+about.Namespace+"/"+about.Name, "error", err)
	}}
}
