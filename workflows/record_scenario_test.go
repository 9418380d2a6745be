package workflows

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/scenario"
	"github.com/squall-chaos/squall/workflows/start"
)

// playedScenario answers the activities of a scenario on a stage.
type playedScenario struct {
	steps []scenarios.Step
	// guarded is true for one with a probe of the whole run.
	guarded bool
	// refused is why no disruption can be created.
	refused string
	// begun are the names of the disruptions that were created, over how some of them ended.
	begun []string
	over  map[string]v1beta1.ScenarioRun
	last  v1beta1.DisruptionScenarioStatus
}

// runsOfScenarios takes every path of a scenario, on a real Temporal.
func runsOfScenarios(s *stage) {
	passed, failed := []v1beta1.Verdict{v1beta1.VerdictPassed}, []v1beta1.Verdict{v1beta1.VerdictFailed}
	// A step that waits reports first: if that takes longer than the wait, there is no
	// timer.
	s.perform("scenario-branched", playedScenario{steps: []scenarios.Step{
		{Name: "a", Disruptions: 2, Continues: true}, {Name: "rest", Wait: 10 * time.Second}, {Name: "look", Approval: "is the shop open?"},
		{Name: "b", Disruptions: 1, When: &v1beta1.ScenarioCondition{Step: "a", Verdict: failed}},
		{Name: "c", Disruptions: 1, When: &v1beta1.ScenarioCondition{Step: "a", Verdict: passed}},
	}}, func() {
		s.settle("a1", v1beta1.VerdictPassed)
		s.settle("a2", v1beta1.VerdictFailed)
		s.eventually("it waits for a person", func() bool { return s.performed().Phase == v1beta1.ScenarioSuspended })
		handle, err := s.temporal.UpdateWorkflow(s.Context(), client.UpdateWorkflowOptions{
			WorkflowID: s.id, UpdateName: contract.UpdateApprove, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{contract.Approval{Step: "look", By: "ann"}},
		})
		s.must(err)
		s.must(handle.Get(s.Context(), nil))
		s.settle("b1", v1beta1.VerdictPassed)
	}, v1beta1.VerdictFailed)
	s.perform("scenario-stopped", playedScenario{steps: []scenarios.Step{{Name: "a", Disruptions: 1}, {Name: "b", Disruptions: 1}}}, func() {
		s.eventually("it begins", func() bool { return s.hasBegun("a1") })
		s.signal(contract.SignalEnd, contract.End{Reason: "the sale begins"})
	}, v1beta1.VerdictAborted)
	s.perform("scenario-refused", playedScenario{steps: []scenarios.Step{{Name: "a", Disruptions: 1}}, refused: "no such right"}, func() {}, v1beta1.VerdictAborted)
	s.prober = playedProber{lost: make(chan struct{})}
	s.perform("scenario-lost", playedScenario{guarded: true, steps: []scenarios.Step{{Name: "a", Disruptions: 1}, {Name: "b", Disruptions: 1}}}, func() {
		s.eventually("it begins", func() bool { return s.hasBegun("a1") })
		close(s.prober.lost)
		s.eventually("its disruption is deleted", func() bool { return s.performed().Phase == v1beta1.ScenarioStopping })
		s.signal(contract.SignalSettled, nil)
	}, v1beta1.VerdictAborted)
}

// perform carries out a scenario to its end, and keeps its history.
func (s *stage) perform(name string, played playedScenario, meanwhile func(), want v1beta1.Verdict) {
	s.Helper()
	played.over = map[string]v1beta1.ScenarioRun{}
	s.mu.Lock()
	s.scenario = played
	s.mu.Unlock()
	ref := contract.ScenarioRef{Namespace: "shop", Name: name, UID: "s1"}
	s.id = contract.ScenarioWorkflowID(ref)
	s.must(start.Scenario(s.Context(), s.temporal, ref))
	meanwhile()
	var result scenario.Result
	s.must(s.temporal.GetWorkflow(s.Context(), s.id, "").Get(s.Context(), &result))
	if result.Verdict != want {
		s.Errorf("%s: %+v, want %s", name, result, want)
	}
	s.must(start.Scenario(s.Context(), s.temporal, ref)) // it is not begun again
	s.keep(name, "")
}

// settle ends a disruption once it has begun, and signals that to the workflow.
func (s *stage) settle(name string, verdict v1beta1.Verdict) {
	s.Helper()
	s.eventually(name+" begins", func() bool { return s.hasBegun(name) })
	s.mu.Lock()
	s.scenario.over[name] = v1beta1.ScenarioRun{Ending: v1beta1.EndingExpired, Verdict: verdict}
	s.mu.Unlock()
	s.signal(contract.SignalSettled, nil)
}

func (s *stage) hasBegun(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.scenario.begun, name)
}

func (s *stage) performed() v1beta1.DisruptionScenarioStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scenario.last
}

func (s *stage) readScenario(context.Context, contract.ScenarioInput) (scenarios.Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := scenarios.Plan{Generation: 1, Steps: s.scenario.steps}
	if s.scenario.guarded {
		plan.SteadyState = (&v1beta1.SteadyState{Probes: []v1beta1.Probe{{Name: "shop", PeriodSeconds: 1}}}).ForWorkflow()
	}
	return plan, nil
}

func (s *stage) reportScenario(_ context.Context, in scenarios.ReportInput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scenario.last = in.Status
	return nil
}

func (s *stage) beginStep(_ context.Context, in scenarios.BeginStepInput) (scenarios.BegunStep, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := scenarios.BegunStep{Stopped: s.scenario.refused}
	for i := 0; begun.Stopped == "" && i < s.scenario.steps[in.Step].Disruptions; i++ {
		name := fmt.Sprint(s.scenario.steps[in.Step].Name, i+1)
		s.scenario.begun = append(s.scenario.begun, name)
		begun.Runs = append(begun.Runs, v1beta1.ScenarioRun{Name: name, UID: "u"})
	}
	return begun, nil
}

func (s *stage) seeRuns(_ context.Context, in scenarios.RunsInput) ([]v1beta1.ScenarioRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, run := range in.Runs {
		in.Runs[i].Ending, in.Runs[i].Verdict = s.scenario.over[run.Name].Ending, s.scenario.over[run.Name].Verdict
	}
	return in.Runs, nil
}

func (s *stage) endRuns(_ context.Context, in scenarios.RunsInput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range in.Runs {
		s.scenario.over[run.Name] = v1beta1.ScenarioRun{Ending: v1beta1.EndingDeleted, Verdict: v1beta1.VerdictAborted}
	}
	return nil
}
