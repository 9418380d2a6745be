package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/policy"
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
	// BusyUntil is until when places are kept for pods on which somebody operates;
	// nil when none are.
	BusyUntil *time.Time `json:"busyUntil,omitempty"`
	// Services is true when the disruption names services, which are followed.
	Services bool `json:"services,omitempty"`
	// SteadyState guards the disruption, if it is there. It has its defaults, and its
	// probes have no handlers: whoever asks reads the record.
	SteadyState *v1beta1.SteadyState `json:"steadyState,omitempty"`
	// ProbeRules number how the workflow follows who asks the probes. What an older
	// worker planned is 0 and goes on as it began.
	ProbeRules int `json:"probeRules,omitempty"`
	// Operations is there for a disruption that is an operation on its targets.
	Operations *Operations `json:"operations,omitempty"`
	// Requester is the user who asked for the disruption, if that is known.
	Requester string `json:"requester,omitempty"`
	// Notify is who hears of the disruption; nil if nobody does.
	Notify *notify.Audience `json:"notify,omitempty"`
	// CleanOnly says why nothing may be injected any more and only cleaning is
	// left. Empty when the disruption is to be carried out.
	CleanOnly string `json:"cleanOnly,omitempty"`
	// Rejected says what is wrong with a spec that can never run.
	Rejected string `json:"rejected,omitempty"`
}

// The rules by which a workflow follows who asks the probes, one after the other.
const (
	// ProbeRulesOneClock: how long nobody asked is told by the workflow's clock alone.
	ProbeRulesOneClock = iota + 1
	// ProbeRulesLastWord: a disruption that nobody waits for hears what was answered
	// over the whole of phase During before it ends.
	ProbeRulesLastWord
	// ProbeRulesNow are those of new disruptions.
	ProbeRulesNow = iota
)

// Operations is what the workflow needs to know of the operations on targets.
type Operations struct {
	// OperatingTimeout is how long each target is waited for until it is given.
	OperatingTimeout time.Duration `json:"operatingTimeout"`
	// AvailableTimeout is how long, once all is clean, targets are waited for to be in
	// service again.
	AvailableTimeout time.Duration `json:"availableTimeout"`
}

// Prepare reads the disruption, keeps its spec for good and says what is to be
// done. Status gets the spec hash (rule 7) and the times here, unless
// SelectTargets is next and can do it. A disruption that is gone, ending or was
// begun by an earlier workflow is cleaned only; so is one that meets an
// emergency stop, which refuses it if it never began.
func (a *Activities) Prepare(ctx context.Context, ref Ref) (Plan, error) {
	plan, err := a.prepare(ctx, ref)
	if err != nil || plan.CleanOnly == "" {
		return plan, err
	}
	begun, err := a.Targets.LoadSpec(ctx, ref)
	if apierrors.IsNotFound(err) {
		return plan, nil
	}
	if err == nil {
		plan.Operations = operationsOf(begun.Spec) // an earlier workflow may have begun some
		a.addPeople(&plan, begun)
	}
	return plan, err
}

// addPeople says who asked for the disruption, and who hears of it.
func (a *Activities) addPeople(plan *Plan, d *v1beta1.Disruption) {
	plan.Requester, plan.Notify = v1beta1.RequesterOf(d).User, a.Notify.Audience(d.Spec.Reporting)
}

func (a *Activities) prepare(ctx context.Context, ref Ref) (Plan, error) {
	// Whether there is a stop is read for sure before anything is injected.
	live, stop, err := a.read(ctx, ref, a.Disruptions.CachedEmergencyStop)
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
	event.Go(func() { // an earlier run has recorded the same one
		a.events().Record(ctx, live, "Created", "workflow "+workflow.ID+" carries the disruption out", "")
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
		return plan, nil // the choice of targets shows it in a moment
	}
	return plan, a.Disruptions.UpdateStatus(ctx, ref, status.ShowPlan(live, carrier(ctx)))
}

// policyRules are the rules of policies that concern the disruption. The watch may be
// behind that of the controller, which signals a change once: a rule that the watch has and
// that is gone would deny targets until the next check, hours later. So if the watch has any
// rule, the newest policies are judged.
func (a *Activities) policyRules(ctx context.Context, d *v1beta1.Disruption) ([]policy.Rule, error) {
	if a.Policies == nil {
		return nil, nil
	}
	now := time.Now()
	rules := policy.Rules(a.Policies.Policies(), d, now)
	if len(rules) == 0 {
		return nil, nil
	}
	live, err := a.Policies.Live(ctx)
	if err != nil {
		return nil, err
	}
	return policy.Rules(live, d, now), nil
}

// rules are those that are about the disruption: of policies, and that of a namespace
// that has not agreed, where it has to, and of safe mode, where it is enforced.
func (a *Activities) rules(ctx context.Context, d *v1beta1.Disruption) ([]policy.Rule, error) {
	rules, err := a.policyRules(ctx, d)
	if err != nil {
		return nil, err
	}
	rules = append(a.SafeMode.rules(d), rules...)
	if !a.OptIn {
		return rules, nil
	}
	namespace, err := a.Kube.CoreV1().Namespaces().Get(ctx, d.Namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read whether namespace %s agrees to disruptions: %w", d.Namespace, err)
	}
	if err != nil || namespace.Labels[v1beta1.LabelDisruptions] != v1beta1.DisruptionsAllowed {
		rules = append([]policy.Rule{policy.NotOptedIn(d.Namespace)}, rules...)
	}
	return rules, nil
}

// lacking is what the disruption needs and the cluster does not give, or a policy
// does not allow: the reason and the words of its refusal, empty if it has all. driver moves pods, empty if
// nobody does.
func (a *Activities) lacking(ctx context.Context, d *v1beta1.Disruption) (driver, reason, why string, err error) {
	rules, err := a.rules(ctx, d)
	if err != nil {
		return "", "", "", err
	}
	if rule := policy.Refusing(rules); rule != nil {
		a.recordDenial(ctx, d, rule.Refusal(), []policy.Rule{*rule})
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
		plan.CreateAt = d.Spec.TimeToInject(d.CreationTimestamp.Time) // no chaos pod waits for it
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

// problems says why the disruption can never be carried out. It is empty for a
// disruption without problems.
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

// refuseFor is the plan of a disruption with problems. One that has a record
// was begun all the same, by a version that did not object, or while the worker
// had more rights: nobody may forget what that has left, so it is cleaned, not
// rejected.
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
	a.events().Warn(ctx, d, reason, why, d.Spec.Hash())
	plan := Plan{Rejected: why, SpecHash: d.Spec.Hash()}
	a.addPeople(&plan, d)
	return plan, a.Disruptions.UpdateStatus(ctx, ref, func(d *v1beta1.Disruption) {
		status.ShowRejected(d, reason, why)
	})
}

// carrier is the workflow that the activity works for.
func carrier(ctx context.Context) v1beta1.WorkflowRef {
	execution := activity.GetInfo(ctx).WorkflowExecution
	return v1beta1.WorkflowRef{ID: execution.ID, RunID: execution.RunID}
}
