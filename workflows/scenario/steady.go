package scenario

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/prepare"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/notification"
	"github.com/squall-chaos/squall/workflows/prober"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// This file has the steady state of a whole scenario: probes that let its first step
// begin, end what runs, and judge it. No older plan has one, and without one nothing here
// does anything: it needs no version.

// longestScenario is how long the probes of phase During are asked at most. Nothing else
// bounds the time a person takes to approve.
const longestScenario = 366 * 24 * time.Hour

// beginGuard waits until the probes of phase Before succeed, and then until a prober asks
// those of phase During. It skips the wait for Before if an earlier workflow began the
// scenario.
func (s *steps) beginGuard(ctx workflow.Context) error {
	if s.plan.SteadyState == nil {
		return nil
	}
	s.prober = &prober.Prober{
		Spec: *s.plan.SteadyState, Course: &steadystate.Course{}, Rules: prepare.ProbeRulesOneClock,
		Input: probing.Input{Scenario: &s.ref},
		Lasts: func(workflow.Context) time.Duration { return longestScenario }, Changed: s.steadyStateChanged,
	}
	course, spec := s.prober.Course, s.prober.Spec
	if len(s.status.Steps) == 0 {
		if err := s.passGate(ctx); err != nil || s.stopped != "" {
			return err
		}
	}
	course.Begin(spec, v1beta1.ProbeDuring, workflow.Now(ctx))
	guarding, stop := workflow.WithCancel(ctx)
	s.stopGuard = stop
	s.prober.Ask(guarding)
	return workflow.Await(ctx, func() bool { return course.Asking(spec) || s.prober.Missed() || s.ended })
}

// passGate waits until the probes let the first step begin. If they do not succeed in
// time, no step begins.
func (s *steps) passGate(ctx workflow.Context) error {
	course, spec := s.prober.Course, s.prober.Spec
	open, err := s.awaitPhase(ctx, v1beta1.ProbeBefore, spec.GateTimeout(), "the steady state: no step begins before the probes succeed")
	if err == nil && !open && !s.ended {
		s.stopped = v1beta1.EndingNotSteady + course.WhyClosed(spec)
	}
	return err
}

// awaitRecovery ends phase During, and waits until the probes of phase After succeed, or
// their time is over. It does not wait if no disruption began, or if a person ended the
// scenario.
func (s *steps) awaitRecovery(ctx workflow.Context) error {
	if s.stopGuard == nil {
		return nil
	}
	course, spec := s.prober.Course, s.prober.Spec
	s.stopGuard()
	course.End(spec, false)
	course.Injected = s.disturbed() || s.stopped == ""
	if !s.disturbed() || s.skipsRecovery() {
		return nil
	}
	_, err := s.awaitPhase(ctx, v1beta1.ProbeAfter, spec.RecoveryTimeout(), "the steady state: is it back?")
	return err
}

// awaitPhase asks the probes of a phase until all of them succeed, their time is over, or
// a person ends the scenario.
func (s *steps) awaitPhase(ctx workflow.Context, phase v1beta1.ProbePhase, patience time.Duration, summary string) (reached bool, err error) {
	course, spec := s.prober.Course, s.prober.Spec
	course.Begin(spec, phase, workflow.Now(ctx))
	if !spec.Asks(phase) {
		course.End(spec, true)
		return true, nil
	}
	s.status.Phase, s.status.Step, s.status.Message = v1beta1.ScenarioRunning, "", course.Summary(spec, false)
	if err := s.report(ctx); err != nil {
		return false, err
	}
	asking, stop := workflow.WithCancel(ctx)
	defer stop()
	s.prober.Ask(asking)
	if _, err := flow.AwaitFor(ctx, patience, summary, func() bool { return course.Reached(spec) || s.skipsRecovery() }); err != nil {
		return false, err
	}
	reached = course.Reached(spec)
	course.End(spec, !s.skipsRecovery())
	return reached, nil
}

// skipsRecovery is true when a person, and not a probe, ended the scenario.
func (s *steps) skipsRecovery() bool { return s.ended && !s.aborted }

// disturbed is true once a disruption began.
func (s *steps) disturbed() bool {
	return slices.ContainsFunc(s.status.Steps, func(at v1beta1.ScenarioStepStatus) bool { return len(at.Disruptions) > 0 })
}

// steadyStateChanged ends a scenario that a probe aborts. If the scenario continues, it
// notifies of a lost steady state.
func (s *steps) steadyStateChanged(ctx workflow.Context) {
	course, spec := s.prober.Course, s.prober.Spec
	workflow.SetCurrentDetails(ctx, s.details())
	if why := course.WhyAborted(spec); why != "" && !s.ended {
		s.aborted = true
		s.end(v1beta1.EndingAborted + why)
	}
	finding, sentence := course.Worst(spec)
	if finding == course.Notified {
		return
	}
	course.Notified = finding
	nth := map[steadystate.Worst]int{steadystate.BlindRecorded: 1, steadystate.LostRecorded: 2}[finding]
	if nth == 0 {
		return // the end is notified
	}
	s.notify(ctx, v1beta1.NotificationWarning, notification.ReasonUnsteady, sentence, nth)
	free, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(free, func(ctx workflow.Context) {
		if err := s.report(ctx); err != nil {
			workflow.GetLogger(ctx).Warn("status not written", "error", err)
		}
	})
}
