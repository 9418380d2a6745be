package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// a names the activities; it is never called.
var a *activities.Activities

// State is all a disruption remembers. It is small whatever the number of
// targets, so that a new run can carry it on.
type State struct {
	Plan    *activities.Plan `json:"plan,omitempty"`
	Phase   v1beta1.Phase    `json:"phase"`
	Shards  int              `json:"shards"`
	Targets int              `json:"targets"`
	Runs    int              `json:"runs"`
	// Untold are the shards whose targets were not told that they are disrupted.
	Untold   []int `json:"untold,omitempty"`
	Injected bool  `json:"injected,omitempty"`
	// Ending says why the disruption ends; empty while it goes on.
	Ending string `json:"ending,omitempty"`
	// Observed and Decided came in and are not dealt with yet.
	Observed *contract.Observation `json:"observed,omitempty"`
	Decided  []contract.Resume     `json:"decided,omitempty"`
	// Left are the chaos pods that failed to clean, at most 50 of Remaining.
	Left      []activities.LeftPod `json:"left,omitempty"`
	Remaining int                  `json:"remaining,omitempty"`
	Rounds    int                  `json:"rounds,omitempty"`
	// News is true when what is left is not what was told last.
	News bool `json:"news,omitempty"`
	// Tries counts how often a fresh cleaner has tried in vain what is left.
	Tries int `json:"tries,omitempty"`
	// Retry are the targets whose failed chaos pods are cleaned again.
	Retry []string `json:"retry,omitempty"`
	// Unproved are the nodes that nobody has searched after the cleaning.
	Unproved []string `json:"unproved,omitempty"`
	// Doubted is true when a cleaning was lost, and with it what it knew of nodes.
	Doubted bool `json:"doubted,omitempty"`
	// NotVerified lists what a search has found there.
	NotVerified []string `json:"notVerified,omitempty"`
	// Release are the targets a person let go.
	Release []string               `json:"release,omitempty"`
	LetGo   int                    `json:"letGo,omitempty"`
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
}

// disruption is one run of the workflow.
type disruption struct {
	State
	ref        v1beta1.DisruptionRef
	stop       workflow.CancelFunc
	stopWatch  workflow.CancelFunc
	everywhere bool
	// retried is true when the last sweep ran cleaners.
	retried bool
	// shown is what the search attributes say.
	shown string
	// renews is true when the history is long enough for a new run.
	renews bool
	inbox  inbox
}

// begin registers what the disruption can be asked and told, before anything
// else, so that it can be asked whatever happens.
func begin(ctx workflow.Context, in Input) (*disruption, error) {
	d := &disruption{ref: in.Disruption}
	d.Phase = v1beta1.PhasePending
	if in.Carried != nil {
		d.State = *in.Carried
	}
	workflow.SetCurrentDetails(ctx, details(d.ref, d.State))
	return d, d.listen(ctx)
}

// again continues in a new run with an empty history. The update's handler
// never waits, so none is half done now; one that comes in this very task was
// handled before.
func (d *disruption) again(ctx workflow.Context) error {
	d.inbox.drain(ctx, d)
	state := d.State
	state.Injected = d.Injected && d.stopWatch == nil // the watch ends with this run
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowType, Input{Input: contract.Input{Disruption: d.ref}, Carried: &state})
}

// end makes the disruption end, for the first reason given.
func (d *disruption) end(why string) {
	if d.Ending == "" {
		d.Ending = why
	}
	if d.stop != nil {
		d.stop()
	}
}

// fail ends a disruption that cannot go on, so that what is injected is cleaned.
func (d *disruption) fail(ctx workflow.Context, err error) {
	if ctx.Err() == nil && !temporal.IsCanceledError(err) {
		d.end("failed: " + cause(err))
	}
}

// soon carries out an activity of a few API calls within the workflow's own
// task: that costs Temporal one event instead of six. Should it fail, or take
// longer than promptly, it is done again with the given options, where
// everybody sees it, its attempts and its error. It is never cancelled half-way.
func (d *disruption) soon(ctx, visibly workflow.Context, activity, in, out any) error {
	free, _ := workflow.NewDisconnectedContext(ctx)
	if workflow.ExecuteLocalActivity(prompt(free, visibly), activity, in).Get(free, out) == nil {
		return nil
	}
	if d.Plan != nil {
		d.enter(ctx, d.Phase)
	}
	return workflow.ExecuteActivity(visibly, activity, in).Get(ctx, out)
}

// resting is the phase of a disruption that has nothing to do.
func (d *disruption) resting() v1beta1.Phase {
	switch {
	case d.Injected:
		return v1beta1.PhaseHolding
	case d.Shards > 0:
		return v1beta1.PhaseInjecting
	default:
		return v1beta1.PhaseSelecting
	}
}

// forEach runs f for several numbers at once, window at most, and waits for all.
func (d *disruption) forEach(ctx workflow.Context, numbers []int, f func(workflow.Context, int)) {
	slots := workflow.NewSemaphore(ctx, window)
	all := workflow.NewWaitGroup(ctx)
	for _, number := range numbers {
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			free, _ := workflow.NewDisconnectedContext(ctx) // a cancelled f still ends by itself
			if err := slots.Acquire(free, 1); err != nil {
				return
			}
			defer slots.Release(1)
			f(ctx, number)
		})
	}
	wait, _ := workflow.NewDisconnectedContext(ctx)
	all.Wait(wait)
}

// awaitFor waits until the condition holds, told is true, or the time is over.
// Its timer ends with it: one that was left would fire hours later for nothing.
func awaitFor(ctx workflow.Context, t time.Duration, summary string, condition func() bool) (told bool, err error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout: t, TimerOptions: workflow.TimerOptions{Summary: summary},
	}, condition)
}

// cause is the innermost message of an error, without Temporal's wrapping.
func cause(err error) string {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.Unwrap() != nil {
		return cause(timeout.Unwrap())
	}
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		return application.Message()
	}
	return err.Error()
}

// Result is what the Temporal UI shows of a disruption that is over.
type Result struct {
	Summary string   `json:"summary"`
	Targets int      `json:"targets"`
	Kinds   []string `json:"kinds,omitempty"`
	Ending  string   `json:"ending"`
	LetGo   int      `json:"letGo,omitempty"`
	// NotVerified lists what is left on nodes, or could not be looked at.
	NotVerified []string `json:"notVerified,omitempty"`
	// Decisions say who decided what and why: the Disruption, whose status says
	// it too, is often gone by now.
	Decisions []string `json:"decisions,omitempty"`
}

func (d *disruption) result(ctx workflow.Context) Result {
	r := Result{
		Targets: d.Targets, Kinds: d.Plan.Kinds.Names(), Ending: d.Ending, LetGo: d.LetGo,
		NotVerified: d.NotVerified, Decisions: decisions(d.Resumes),
	}
	switch {
	case d.Plan.Rejected != "":
		r.Ending, r.Summary = "rejected", "nothing was injected: "+d.Plan.Rejected
	case d.LetGo > 0:
		r.Summary = fmt.Sprintf("%s disrupted, ended (%s); a person released %s that did not clean", number(d.Targets, "target"), d.Ending, number(d.LetGo, "chaos pod"))
	case len(d.NotVerified) > 0:
		r.Summary = fmt.Sprintf("%s disrupted, ended (%s); no chaos pod is left, but not every node is known to be clean", number(d.Targets, "target"), d.Ending)
	default:
		r.Summary = fmt.Sprintf("%s disrupted, ended (%s), nothing is left", number(d.Targets, "target"), d.Ending)
	}
	return r
}
