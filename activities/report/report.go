// Package report shows the workflow's decisions to users: the activities ReportPhase and
// WarnSpecChanged. It promises that another attempt records no event twice.
package report

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Activities has the activities ReportPhase and WarnSpecChanged.
type Activities struct{ *cluster.Cluster }

// ReportPhase writes a phase and its details into status, and records events.
func (a *Activities) ReportPhase(ctx context.Context, r status.Report) error {
	r.At = activity.GetInfo(ctx).ScheduledTime
	a.reportEvents(ctx, status.Named(r.Disruption), r)
	if r.Ending == v1beta1.EndingDeleted {
		a.Disruptions.Deleted(r.Disruption)
	}
	show := func(live *v1beta1.Disruption) { status.ShowReport(live, r) }
	// a disruption may end before status shows its plan
	if begun, err := a.Targets.LoadSpec(ctx, r.Disruption); err == nil {
		show = cluster.Planned(ctx, begun, show)
	}
	return a.Disruptions.UpdateStatus(ctx, r.Disruption, show)
}

func (a *Activities) reportEvents(ctx context.Context, d *v1beta1.Disruption, r status.Report) {
	if r.Phase == v1beta1.PhaseCleaning && r.Ending == v1beta1.EndingExpired && r.Round == 0 {
		cluster.Events(a.Kube).Record(ctx, d, "DurationOver", "the duration is over; the disruption is cleaned up", "")
	}
	if r.Phase == v1beta1.PhaseCleaning && strings.HasPrefix(r.Ending, v1beta1.EndingEmergencyStop) && r.Round == 0 {
		cluster.Events(a.Kube).Warn(ctx, d, v1beta1.ReasonEmergencyStop, r.Ending+"; all targets are cleaned up", "")
	}
	if len(r.Left) > 0 {
		metric.Stuck.Add(ctx, 1, "")
	}
	for _, left := range r.Left {
		message := fmt.Sprintf("chaos pod %s on node %s, target %s: %s", left.Pod, left.Node, left.Target, left.Why)
		cluster.Events(a.Kube).Warn(ctx, d, "StuckOnRemoval", message, fmt.Sprint(left.Pod, r.Round))
	}
}

// WarnSpecChanged records a warning that an edited spec has no effect (rules 8-10a), once
// for each edit.
func (a *Activities) WarnSpecChanged(ctx context.Context, ref v1beta1.DisruptionRef) error {
	live, err := a.Disruptions.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	begun, err := a.Targets.LoadSpec(ctx, ref)
	if err != nil {
		return err
	}
	live.Default()
	hash := live.Spec.Hash()
	if hash == begun.Spec.Hash() {
		return nil
	}
	cluster.Events(a.Kube).Warn(ctx, live, "SpecChanged",
		"the edit of the spec has no effect. Delete it and create it again to change it", hash)
	return nil
}
