package disruption

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// a names the activities; it is never called.
var a activities.Activities

// State is all that a disruption remembers. Its size does not depend on the number of
// targets, so that it can be passed to a new run. The query "status" answers with it.
type State struct {
	Plan  *prepare.Plan `json:"plan,omitempty"`
	Phase v1beta1.Phase `json:"phase"`
	// Ending is why the disruption ends; empty while it lasts.
	Ending   string `json:"ending,omitempty"`
	Progress `json:"progress"`
	Cleaning `json:"cleaning"`
	// Steady is what probes have shown so far; nil without probes, and before they are
	// asked. SkipRecovery is true once a person deleted the disruption or an emergency stop
	// ended it, even if it was already ending for another reason.
	Steady       *steadystate.Course `json:"steady,omitempty"`
	SkipRecovery bool                `json:"hurry,omitempty"`
	Inbox        `json:"inbox"`
	// Operations is the progress of the operations on targets, for a disruption that
	// participates in operations.
	Operations Operations `json:"operations,omitzero"`
	// Resumes are the last 20 decisions of people, the oldest first.
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
	// Notifications counts the notifications sent, by reason.
	Notifications map[string]int `json:"told,omitempty"`
}

// Progress is how far the injection has come.
type Progress struct {
	// Shards counts the shards of targets that were ever chosen.
	Shards int `json:"shards,omitempty"`
	// Targets counts the targets that are disrupted, or will be.
	Targets int `json:"targets,omitempty"`
	// Kept counts the places that are kept for pods with an operation of another operator.
	Kept int `json:"kept,omitempty"`
	// RetryAt is when a target whose injection failed may be chosen again; nil for none.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Runs counts how often targets were chosen and some were found.
	Runs     int  `json:"runs,omitempty"`
	Injected bool `json:"injected,omitempty"`
	// Unannounced are the shards whose targets have no event yet about their injection.
	Unannounced []int `json:"unannounced,omitempty"`
	// UnannouncedRun is the choice of the first of these targets. Targets of earlier choices
	// in the same shards have their events.
	UnannouncedRun int `json:"unannouncedRun,omitempty"`
	// Unproven is true until every injection is known to act.
	Unproven bool `json:"unproven,omitempty"`
	// Lingers is true while the watch of the injection follows later choices of targets.
	Lingers bool `json:"lingers,omitempty"`
	// Services is the Observation.Services that chaos pods were last sent.
	Services string `json:"services,omitempty"`
}

// Cleaning is what is left to clean, and what was tried and decided about it.
type Cleaning struct {
	// Left are the chaos pods that failed to clean, at most 50 of Remaining.
	Left      []chaospod.LeftPod `json:"left,omitempty"`
	Remaining int                `json:"remaining,omitempty"`
	// LeftChanged is true when Left differs from the last report.
	LeftChanged bool `json:"leftChanged,omitempty"`
	// Rounds counts the reports of what is left: each has events of its own.
	Rounds int `json:"rounds,omitempty"`
	// CleanFrom is the first shard that a round of cleaning has left to the next run.
	// EndedFrom is the same for a round while the disruption lasts. 0 starts with the first
	// shard.
	CleanFrom int `json:"cleanFrom,omitempty"`
	EndedFrom int `json:"endedFrom,omitempty"`
	// Retry are the targets whose failed chaos pods are cleaned again.
	Retry []string `json:"retry,omitempty"`
	// Release are the UIDs of the chaos pods that a person releases, clean or not.
	// ReleaseUntil is set when a person released more than Left names: it releases all that
	// had failed by then. ReleasedPods counts the released chaos pods.
	Release      []string   `json:"release,omitempty"`
	ReleaseUntil *time.Time `json:"releaseUntil,omitempty"`
	ReleasedPods int        `json:"releasedPods,omitempty"`
	// ResultLost is true when a CleanChaosPods failed: its list of nodes is lost.
	ResultLost bool `json:"resultLost,omitempty"`
	// UnverifiedNodes are the nodes that still have to be searched after the cleaning.
	// NotVerified lists what that search has found.
	UnverifiedNodes []string `json:"unverifiedNodes,omitempty"`
	NotVerified     []string `json:"notVerified,omitempty"`
	// Effects are what injectors measured before they cleaned, at most 50 of them.
	Effects []chaospod.EffectAtEnd `json:"effects,omitempty"`
}

// Operations is the progress of the operations on targets.
type Operations struct {
	// Asked are the shards with targets whose operation has not begun yet.
	Asked []AskedShard `json:"asked,omitempty"`
	// Again is true when an operation on a pod could not be requested: a retry is due soon.
	Again bool `json:"again,omitempty"`
	// NotInService are pods whose operation has ended and that are not in service.
	NotInService []string `json:"notInService,omitempty"`
	// NotEnded is true when availableTimeout is over and the operation on some pods could
	// not be ended, because the API server refused the patch.
	NotEnded bool `json:"notEnded,omitempty"`
	// Shown is true once phase Cleaning was reported because these pods take their time.
	Shown bool `json:"shown,omitempty"`
}

// AskedShard is a shard whose targets the disruption waits for, and until when.
type AskedShard struct {
	Number int       `json:"number"`
	Until  time.Time `json:"until"`
}

// Inbox holds messages that were received and not acted on yet.
type Inbox struct {
	// Observed is the newest observation.
	Observed *contract.Observation `json:"observed,omitempty"`
	// Decided are accepted resumes, in the order in which they came.
	Decided []Decision `json:"decided,omitempty"`
}

// Decision is an accepted resume, with the chaos pods it is about: those that were left
// when it was accepted. A chaos pod that fails later is not part of it.
type Decision struct {
	contract.Resume
	// Pods are the UIDs of the chaos pods that the decision releases.
	Pods []string `json:"pods,omitempty"`
	// Until is when a decision released more chaos pods than State lists.
	Until *time.Time `json:"until,omitempty"`
}

// disruption is one run of the workflow. Its parts decide and act for one concern each, and
// see the whole.
type disruption struct {
	State
	ref     v1beta1.DisruptionRef
	signals signals
	// stop cancels disturb.
	stop      workflow.CancelFunc
	injection injection
	guard     guard
	rounds    rounds
	notifier  notifier
	// published is the value that the search attributes have now.
	published string
	// newRunDue is true when the history is long enough for a new run.
	newRunDue bool
}

// begin registers the query, the update and the signals before anything else, so that the
// workflow answers from the start.
func begin(ctx workflow.Context, in Input) (*disruption, error) {
	d := &disruption{ref: in.Disruption}
	d.injection.disruption, d.guard.disruption, d.rounds.disruption, d.notifier.disruption = d, d, d, d
	d.Phase = v1beta1.PhasePending
	if in.Carried != nil {
		d.State = *in.Carried
	}
	workflow.SetCurrentDetails(ctx, details(d.ref, d.State))
	return d, d.listen(ctx)
}

// continueAsNew continues in a new run with an empty history. The update's handler never
// waits, so no update is half done now. The handler of an update that arrives in this
// task has already run.
func (d *disruption) continueAsNew(ctx workflow.Context) error {
	d.notifier.awaitStarts(ctx)
	d.signals.drain(ctx, d)
	state := d.State
	state.Injected = d.Injected && (d.injection.stopWatch == nil || d.Lingers) // the watch ends with this run
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowType, Input{Input: contract.Input{Disruption: d.ref}, Carried: &state})
}

// end makes the disruption end. The first reason stays.
func (d *disruption) end(why string) {
	if d.Ending == "" {
		d.Ending = why
	}
	if d.stop != nil {
		d.stop()
	}
}

// fail ends a disruption that cannot continue, so that what is injected is cleaned.
func (d *disruption) fail(ctx workflow.Context, err error) {
	if ctx.Err() == nil && !temporal.IsCanceledError(err) {
		d.end(v1beta1.EndingFailed + flow.Cause(err))
	}
}

// executeLocalFirst runs an activity of a few API calls as a local activity: one event of
// history instead of six. If that fails or takes longer than localTimeout, it runs again
// as an activity with the given options, so that Temporal shows its attempts and its
// error. The local activity is never cancelled half-way.
func (d *disruption) executeLocalFirst(ctx, options workflow.Context, activity, in, out any) error {
	free, _ := workflow.NewDisconnectedContext(ctx)
	if workflow.ExecuteLocalActivity(localOptions(free, options), activity, in).Get(free, out) == nil {
		return nil
	}
	if d.Plan != nil {
		d.publishPhase(ctx, d.Phase)
	}
	return workflow.ExecuteActivity(options, activity, in).Get(ctx, out)
}

// idlePhase is the phase of a disruption that waits for something to happen.
func (s *State) idlePhase() v1beta1.Phase {
	switch {
	case s.waits():
		return v1beta1.PhaseSelecting
	case s.Injected:
		return v1beta1.PhaseHolding
	case s.Shards > 0:
		return v1beta1.PhaseInjecting
	default:
		return v1beta1.PhaseSelecting
	}
}

// forEach runs f for each number, for at most parallelShards of them at once, and waits
// for all.
func forEach(ctx workflow.Context, numbers []int, f func(workflow.Context, int)) {
	slots := workflow.NewSemaphore(ctx, parallelShards)
	together(ctx, numbers, func(ctx workflow.Context, number int) {
		inSlot(ctx, slots, func() { f(ctx, number) })
	})
}

// together runs f for each number at once, and waits for all.
func together(ctx workflow.Context, numbers []int, f func(workflow.Context, int)) {
	all := workflow.NewWaitGroup(ctx)
	for _, number := range numbers {
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			f(ctx, number)
		})
	}
	wait, _ := workflow.NewDisconnectedContext(ctx)
	all.Wait(wait)
}

// inSlot runs f when a slot is free. When ctx is cancelled, f still runs and sees it.
func inSlot(ctx workflow.Context, slots workflow.Semaphore, f func()) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	if err := slots.Acquire(free, 1); err != nil {
		return
	}
	defer slots.Release(1)
	f()
}

// errorType is the type of the application error in err, also of the last one before a
// timeout; empty if there is none.
func errorType(err error) string {
	if application, found := errors.AsType[*temporal.ApplicationError](err); found {
		return application.Type()
	}
	return ""
}

// Result is what the Temporal UI shows of a disruption that is over.
type Result struct {
	Summary      string   `json:"summary"`
	Targets      int      `json:"targets"`
	Kinds        []string `json:"kinds,omitempty"`
	Ending       string   `json:"ending"`
	ReleasedPods int      `json:"releasedPods,omitempty"`
	// NotVerified lists what is left on nodes, and nodes that could not be searched.
	NotVerified []string `json:"notVerified,omitempty"`
	// Decisions list who decided what, and why. The Disruption, whose status has the same
	// list, is often gone by now.
	Decisions []string `json:"decisions,omitempty"`
	// Verdict is the verdict on the steady state; empty without probes.
	Verdict v1beta1.Verdict `json:"verdict,omitempty"`
}

func (s *State) result(ctx workflow.Context) Result {
	r := Result{
		Targets: s.Targets, Kinds: s.Plan.Kinds.Names(), Ending: s.Ending, ReleasedPods: s.ReleasedPods,
		NotVerified: s.NotVerified, Decisions: decisions(s.Resumes),
	}
	switch {
	case s.Plan.Rejected != "":
		r.Ending, r.Summary = "rejected", "nothing was injected: "+s.Plan.Rejected
	case s.waits():
		r.Targets, r.Summary = 0, fmt.Sprintf("nothing was injected, ended (%s)", s.Ending)
	case s.ReleasedPods > 0:
		r.Summary = fmt.Sprintf("%s disrupted, ended (%s); a person released %s that did not clean", flow.Number(s.Targets, "target"), s.Ending, flow.Number(s.ReleasedPods, "chaos pod"))
	case len(s.NotVerified) > 0:
		r.Summary = fmt.Sprintf("%s disrupted, ended (%s); no chaos pod is left, but not every node is known to be clean", flow.Number(s.Targets, "target"), s.Ending)
	default:
		r.Summary = fmt.Sprintf("%s disrupted, ended (%s), nothing is left", flow.Number(s.Targets, "target"), s.Ending)
	}
	if len(s.Operations.NotInService) > 0 {
		r.Summary += ". Not in service: " + strings.Join(s.Operations.NotInService, "; ")
	}
	if steady := s.verdict(ctx); steady != nil {
		r.Verdict = steady.Verdict
		r.Summary += ". Steady state: " + steady.Summary
	}
	return r
}
