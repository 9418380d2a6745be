// Package choose chooses the targets of a Disruption: the activity SelectTargets. It
// promises that no two disruptions claim one target, and that no target is beyond a budget.
package choose

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/permission"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Activities has the activity SelectTargets.
type Activities struct {
	*cluster.Cluster
	Rules *permission.Rules
	// NodeShare is the highest percentage of a node's pods that may be chaos pods. 0 means
	// no limit.
	NodeShare int
}

// Input selects how SelectTargets chooses.
type Input struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	// Known is the number of shards that the workflow knows.
	Known int `json:"known"`
	// Run counts the injections before this one (spec.maxRuns).
	Run int `json:"run"`
	// Fill lets new targets take free places in shards that the workflow knows.
	Fill bool `json:"fill,omitempty"`
	// Closed are shards that get no new targets: the time of a whole shard limits the wait for
	// its targets.
	Closed []int `json:"closed,omitempty"`
	// Waiting is true before the injection may begin: targets that are gone then are given
	// up, and others are chosen in their place.
	Waiting bool `json:"waiting,omitempty"`
	// ShownLater is true when AwaitInjection runs next and writes the choice into status,
	// together with the first injections. That saves a write.
	ShownLater bool `json:"told,omitempty"`
}

// SelectTargets chooses as many targets as are missing and claims them (rules 11-19). It
// chooses at random among the targets that are healthy, free, not used by another operation
// and not disrupted before. It keeps to the budgets that the spec respects. Another call
// adds what is missing.
func (a *Activities) SelectTargets(ctx context.Context, in Input) (targets.Selection, error) {
	d, err := a.Targets.LoadSpec(ctx, in.Disruption)
	if err != nil {
		return targets.Selection{}, err
	}
	selection, shards, err := a.choose(ctx, d, in, permission.WatchedPolicies)
	if short := selection.Selected < selection.Desired; err == nil && short && len(selection.DeniedBy) > 0 && a.Rules.Policies != nil {
		selection, shards, err = a.choose(ctx, d, in, permission.NewestPolicies) // adds what is missing
	}
	if err != nil {
		return targets.Selection{}, err
	}
	switch {
	case in.ShownLater && len(selection.Added) > 0:
		a.selectionEvent(ctx, d, selection)
		return selection, nil
	case in.Waiting && len(selection.Added) == 0:
		in.Run++ // status counts the run that waits
	}
	return selection, a.reportSelection(ctx, d, selection, shards, in.Run)
}

// choose chooses and claims targets under policies from a source. It returns the
// disruption's records.
func (a *Activities) choose(ctx context.Context, d *v1beta1.Disruption, in Input, from permission.Source) (targets.Selection, []targets.Shard, error) {
	healthy, err := a.Targets.Healthy(ctx, d)
	if err != nil {
		return targets.Selection{}, nil, err
	}
	if in.Waiting {
		if err := a.endWaiting(ctx, d, healthy); err != nil {
			return targets.Selection{}, nil, err
		}
	}
	var control *targets.ControlGroup
	if d.Spec.SteadyState.Compares() {
		if control, err = a.Targets.LoadControl(ctx, in.Disruption); err != nil {
			return targets.Selection{}, nil, err
		}
		control.Keep(healthy)
	}
	budgets, limits, nodes, err := a.bounds(ctx, d, healthy, from)
	if err != nil {
		return targets.Selection{}, nil, err
	}
	claims, err := a.claim(ctx, d, in.choice(), healthy, slices.Concat(budgets, limits, nodes))
	if err != nil {
		return targets.Selection{}, nil, err
	}
	shards := claims.Own
	selection := targets.Tally(d.Spec, healthy, shards)
	selection.Held = claims.Holders.Of(d.Spec, healthy)
	selection.NoteOperated(healthy, claims)
	selection.NoteBudgets(healthy, budgets, claims)
	selection.NoteDenied(healthy, limits, claims)
	selection.NoteNodes(healthy, nodes, claims, time.Now())
	selection.NoteFailed(d.Spec, healthy, shards, time.Now())
	selection.NoteLost(d.Spec, shards, time.Now())
	selection.Caught = a.Rules.SafeMode.Warning(d, healthy)
	selection.NoteAdded(in.choice(), shards)
	if control == nil && d.Spec.SteadyState.Compares() && selection.Selected > 0 {
		if control, err = a.Targets.ChooseControl(ctx, d, healthy, claims); err != nil {
			return targets.Selection{}, nil, err
		}
	}
	if control != nil {
		selection.Control = &targets.ControlCount{Wanted: control.Wanted, Chosen: len(control.Pods)}
	}
	if selection.Selected == 0 {
		selection.Invalid = targets.Unusable(d.Spec, healthy)
	}
	return selection, shards, nil
}

func (in Input) choice() targets.Choice {
	return targets.Choice{Known: in.Known, Run: in.Run, Fill: in.Fill, Closed: in.Closed}
}

// claim claims targets. It records a warning on disruptions whose records cannot be read.
func (a *Activities) claim(ctx context.Context, d *v1beta1.Disruption, choice targets.Choice, healthy []targets.Candidate, budgets targets.Budgets) (targets.Claims, error) {
	claims, err := a.Targets.Claim(ctx, d, choice, healthy, budgets)
	a.warnUnread(ctx, claims.Unread)
	return claims, err
}

// warnUnread records a warning on disruptions whose records cannot be read: other
// disruptions leave alone all targets that these may have.
func (a *Activities) warnUnread(ctx context.Context, all []targets.Unread) {
	for _, one := range all {
		message := fmt.Sprintf("ConfigMap %s/%s, which lists targets of this disruption, cannot be read: %v; restore it, or delete this disruption: until then %s gets new targets",
			a.Namespace, one.Record, one.Why, one.Keeps)
		cluster.Events(a.Kube).Warn(ctx, status.Named(one.Owner), "TargetsUnreadable", message, one.Record)
	}
}

// nodeBudgets are the numbers of chaos pods for which the candidates' nodes have room.
func (a *Activities) nodeBudgets(ctx context.Context, d *v1beta1.Disruption, healthy []targets.Candidate) (targets.Budgets, error) {
	if a.NodeShare == 0 || d.Spec.Kinds().By() != v1beta1.ByInjector {
		return nil, nil
	}
	each := len(d.Spec.Requested())
	taken := func(node string) int { return a.ChaosPods.BesideOn(node, d.Ref()) }
	return a.Targets.NodeBudgets(ctx, targets.NodeShare{Percent: a.NodeShare, Each: each, Taken: taken}, healthy)
}

// bounds are the limits of PodDisruptionBudgets, rules and nodes. It marks the candidates
// that a rule denies; all of them if safe mode is enforced and the disruption selects too
// many.
func (a *Activities) bounds(ctx context.Context, d *v1beta1.Disruption, healthy []targets.Candidate, from permission.Source) (budgets, limits, nodes targets.Budgets, err error) {
	if budgets, err = a.Targets.Budgets(ctx, d); err != nil {
		return nil, nil, nil, err
	}
	rules, err := a.Rules.Of(ctx, d, from)
	if err != nil {
		return nil, nil, nil, err
	}
	nodes, err = a.nodeBudgets(ctx, d, healthy)
	return budgets, targets.Deny(append(rules, a.Rules.SafeMode.Limits(d, healthy)...), healthy), nodes, err
}

// endWaiting gives up targets that wait for their injection and are gone, ending, used by
// another operation, or no longer match.
func (a *Activities) endWaiting(ctx context.Context, d *v1beta1.Disruption, healthy []targets.Candidate) error {
	stays := map[types.UID]bool{}
	for _, c := range healthy {
		stays[c.Target.UID] = c.Operation == "" || !d.Spec.ReleasesOnOperation()
	}
	shards, err := a.Targets.Shards(ctx, d.Ref())
	if err != nil {
		return err
	}
	info := activity.GetInfo(ctx)
	for _, shard := range shards {
		why := map[types.UID]targets.Ending{}
		for _, target := range targets.Active([]targets.Shard{shard}) {
			if stays[target.UID] {
				continue
			}
			live, err := cluster.ReadTarget(ctx, a.Cluster, d.Ref(), target.Name, target.UID, d.Spec.Level)
			switch {
			case err != nil:
				return err
			case !live.Runs || live.Ending:
				why[target.UID] = targets.Ending{Why: targets.Gone, NeverInjected: true}
			case !d.Spec.Matches(live.Labels, live.Annotations):
				why[target.UID] = targets.Ending{Why: cluster.TargetUnmatched, Returns: true}
			case live.Operation != "" && d.Spec.ReleasesOnOperation():
				why[target.UID] = targets.Ending{Why: cluster.TargetInUse + live.Operation, NeverInjected: true}
			}
		}
		if len(why) == 0 {
			continue
		}
		ended, err := a.Targets.End(ctx, d.Ref(), shard.Number, info.WorkflowExecution.RunID+"/"+info.ActivityID, func(t targets.Target) targets.Ending {
			return why[t.UID]
		})
		if err != nil {
			return err
		}
		cluster.RecordEnded(ctx, a.Cluster, d, "TargetLost", "deleted, ended or about to end", targets.Gone, ended)
		cluster.RecordEnded(ctx, a.Cluster, d, "TargetReleased", "not selected because they no longer match the selector", cluster.TargetUnmatched, ended)
		cluster.RecordEnded(ctx, a.Cluster, d, "TargetReleased", "cleaned up because another operation uses them", cluster.TargetInUse, ended)
	}
	return nil
}

// reportSelection writes the chosen targets into status (rule 20), and the plan if status
// does not have it yet.
func (a *Activities) reportSelection(ctx context.Context, d *v1beta1.Disruption, s targets.Selection, shards []targets.Shard, run int) error {
	a.selectionEvent(ctx, d, s)
	return a.Disruptions.UpdateStatus(ctx, d.Ref(), cluster.ShowSelection(ctx, d, s, shards, run))
}

// lostKey makes the event unique in the disruption, or in an hour where the limit is per
// hour.
func lostKey(d *v1beta1.Disruption, s targets.Selection) string {
	if _, bounded := d.Spec.MostLost(s.Desired); bounded {
		return "lost"
	}
	return "lost in the hour " + time.Now().UTC().Truncate(time.Hour).Format(time.RFC3339)
}

func (a *Activities) selectionEvent(ctx context.Context, d *v1beta1.Disruption, s targets.Selection) {
	permission.RecordDenial(ctx, a.Cluster, d, s.Denied, s.DeniedBy)
	key := fmt.Sprint(s.Matching, s.Added)
	switch {
	case s.Lost != "":
		cluster.Events(a.Kube).Warn(ctx, d, "TooManyTargetsLost", s.Lost, lostKey(d, s))
	case s.Selected > 0 && s.LeftOut() != "":
		cluster.Events(a.Kube).Warn(ctx, d, "FewerTargets", s.String(), s.String())
	case s.Selected > 0:
	case s.Invalid != "":
		cluster.Events(a.Kube).Warn(ctx, d, "InvalidSpec", s.Invalid, "containers")
	case s.Denied != "":
		cluster.Events(a.Kube).Warn(ctx, d, v1beta1.ReasonDenied, s.String(), key)
	case s.Matching > 0:
		cluster.Events(a.Kube).Record(ctx, d, "NoMoreTargets", s.String(), key)
	case d.Spec.OnInit:
		cluster.Events(a.Kube).Warn(ctx, d, "NoTargetsFound", fmt.Sprintf("no pod that matches the selector waits at its start; new pods with the label %s=%s wait if the on-init webhook is installed",
			v1beta1.LabelDisruptOnInit, v1beta1.OnInitValue), key)
	default:
		cluster.Events(a.Kube).Warn(ctx, d, "NoTargetsFound", "no healthy "+string(d.Spec.Level)+" matches the selector", key)
	}
}
