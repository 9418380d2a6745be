package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Plan is what the workflow needs to know of a disruption to carry it out.
type Plan struct {
	Kinds    v1beta1.Kinds `json:"kinds"`
	CreateAt time.Time     `json:"createAt"`
	ExpireAt time.Time     `json:"expireAt"`
	Static   bool          `json:"static,omitempty"`
	MaxRuns  int           `json:"maxRuns,omitempty"`
	SpecHash string        `json:"specHash"`
	// CleanOnly says why nothing may be injected any more and only cleaning is
	// left. Empty when the disruption is to be carried out.
	CleanOnly string `json:"cleanOnly,omitempty"`
	// Rejected says what is wrong with a spec that can never run.
	Rejected string `json:"rejected,omitempty"`
}

// Prepare reads the disruption, keeps its spec for good and says what is to be
// done. Status gets the spec hash (rule 7) and the times here, unless
// SelectTargets is next and can do it. A disruption that is gone, ending or was
// begun by an earlier workflow is cleaned only; so is one that meets an
// emergency stop, which refuses it if it never began.
func (a *Activities) Prepare(ctx context.Context, ref Ref) (Plan, error) {
	live, err := a.Disruptions.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		return Plan{CleanOnly: endingGone}, nil
	}
	if err != nil {
		return Plan{}, err
	}
	switch {
	case live.DeletionTimestamp != nil:
		return Plan{CleanOnly: "the disruption is being deleted"}, nil
	case live.Status.Phase == v1beta1.PhaseFinished:
		return Plan{CleanOnly: "the disruption has finished"}, nil
	}
	live.Default()
	stop, err := a.Disruptions.EmergencyStop(ctx)
	if err != nil {
		return Plan{}, err
	}
	if why := cmp.Or(live.Stopped(), stop); why != "" {
		return a.refuse(ctx, live, why)
	}
	if why := a.problems(live); why != "" {
		return a.refuseInvalid(ctx, live, why)
	}
	workflow := activity.GetInfo(ctx).WorkflowExecution
	firstRun, err := a.Targets.StoreSpec(ctx, live, workflow.RunID)
	if err != nil {
		return Plan{}, fmt.Errorf("keep the spec of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if firstRun != workflow.RunID {
		return Plan{CleanOnly: "an earlier workflow (run " + firstRun + ") began it and did not end"}, nil
	}
	plan := planOf(live)
	a.Disruptions.Remember(live.DeepCopy())
	var event sync.WaitGroup
	defer event.Wait()
	event.Go(func() {
		a.events().Record(ctx, live, "Created", "workflow "+workflow.ID+" carries the disruption out", "")
	})
	if !plan.CreateAt.After(time.Now()) {
		return plan, nil // the choice of targets shows it in a moment
	}
	return plan, a.Disruptions.UpdateStatus(ctx, ref, status.ShowPlan(live, carrier(ctx)))
}

// planOf is the pure part of Prepare.
func planOf(d *v1beta1.Disruption) Plan {
	plan := Plan{
		CreateAt: d.Spec.TimeToCreate(d.CreationTimestamp.Time),
		ExpireAt: d.Spec.Expiry(d.CreationTimestamp.Time),
		Static:   d.Spec.StaticTargeting,
		SpecHash: d.Spec.Hash(),
	}
	if d.Spec.MaxRuns != nil {
		plan.MaxRuns = *d.Spec.MaxRuns
	}
	plan.Kinds = d.Spec.Kinds()
	return plan
}

// problems says why the disruption can never be carried out. It is empty for a
// disruption without problems.
func (a *Activities) problems(d *v1beta1.Disruption) string {
	if d.Namespace == a.Namespace { // rule 25
		return "namespace " + a.Namespace + " is the one of the chaos pods, which are never in the namespace of a target: " +
			"delete this disruption and create it in another namespace, that of its targets"
	}
	if problems := d.Validate(); len(problems) > 0 {
		return problems.ToAggregate().Error()
	}
	return ""
}

// refuseInvalid is the plan of a disruption with problems. One that has a record
// was begun all the same, by a version that did not object: nobody may forget
// what that has left, so it is cleaned, not rejected.
func (a *Activities) refuseInvalid(ctx context.Context, d *v1beta1.Disruption, why string) (Plan, error) {
	_, err := a.Targets.LoadSpec(ctx, d.Ref())
	switch {
	case apierrors.IsNotFound(err):
		return a.reject(ctx, d, "InvalidSpec", why)
	case err != nil:
		return Plan{}, err
	}
	return Plan{CleanOnly: "it was begun and can be carried out no more: " + why}, nil
}

func (a *Activities) reject(ctx context.Context, d *v1beta1.Disruption, reason, why string) (Plan, error) {
	ref := d.Ref()
	a.events().Warn(ctx, d, reason, why, d.Spec.Hash())
	return Plan{Rejected: why, SpecHash: d.Spec.Hash()}, a.Disruptions.UpdateStatus(ctx, ref, func(d *v1beta1.Disruption) {
		status.ShowRejected(d, reason, why)
	})
}

// carrier is the workflow that the activity works for.
func carrier(ctx context.Context) v1beta1.WorkflowRef {
	execution := activity.GetInfo(ctx).WorkflowExecution
	return v1beta1.WorkflowRef{ID: execution.ID, RunID: execution.RunID}
}
