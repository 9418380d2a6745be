package activities

import (
	"context"
	"fmt"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// SelectInput says how many shards the workflow knows already.
type SelectInput struct {
	Disruption Ref `json:"disruption"`
	Known      int `json:"known"`
	// Run counts the injections before this one (spec.maxRuns).
	Run int `json:"run"`
}

// SelectTargets chooses as many targets as are missing, at random among those
// that are healthy, free and were not disrupted before, and claims them
// (rules 11-19). Called again it tops up.
func (a *Activities) SelectTargets(ctx context.Context, in SelectInput) (Selection, error) {
	d, err := a.Targets.LoadSpec(ctx, in.Disruption)
	if err != nil {
		return Selection{}, err
	}
	healthy, err := a.Targets.Healthy(ctx, d)
	if err != nil {
		return Selection{}, err
	}
	shards, err := a.Targets.Claim(ctx, d, in.Known, healthy)
	if err != nil {
		return Selection{}, err
	}
	selection := targets.Tally(d.Spec, healthy, shards)
	for number := in.Known; number < len(shards); number++ {
		selection.Added = append(selection.Added, number)
	}
	if selection.Selected == 0 {
		selection.Invalid = targets.MissingContainers(d.Spec, healthy)
	}
	return selection, a.reportSelection(ctx, d, selection, shards, in.Run)
}

// reportSelection writes the chosen targets into status (rule 20), and
// what is to be done if nobody has yet.
func (a *Activities) reportSelection(ctx context.Context, d *v1beta1.Disruption, s Selection, shards []targets.Shard, run int) error {
	a.selectionEvent(ctx, d, s)
	showPlan := status.ShowPlan(d, carrier(ctx))
	return a.Disruptions.UpdateStatus(ctx, d.Ref(), func(live *v1beta1.Disruption) {
		showPlan(live)
		status.ShowSelection(live, d, s, targets.Active(shards), run)
	})
}

func (a *Activities) selectionEvent(ctx context.Context, d *v1beta1.Disruption, s Selection) {
	key := fmt.Sprint(s.Matching, s.Added)
	switch {
	case s.Selected > 0:
	case s.Invalid != "":
		a.events().Warn(ctx, d, "InvalidSpec", s.Invalid, "containers")
	case s.Matching > 0:
		a.events().Record(ctx, d, "NoMoreTargets", fmt.Sprintf("all %d matching targets are disrupted already or were before", s.Matching), key)
	default:
		a.events().Warn(ctx, d, "NoTargetsFound", "no healthy "+string(d.Spec.Level)+" matches the selector", key)
	}
}
