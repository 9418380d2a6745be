// Package cluster has what all steps of a Disruption's lifecycle share: the clients and
// stores of a cluster, live reads of targets and chaos pods, and events. It promises that no
// read creates, changes or deletes anything.
//
// Its functions are not methods of Cluster: the activities embed a Cluster, and Temporal
// would register each method as an activity.
package cluster

import (
	"context"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/kube"
)

// Cluster has a worker's clients and stores of one cluster, and the settings that several
// steps need.
type Cluster struct {
	Kube kubernetes.Interface
	// Clock is the API server's. nil means this machine's clock.
	Clock       *kube.Clock
	Disruptions *status.Disruptions
	// ChaosPods is this worker's only watch on chaos pods.
	ChaosPods *chaospod.Watch
	// Targets are the records of all disruptions' targets.
	Targets *targets.Store
	// Namespace is where chaos pods and records live, never a target's own.
	Namespace string
	// Builder makes chaos pods.
	Builder chaospod.Builder
	// Parallel is the highest number of API calls that one activity has under way at once.
	Parallel int
}

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
