// Package scenario is the workflow that does the steps of a DisruptionScenario one after
// the other.
package scenario

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/notification"
	"github.com/squall-chaos/squall/workflows/prober"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// a names the activities; it is never called.
var a *scenarios.Activities

// Result is what the Temporal UI shows of a scenario that is over.
type Result struct {
	Summary string          `json:"summary"`
	Verdict v1beta1.Verdict `json:"verdict,omitempty"`
}

// steps is the run of a scenario.
type steps struct {
	ref    contract.ScenarioRef
	plan   scenarios.Plan
	status v1beta1.DisruptionScenarioStatus
	// runsChanged is true when a disruption may have ended since the last read.
	runsChanged bool
	// stopped is why no further step is done. ended is true when the running step has to end
	// too.
	stopped string
	ended   bool
	// prober asks the probes of the whole run, and stopGuard ends those of phase During; nil
	// without probes. aborted is true when the probes end the scenario.
	prober    *prober.Prober
	stopGuard workflow.CancelFunc
	aborted   bool
	// writing is held while status is written.
	writing workflow.Mutex
}

// Workflow does the steps of a DisruptionScenario one after the other. Its disruptions
// have workflows of their own, which clean, and need nothing of this one. The workflow
// asks and writes nothing while nothing happens.
func Workflow(ctx workflow.Context, in contract.ScenarioInput) (Result, error) {
	s := &steps{ref: in.Scenario, writing: workflow.NewMutex(ctx)}
	free, _ := workflow.NewDisconnectedContext(ctx) // a cancellation ends the disruptions first
	if err := s.listen(ctx, free); err != nil {
		return Result{}, err
	}
	if err := workflow.ExecuteActivity(flow.RequiredOptions(free, "read the plan and judge it"), a.ReadScenario, in).Get(free, &s.plan); err != nil {
		return Result{}, err
	}
	if s.plan.Gone != "" {
		return Result{Summary: s.plan.Gone}, nil
	}
	s.status = s.plan.Status
	if s.plan.Rejected != "" {
		s.status.Phase, s.status.Message = v1beta1.ScenarioRejected, s.plan.Rejected
		s.notify(free, v1beta1.NotificationError, notification.ReasonRejected, "Nothing is done: "+s.plan.Rejected, 1)
		return Result{Summary: "rejected: " + s.plan.Rejected}, s.report(free)
	}
	if err := s.beginGuard(free); err != nil {
		return Result{}, err
	}
	for i := 0; i < len(s.plan.Steps) && (s.stopped == "" || s.underWay(i)); i++ {
		if err := s.do(free, i); err != nil {
			return Result{}, err
		}
	}
	if err := s.awaitRecovery(free); err != nil {
		return Result{}, err
	}
	return s.finish(free)
}

// underWay is true for a step that an earlier workflow began before it was terminated. A
// stopped scenario still has to end such a step.
func (s *steps) underWay(i int) bool {
	return i < len(s.status.Steps) && (s.status.Steps[i].EndedAt == nil || i+1 < len(s.status.Steps))
}

// do carries out one step.
func (s *steps) do(ctx workflow.Context, i int) error {
	step := s.plan.Steps[i]
	if len(s.status.Steps) == i {
		s.status.Steps = append(s.status.Steps, v1beta1.ScenarioStepStatus{Name: step.Name, StartedAt: now(ctx)})
	}
	at := &s.status.Steps[i]
	if at.EndedAt != nil { // an earlier workflow did it, before it was terminated
		s.judge(step, at)
		return nil
	}
	if !step.When.Met(s.status.Steps) {
		skipped := at.StartedAt
		at.Phase, at.EndedAt = v1beta1.ScenarioSkipped, &skipped
		return nil
	}
	s.status.Step = step.Name
	var err error
	switch {
	case step.Disruptions > 0:
		err = s.disrupt(ctx, i, at)
	case step.Approval != "":
		err = s.suspend(ctx, i, at)
	default:
		err = s.wait(ctx, step, at)
	}
	if err != nil {
		return err
	}
	ended := now(ctx)
	at.Phase, at.EndedAt = v1beta1.ScenarioFinished, &ended
	s.judge(step, at)
	return nil
}

// disrupt begins the disruptions of a step side by side, and waits until all of them have
// ended.
func (s *steps) disrupt(ctx workflow.Context, i int, at *v1beta1.ScenarioStepStatus) error {
	// The step is in status before its first disruption exists: after a termination, the
	// next workflow searches for its disruptions.
	if err := s.enter(ctx, at, v1beta1.ScenarioRunning, "Begins its disruptions."); err != nil {
		return err
	}
	var begun scenarios.BegunStep
	in := scenarios.BeginStepInput{Scenario: s.ref, Generation: s.plan.Generation, Step: i, Known: at.Disruptions, Stopped: s.ended}
	if err := workflow.ExecuteActivity(flow.RequiredOptions(ctx, "begin step "+at.Name), a.BeginStep, in).Get(ctx, &begun); err != nil {
		return err
	}
	at.Disruptions = begun.Runs
	if begun.Stopped != "" { // of a step, all or nothing
		s.end(begun.Stopped)
	}
	if err := s.enter(ctx, at, v1beta1.ScenarioRunning, "Waits until its disruptions are over."); err != nil {
		return err
	}
	for asked := false; ; {
		if s.ended && !asked {
			asked = true
			if err := s.endRuns(ctx, at); err != nil {
				return err
			}
		}
		s.runsChanged = false
		looks := flow.RequiredOptions(ctx, "see which disruptions of "+at.Name+" are over")
		if err := workflow.ExecuteActivity(looks, a.SeeRuns, scenarios.RunsInput{Scenario: s.ref, Runs: at.Disruptions}).Get(ctx, &at.Disruptions); err != nil {
			return err
		}
		if allOver(at.Disruptions) {
			at.Verdict = verdictOf(at.Disruptions, begun.Stopped != "")
			return nil
		}
		if err := workflow.Await(ctx, func() bool { return s.runsChanged || s.ended && !asked }); err != nil {
			return err
		}
	}
}

// endRuns deletes the disruptions of a step that have not ended.
func (s *steps) endRuns(ctx workflow.Context, at *v1beta1.ScenarioStepStatus) error {
	if err := s.enter(ctx, at, v1beta1.ScenarioStopping, "Its disruptions are deleted: "+s.stopped+"."); err != nil {
		return err
	}
	return workflow.ExecuteActivity(flow.RequiredOptions(ctx, "delete the disruptions of "+at.Name), a.EndRuns,
		scenarios.RunsInput{Scenario: s.ref, Runs: at.Disruptions}).Get(ctx, nil)
}

// wait waits for a time that counts from when the step began.
func (s *steps) wait(ctx workflow.Context, step scenarios.Step, at *v1beta1.ScenarioStepStatus) error {
	until := at.StartedAt.Add(step.Wait)
	if err := s.enter(ctx, at, v1beta1.ScenarioWaiting, "Waits until "+flow.Clock(until)+"."); err != nil {
		return err
	}
	if left := until.Sub(workflow.Now(ctx)); left > 0 {
		_, err := flow.AwaitFor(ctx, left, "the wait of step "+step.Name, func() bool { return s.ended })
		return err
	}
	return nil
}

// suspend waits for a person.
func (s *steps) suspend(ctx workflow.Context, i int, at *v1beta1.ScenarioStepStatus) error {
	step := s.plan.Steps[i]
	waits := "Waits for an approval of step " + step.Name + ": " + step.Approval
	if err := s.enter(ctx, at, v1beta1.ScenarioSuspended, waits); err != nil {
		return err
	}
	s.notify(ctx, v1beta1.NotificationWarning, notification.ReasonApproval,
		fmt.Sprintf("%s To approve: squall -n %s approve %s %s", sentenceOf(waits), s.ref.Namespace, s.ref.Name, step.Name), i+1)
	return workflow.Await(ctx, func() bool { return at.ApprovedBy != "" || s.ended })
}

// sentenceOf adds a full stop to a text that has none.
func sentenceOf(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "?") || strings.HasSuffix(text, "!") {
		return text
	}
	return text + "."
}

// end lets no further step begin, and makes the running step end.
func (s *steps) end(why string) {
	s.ended = true
	if s.stopped == "" {
		s.stopped = why
	}
}

// judge stops the scenario after a step that did not pass, unless the step continues.
func (s *steps) judge(step scenarios.Step, at *v1beta1.ScenarioStepStatus) {
	if s.stopped == "" && step.Disruptions > 0 && at.Verdict != v1beta1.VerdictPassed && !step.Continues {
		s.stopped = fmt.Sprintf("step %s is %s, and its onFailure is not Continue", at.Name, at.Verdict)
	}
}

// finish writes the result.
func (s *steps) finish(ctx workflow.Context) (Result, error) {
	s.status.Phase, s.status.Step, s.status.Message = v1beta1.ScenarioFinished, "", "All steps are done."
	if s.stopped != "" {
		s.status.Message = "No further step is done: " + s.stopped + "."
	}
	s.status.Verdict = v1beta1.VerdictPassed
	for _, step := range s.status.Steps {
		s.status.Verdict = steadystate.WorstOf(s.status.Verdict, step.Verdict)
	}
	if s.ended {
		s.status.Verdict = steadystate.WorstOf(s.status.Verdict, v1beta1.VerdictAborted)
	}
	if s.prober != nil {
		s.status.Verdict = steadystate.WorstOf(s.status.Verdict, s.prober.Course.Verdict(s.prober.Spec))
	}
	kind := v1beta1.NotificationCompletion
	if s.status.Verdict != v1beta1.VerdictPassed {
		kind = v1beta1.NotificationWarning
	}
	s.notify(ctx, kind, notification.ReasonFinished, s.status.Message, 1)
	return Result{Summary: s.status.Message, Verdict: s.status.Verdict}, s.report(ctx)
}

// notify starts a notification of a change, if the plan asks for notifications of this
// type. It never fails. A notification with the same nth, which an earlier workflow of
// the scenario started, is not started again. Without recipients, as in every older plan,
// it does nothing, so it needs no version.
func (s *steps) notify(ctx workflow.Context, kind v1beta1.NotificationType, reason, message string, nth int) {
	to := s.plan.Notify.Of(kind)
	if len(to) == 0 {
		return
	}
	ref := v1beta1.DisruptionRef(s.ref)
	id := contract.NotificationID(ref, reason, nth)
	notification.AwaitStart(ctx, notification.Start(ctx, notification.Input{To: to, Notification: notify.Notification{
		ID: id, Object: ref, Kind: v1beta1.KindDisruptionScenario, Type: kind, Reason: reason, Message: message, Time: workflow.Now(ctx),
		Verdict: s.status.Verdict, Purpose: s.plan.Notify.Purpose, Requester: s.plan.Requester,
	}}), id)
}

// enter shows what a step waits for, in its status and on the workflow's page.
func (s *steps) enter(ctx workflow.Context, at *v1beta1.ScenarioStepStatus, phase v1beta1.ScenarioPhase, message string) error {
	at.Phase, s.status.Phase, s.status.Message = phase, phase, message
	return s.report(ctx)
}

func (s *steps) report(ctx workflow.Context) error {
	if err := s.writing.Lock(ctx); err != nil {
		return err
	}
	defer s.writing.Unlock()
	if s.prober != nil {
		steady := s.prober.Course.Status(s.prober.Spec, s.status.Phase.Over(), workflow.Now(ctx))
		s.status.SteadyState = &steady
	}
	workflow.SetCurrentDetails(ctx, s.details())
	in := scenarios.ReportInput{Scenario: s.ref, Status: *s.status.DeepCopy()}
	return workflow.ExecuteActivity(flow.RequiredOptions(ctx, "write status: "+string(s.status.Phase)), a.ReportScenario, in).Get(ctx, nil)
}

func allOver(runs []v1beta1.ScenarioRun) bool {
	for _, run := range runs {
		if run.Ending == "" {
			return false
		}
	}
	return true
}

// verdictOf is the worst verdict of disruptions that have ended.
func verdictOf(runs []v1beta1.ScenarioRun, incomplete bool) v1beta1.Verdict {
	worst := v1beta1.VerdictPassed
	if incomplete {
		worst = v1beta1.VerdictAborted
	}
	for _, run := range runs {
		worst = steadystate.WorstOf(worst, run.Verdict)
	}
	return worst
}

// now is the time of the workflow, in the precision of status.
func now(ctx workflow.Context) metav1.Time {
	return metav1.NewTime(workflow.Now(ctx).UTC().Truncate(time.Second))
}
