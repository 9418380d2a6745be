// Package prepare begins a Disruption: the activity Prepare. It promises that the spec of
// the first run stays the Disruption's spec, and that a rejection has a reason.
package prepare

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/permission"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Activities has the activity Prepare.
type Activities struct {
	*cluster.Cluster
	Rules *permission.Rules
	// Clouds knows the address ranges of cloud providers' services.
	Clouds *cloud.Clouds
	// Notify has the receivers of notifications. The zero value has none.
	Notify notify.Settings
}

// Plan is what the workflow needs to know of a disruption to carry it out.
type Plan struct {
	Kinds    v1beta1.Kinds `json:"kinds"`
	CreateAt time.Time     `json:"createAt"`
	ExpireAt time.Time     `json:"expireAt"`
	Static   bool          `json:"static,omitempty"`
	MaxRuns  int           `json:"maxRuns,omitempty"`
	SpecHash string        `json:"specHash"`
	// BusyUntil is the end of the time for which places are kept for pods that another
	// operation uses; nil if no places are kept.
	BusyUntil *time.Time `json:"busyUntil,omitempty"`
	// Services is true when the disruption names services, whose addresses the workflow
	// keeps up to date.
	Services bool `json:"services,omitempty"`
	// SteadyState guards the disruption; nil if it has none. It has its defaults, and its
	// probes have no handlers: AskProbes reads those from the record.
	SteadyState *v1beta1.SteadyState `json:"steadyState,omitempty"`
	// ProbeRules is the version of the workflow's rules for probes, see ProbeRulesNow. A
	// plan of an older worker has 0 and keeps the old rules.
	ProbeRules int `json:"probeRules,omitempty"`
	// Operations is set for a disruption that is an operation on its targets.
	Operations *Operations `json:"operations,omitempty"`
	// Requester is the user who created the disruption, if known.
	Requester string `json:"requester,omitempty"`
	// Notify has the receivers of the disruption's notifications; nil if there are none.
	Notify *notify.Audience `json:"notify,omitempty"`
	// CleanOnly is why nothing may be injected any more and only cleaning is left. Empty
	// when the disruption is to be carried out.
	CleanOnly string `json:"cleanOnly,omitempty"`
	// Rejected is the error in a spec that can never run.
	Rejected string `json:"rejected,omitempty"`
	// ResultSearchable is true when the search attributes get the ending and the
	// verdict. The plans of older workers lack it.
	ResultSearchable bool `json:"resultSearchable,omitempty"`
}

// The versions of the workflow's rules for probes, each with those before it.
const (
	// ProbeRulesOneClock: the workflow's clock alone measures how long no prober has asked.
	ProbeRulesOneClock = iota + 1
	// ProbeRulesFinalAnswers: a disruption that does not wait for recovery still receives
	// all answers of phase During before it ends.
	ProbeRulesFinalAnswers
	// ProbeRulesNow is the version for new disruptions.
	ProbeRulesNow = iota
)

// Operations has the times of the operations on targets.
type Operations struct {
	// OperatingTimeout is the longest wait for the driver to grant a target.
	OperatingTimeout time.Duration `json:"operatingTimeout"`
	// AvailableTimeout is the longest wait, once all is clean, until the targets are in
	// service again.
	AvailableTimeout time.Duration `json:"availableTimeout"`
}

// Prepare reads the disruption, stores its spec for good and returns the plan. It writes
// the spec hash (rule 7) and the times into status, unless SelectTargets runs next and does
// so. A disruption is only cleaned if it is gone, is being deleted or was begun by an
// earlier workflow. An emergency stop also leaves only cleaning, and rejects a disruption
// that never began.
func (a *Activities) Prepare(ctx context.Context, ref v1beta1.DisruptionRef) (Plan, error) {
	plan, err := a.prepare(ctx, ref)
	plan.ResultSearchable = true
	if err != nil || plan.CleanOnly == "" {
		return plan, err
	}
	begun, err := a.Targets.LoadSpec(ctx, ref)
	if apierrors.IsNotFound(err) {
		return plan, nil
	}
	if err == nil {
		plan.Operations = operationsOf(begun.Spec) // an earlier workflow may have begun operations
		a.addPeople(&plan, begun)
	}
	return plan, err
}

// addPeople adds the requester and the receivers of notifications to the plan.
func (a *Activities) addPeople(plan *Plan, d *v1beta1.Disruption) {
	plan.Requester, plan.Notify = v1beta1.RequesterOf(d).User, a.Notify.Audience(d.Spec.Reporting)
}

func (a *Activities) prepare(ctx context.Context, ref v1beta1.DisruptionRef) (Plan, error) {
	// The stop may come from a cache: a live check follows before the injection.
	live, stop, err := cluster.ReadDisruption(ctx, a.Cluster, ref, a.Disruptions.CachedEmergencyStop)
	if apierrors.IsNotFound(err) {
		return Plan{CleanOnly: cluster.EndingGone}, nil
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
	if why := cmp.Or(live.Stopped(), stop); why != "" {
		return a.refuse(ctx, live, why)
	}
	if why := a.problems(live); why != "" {
		return a.refuseFor(ctx, live, "InvalidSpec", why)
	}
	driver, reason, why, err := a.lacking(ctx, live)
	if err != nil {
		return Plan{}, err
	}
	if why != "" {
		return a.refuseFor(ctx, live, reason, why)
	}
	ranges, why, err := a.resolve(ctx, live)
	if err != nil {
		return Plan{}, err
	}
	if why != "" {
		return a.refuseFor(ctx, live, "InvalidSpec", why)
	}
	workflow := activity.GetInfo(ctx).WorkflowExecution
	var event sync.WaitGroup
	defer event.Wait()
	event.Go(func() { // an earlier run may have recorded the same event
		cluster.Events(a.Kube).Record(ctx, live, "Created", "workflow "+workflow.ID+" carries the disruption out", "")
	})
	firstRun, err := a.Targets.StoreSpec(ctx, live, workflow.RunID, ranges)
	if err != nil {
		return Plan{}, fmt.Errorf("keep the spec of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if firstRun != workflow.RunID {
		return Plan{CleanOnly: "an earlier workflow (run " + firstRun + ") began it and did not end"}, nil
	}
	plan := planOf(live)
	if driver == "" {
		plan.Operations = nil
	}
	a.addPeople(&plan, live)
	a.Disruptions.Remember(live.DeepCopy())
	if !plan.CreateAt.After(time.Now()) {
		return plan, nil // the choice of targets shows the plan in a moment
	}
	return plan, a.Disruptions.UpdateStatus(ctx, ref, status.ShowPlan(live, cluster.Carrier(ctx)))
}

// lacking checks that the cluster has what the disruption needs, and that policies allow
// it. reason and why describe what is missing, both empty if nothing is. driver is the name
// of the driver that grants pods, empty if the cluster has none.
func (a *Activities) lacking(ctx context.Context, d *v1beta1.Disruption) (driver, reason, why string, err error) {
	rules, err := a.Rules.Of(ctx, d, permission.WatchedPolicies)
	if err == nil && policy.Refusing(rules) != nil {
		rules, err = a.Rules.Of(ctx, d, permission.NewestPolicies)
	}
	if err != nil {
		return "", "", "", err
	}
	if rule := policy.Refusing(rules); rule != nil {
		permission.RecordDenial(ctx, a.Cluster, d, rule.Refusal(), []policy.Rule{*rule})
		return "", v1beta1.ReasonDenied, rule.Refusal(), nil
	}
	if why, err = a.missingRights(ctx, d); err != nil || why != "" {
		return "", "MissingRights", why, err
	}
	driver, err = a.driver(ctx, d)
	if err == nil && driver == "" && d.Spec.NeedsDriver() {
		return "", "NoDriver", noDriver, nil
	}
	return driver, "", "", err
}

// planOf is the pure part of Prepare.
func planOf(d *v1beta1.Disruption) Plan {
	plan := Plan{
		CreateAt: d.Spec.TimeToCreate(d.CreationTimestamp.Time),
		ExpireAt: d.Spec.Expiry(d.CreationTimestamp.Time),
		Static:   d.Spec.StaticTargeting,
		SpecHash: d.Spec.Hash(),
		Services: d.Spec.Network != nil && len(d.Spec.Network.Services) > 0,
	}
	if d.Spec.Kinds().By() == v1beta1.ByWorker {
		// The worker injects without a chaos pod to prepare.
		plan.CreateAt = d.Spec.TimeToInject(d.CreationTimestamp.Time)
	}
	if until := d.Spec.BusyUntil(d.CreationTimestamp.Time); !until.IsZero() {
		plan.BusyUntil = &until
	}
	if d.Spec.MaxRuns != nil {
		plan.MaxRuns = *d.Spec.MaxRuns
	}
	plan.Kinds = d.Spec.Kinds()
	if plan.SteadyState = d.Spec.SteadyState.ForWorkflow(); plan.SteadyState != nil {
		plan.ProbeRules = ProbeRulesNow
	}
	plan.Operations = operationsOf(d.Spec)
	return plan
}

// problems are the reasons why the disruption can never be carried out; empty if there are
// none.
func (a *Activities) problems(d *v1beta1.Disruption) string {
	if d.Namespace == a.Namespace { // rule 25
		return "namespace " + a.Namespace + " is reserved for chaos pods: " +
			"delete this disruption and create it in the namespace of its targets"
	}
	if problems := d.Validate(); len(problems) > 0 {
		return problems.ToAggregate().Error()
	}
	return ""
}

// refuse is the plan of a disruption under an emergency stop. It rejects a disruption that
// never began. After a start, only cleaning is left.
func (a *Activities) refuse(ctx context.Context, d *v1beta1.Disruption, why string) (Plan, error) {
	if d.Status.StartTime == nil {
		return a.refuseFor(ctx, d, v1beta1.ReasonEmergencyStop, why)
	}
	return Plan{CleanOnly: why}, nil
}

// refuseFor is the plan of a disruption with problems. A disruption without a record is
// rejected. A record means that an earlier version accepted the disruption, or that the
// worker had more rights then. The injection may have left something, so the plan is to
// clean.
func (a *Activities) refuseFor(ctx context.Context, d *v1beta1.Disruption, reason, why string) (Plan, error) {
	_, err := a.Targets.LoadSpec(ctx, d.Ref())
	switch {
	case apierrors.IsNotFound(err):
		return a.reject(ctx, d, reason, why)
	case err != nil:
		return Plan{}, err
	}
	return Plan{CleanOnly: "it was begun and can be carried out no more: " + why}, nil
}

func (a *Activities) reject(ctx context.Context, d *v1beta1.Disruption, reason, why string) (Plan, error) {
	ref := d.Ref()
	cluster.Events(a.Kube).Warn(ctx, d, reason, why, d.Spec.Hash())
	plan := Plan{Rejected: why, SpecHash: d.Spec.Hash()}
	a.addPeople(&plan, d)
	return plan, a.Disruptions.UpdateStatus(ctx, ref, func(d *v1beta1.Disruption) {
		status.ShowRejected(d, reason, why)
	})
}
