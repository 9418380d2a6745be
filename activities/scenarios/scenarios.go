// Package scenarios carries out single steps of DisruptionScenarios. It reads and
// judges the plan, creates the Disruptions of a step, reports how they ended, deletes
// those that still run, and writes the status. The workflow decides what follows.
package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	scenarios       = "disruptionscenarios"
	disruptions     = "disruptions"
	steadyStateLost = "SteadyStateLost"
	// longestMessage fits into status beside some more words.
	longestMessage = 3000
)

// Stops reports whether an EmergencyStop is in force.
type Stops interface {
	EmergencyStop(ctx context.Context) (string, error)
}

// Targets finds the targets that a disruption matches now.
type Targets interface {
	Healthy(ctx context.Context, d *v1beta1.Disruption) ([]targets.Candidate, error)
}

// Events records events of DisruptionScenarios. Two events with the same reason and key
// are stored once.
type Events interface {
	Of(ctx context.Context, kind string, object metav1.Object, eventType, reason, message, key string)
}

// Orchestrator is the part of a Temporal client that shows whether a workflow began.
type Orchestrator interface {
	DescribeWorkflowExecution(ctx context.Context, id, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// Activities has the clients for the activities of a DisruptionScenario. Its methods
// are registered with a Temporal worker under their own names.
type Activities struct {
	// Client reads and writes the resources of Squall.
	Client rest.Interface
	Stops  Stops
	// Targets counts the targets of a step when it begins. nil counts nothing.
	Targets Targets
	Events  Events
	// Temporal has the workflows of disruptions.
	Temporal Orchestrator
	// Notify defines the recipients of notifications.
	Notify notify.Settings
}

// Plan is a DisruptionScenario as it was when its workflow began.
type Plan struct {
	// Gone is why there is nothing to carry out any more.
	Gone string `json:"gone,omitempty"`
	// Rejected lists all that is wrong with the spec.
	Rejected string `json:"rejected,omitempty"`
	// Generation is that of the spec.
	Generation int64  `json:"generation,omitempty"`
	Steps      []Step `json:"steps,omitempty"`
	// Status is the progress of an earlier workflow of the DisruptionScenario.
	Status v1beta1.DisruptionScenarioStatus `json:"status"`
	// Requester is the user who created the DisruptionScenario, if known.
	Requester string `json:"requester,omitempty"`
	// Notify lists the recipients of notifications; nil if there are none.
	Notify *notify.Audience `json:"notify,omitempty"`
	// SteadyState guards the whole run, if it is set. It has its defaults. Its probes have
	// no handlers, because the probe session reads the DisruptionScenario.
	SteadyState *v1beta1.SteadyState `json:"steadyState,omitempty"`
}

// Step is a number of disruptions, a wait and an approval.
type Step struct {
	Name string `json:"name"`
	// Disruptions is how many.
	Disruptions int `json:"disruptions,omitempty"`
	// Continues is true when the next step follows whatever the verdict.
	Continues bool          `json:"continues,omitempty"`
	Wait      time.Duration `json:"wait,omitempty"`
	// Approval is the text for the person who approves.
	Approval string `json:"approval,omitempty"`
	// When is the condition for the step, by the verdict of an earlier one; nil means
	// always.
	When *v1beta1.ScenarioCondition `json:"when,omitempty"`
}

// ReadScenario reads the plan and judges all of it, before anything is created.
func (a *Activities) ReadScenario(ctx context.Context, in contract.ScenarioInput) (Plan, error) {
	s, err := a.get(ctx, in.Scenario)
	if apierrors.IsNotFound(err) {
		return Plan{Gone: "there is no such DisruptionScenario any more"}, nil
	}
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{
		Generation: s.Generation, Status: s.Status, Requester: v1beta1.RequesterOf(s).User,
		Notify: a.Notify.Audience(s.Spec.Reporting), SteadyState: s.Spec.SteadyState.ForWorkflow(),
	}
	s.Default()
	if wrong := s.Validate().ToAggregate(); wrong != nil && len(s.Status.Steps) == 0 {
		plan.Rejected = fmt.Sprintf("%.*s", longestMessage, wrong)
		return plan, nil
	}
	for _, step := range s.Spec.Steps {
		planned := Step{Name: step.Name, Disruptions: len(step.Disruptions), Continues: step.OnFailure == v1beta1.OnFailureContinue, When: step.When}
		if step.Wait != nil {
			planned.Wait = step.Wait.Duration
		}
		if step.Approval != nil {
			planned.Approval = step.Approval.Message
		}
		plan.Steps = append(plan.Steps, planned)
	}
	return plan, nil
}

// ReportInput is the status of a DisruptionScenario.
type ReportInput struct {
	Scenario contract.ScenarioRef             `json:"scenario"`
	Status   v1beta1.DisruptionScenarioStatus `json:"status"`
}

// ReportScenario writes the status, unless it is there. Before that it records an event
// if the DisruptionScenario reached another step or phase. A DisruptionScenario that is
// gone is no error: its events still show how it ended.
func (a *Activities) ReportScenario(ctx context.Context, in ReportInput) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := a.get(ctx, in.Scenario)
		if apierrors.IsNotFound(err) {
			gone := &v1beta1.DisruptionScenario{ObjectMeta: metav1.ObjectMeta{Namespace: in.Scenario.Namespace, Name: in.Scenario.Name, UID: in.Scenario.UID}}
			a.recordEvent(ctx, gone, in.Status)
			return nil
		}
		if err != nil {
			return err
		}
		keepNoted(&in.Status, s.Status)
		in.Status.Conditions = slices.Clone(s.Status.Conditions)
		showReady(&in.Status, s.Generation)
		if equality.Semantic.DeepEqual(s.Status, in.Status) {
			return nil
		}
		a.recordEvent(ctx, s, in.Status)
		s.Status = in.Status
		return a.Client.Put().Namespace(s.Namespace).Resource(scenarios).Name(s.Name).SubResource("status").Body(s).Do(ctx).Error()
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write status of DisruptionScenario %s: %w", in.Scenario, err)
	}
	return nil
}

// recordEvent records an event for a change since the status was written. A retry
// stores it once.
func (a *Activities) recordEvent(ctx context.Context, s *v1beta1.DisruptionScenario, now v1beta1.DisruptionScenarioStatus) {
	reason, eventType := eventOf(s.Status, now)
	if reason == "" {
		return
	}
	message, key := strings.TrimPrefix(now.Step+": "+now.Message, ": "), now.Step
	if reason == steadyStateLost {
		message, key = now.SteadyState.Summary, now.SteadyState.Summary
	}
	a.Events.Of(ctx, v1beta1.KindDisruptionScenario, s, eventType, reason, message, key)
}

// eventOf returns the reason and the type of the event for a change; no reason if
// people need not know of it.
func eventOf(before, now v1beta1.DisruptionScenarioStatus) (reason, eventType string) {
	if before.Phase == now.Phase && before.Step == now.Step {
		if lost(now.SteadyState) > lost(before.SteadyState) {
			return steadyStateLost, corev1.EventTypeWarning
		}
		return "", ""
	}
	switch now.Phase {
	case v1beta1.ScenarioRunning, v1beta1.ScenarioWaiting:
		return "StepBegan", corev1.EventTypeNormal
	case v1beta1.ScenarioSuspended:
		return "ApprovalAwaited", corev1.EventTypeNormal
	case v1beta1.ScenarioStopping:
		return "Stopping", corev1.EventTypeWarning
	case v1beta1.ScenarioRejected:
		return "Rejected", corev1.EventTypeWarning
	case v1beta1.ScenarioFinished:
		if now.Verdict == v1beta1.VerdictPassed {
			return string(now.Verdict), corev1.EventTypeNormal
		}
		return string(now.Verdict), corev1.EventTypeWarning
	}
	return "", ""
}

// lost counts the probes that are known to have failed.
func lost(s *v1beta1.SteadyStateStatus) (n int) {
	if s == nil {
		return 0
	}
	for _, probe := range s.Probes {
		if probe.Verdict == v1beta1.VerdictFailed || probe.Verdict == v1beta1.VerdictAborted {
			n++
		}
	}
	return n
}

// RunsInput are disruptions of a DisruptionScenario.
type RunsInput struct {
	Scenario contract.ScenarioRef  `json:"scenario"`
	Runs     []v1beta1.ScenarioRun `json:"runs"`
}

// SeeRuns returns the disruptions, and of each ended one how it ended. A disruption
// that no longer exists was deleted.
func (a *Activities) SeeRuns(ctx context.Context, in RunsInput) ([]v1beta1.ScenarioRun, error) {
	for i := range in.Runs {
		run := &in.Runs[i]
		if run.Ending != "" {
			continue
		}
		d, err := a.disruption(ctx, in.Scenario, run.Name)
		switch {
		case err != nil:
			return nil, err
		case d == nil || d.UID != run.UID:
			if run.Ending, err = a.endingOfGone(ctx, in.Scenario, *run); err != nil {
				return nil, err
			}
			run.Verdict = v1beta1.VerdictAborted
		case d.Settled():
			run.Ending = d.EndingOfRun()
			run.Verdict = verdictOf(d)
		}
	}
	return in.Runs, nil
}

// endingOfGone is why a disruption ended that no longer exists: it was deleted. Without a
// workflow the run never began.
func (a *Activities) endingOfGone(ctx context.Context, ref contract.ScenarioRef, run v1beta1.ScenarioRun) (string, error) {
	id := contract.WorkflowID(v1beta1.DisruptionRef{Namespace: ref.Namespace, Name: run.Name, UID: run.UID})
	_, err := a.Temporal.DescribeWorkflowExecution(ctx, id, "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return v1beta1.EndingNeverBegan, nil
	}
	if err != nil {
		return "", fmt.Errorf("read workflow %s: %w", id, err)
	}
	return v1beta1.EndingDeleted, nil
}

// verdictOf is the verdict of the probes. Without probes, a disruption that lasted to
// its expiry passed if all of its targets were injected; otherwise it is inconclusive.
func verdictOf(d *v1beta1.Disruption) v1beta1.Verdict {
	switch {
	case d.Status.SteadyState != nil && d.Status.SteadyState.Verdict != "":
		return d.Status.SteadyState.Verdict
	case d.Status.Ending != v1beta1.EndingExpired:
		return v1beta1.VerdictAborted
	case d.Status.InjectionStatus != v1beta1.PreviouslyInjected:
		return v1beta1.VerdictInconclusive
	}
	return v1beta1.VerdictPassed
}

// EndRuns deletes the disruptions that have not ended. Their own workflows clean up.
func (a *Activities) EndRuns(ctx context.Context, in RunsInput) error {
	for _, run := range in.Runs {
		if run.Ending != "" {
			continue
		}
		d, err := a.disruption(ctx, in.Scenario, run.Name)
		if err != nil {
			return err
		}
		if d == nil || d.UID != run.UID || d.Settled() || d.DeletionTimestamp != nil {
			continue
		}
		err = a.Client.Delete().Namespace(d.Namespace).Resource(disruptions).Name(d.Name).
			Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &d.UID}}).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete Disruption %s/%s: %w", d.Namespace, d.Name, err)
		}
	}
	return nil
}

func (a *Activities) get(ctx context.Context, ref contract.ScenarioRef) (*v1beta1.DisruptionScenario, error) {
	return Read(ctx, a.Client, ref)
}

// Read reads a DisruptionScenario, live. Another one of its name counts as not found.
func Read(ctx context.Context, client rest.Interface, ref contract.ScenarioRef) (*v1beta1.DisruptionScenario, error) {
	s := &v1beta1.DisruptionScenario{}
	err := client.Get().Namespace(ref.Namespace).Resource(scenarios).Name(ref.Name).Do(ctx).Into(s)
	if err == nil && s.UID != ref.UID {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: scenarios}, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read DisruptionScenario %s: %w", ref, err)
	}
	return s, nil
}

// disruption reads the Disruption of a name; nil if there is none.
func (a *Activities) disruption(ctx context.Context, ref contract.ScenarioRef, name string) (*v1beta1.Disruption, error) {
	d := &v1beta1.Disruption{}
	err := a.Client.Get().Namespace(ref.Namespace).Resource(disruptions).Name(name).Do(ctx).Into(d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Disruption %s/%s: %w", ref.Namespace, name, err)
	}
	return d, nil
}
