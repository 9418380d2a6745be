package activities

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	selection, _ := targets.Tally(d.Spec, healthy, shards)
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
	if err := a.selectionEvent(ctx, d, s); err != nil {
		return err
	}
	kinds := d.Spec.Requested()
	showPlan := planShown(ctx, d)
	return a.Disruptions.UpdateStatus(ctx, d.Ref(), func(live *v1beta1.Disruption) {
		showPlan(live)
		status := &live.Status
		status.DesiredTargetsCount, status.SelectedTargetsCount = s.Desired, s.Selected
		status.IgnoredTargetsCount = max(0, s.Matching-s.Selected)
		status.Targets = fmt.Sprintf("%d/%d", status.InjectedTargetsCount, s.Selected)
		status.RunCount = run
		if len(s.Added) > 0 {
			status.RunCount = run + 1
		}
		listTargets(status, shards, kinds)
		if len(s.Added) > 0 && status.Phase == v1beta1.PhasePending {
			status.Phase = v1beta1.PhaseInjecting
		}
		switch {
		case s.Selected > 0:
			setCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, "Selected", fmt.Sprintf("%d of %d matching targets", s.Selected, s.Matching))
		case s.Invalid != "":
			setCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "InvalidSpec", s.Invalid)
		case s.Matching > 0:
			setCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "NoMoreTargets", fmt.Sprintf("all %d matching targets are disrupted already or were before", s.Matching))
		default:
			setCondition(live, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "NoTargetsFound", "no healthy "+string(d.Spec.Level)+" matches the selector")
		}
	})
}

func (a *Activities) selectionEvent(ctx context.Context, d *v1beta1.Disruption, s Selection) error {
	key := fmt.Sprint(s.Matching, s.Added)
	switch {
	case s.Selected > 0:
		return nil
	case s.Invalid != "":
		return a.warn(ctx, d, "InvalidSpec", s.Invalid, "containers")
	case s.Matching > 0:
		return a.tell(ctx, d, "NoMoreTargets", fmt.Sprintf("all %d matching targets are disrupted already or were before", s.Matching), key)
	default:
		return a.warn(ctx, d, "NoTargetsFound", "no healthy "+string(d.Spec.Level)+" matches the selector", key)
	}
}

// listTargets fills status.targetInjections with every disrupted target that
// is not in it yet, and drops the released. A disruption of more than
// maxListed targets has no list, only counts.
func listTargets(status *v1beta1.DisruptionStatus, shards []targets.Shard, faults []v1beta1.Fault) {
	listed := map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}
	for _, s := range shards {
		for _, t := range s.Targets {
			if !t.Active() {
				continue
			}
			if old := status.TargetInjections[t.Name]; old != nil && sameTarget(old, t.UID) {
				listed[t.Name] = maps.Clone(old)
				continue
			}
			listed[t.Name] = map[v1beta1.Kind]v1beta1.TargetInjection{}
			for _, fault := range faults {
				listed[t.Name][fault.Kind] = v1beta1.TargetInjection{
					TargetUID: t.UID, InjectionStatus: v1beta1.NotInjected,
				}
			}
		}
	}
	if len(listed) > maxListed {
		listed = nil
	}
	status.TargetInjections = listed
}

// maxListed is how many targets status lists one by one: beyond it the object
// would grow towards the API server's limit and every write would carry it.
const maxListed = 500

func sameTarget(kinds map[v1beta1.Kind]v1beta1.TargetInjection, uid types.UID) bool {
	for _, injection := range kinds {
		return injection.TargetUID == uid
	}
	return false
}
