package workflows

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/start"
)

// Phase by phase, the page in Temporal is right, as the real server returns it (rule T2).
func TestEveryPhaseHasAPage(t *testing.T) {
	server := temporalserver.Shared(t)
	t.Run("from the trigger to a release", func(t *testing.T) { throughEveryPhase(newStage(t, server)) })
	t.Run("a spec that can never run", func(t *testing.T) {
		s := newStage(t, server)
		s.plan.Rejected = "count: must be positive"
		s.begin()
		if result := s.result(); result.Summary != "nothing was injected: count: must be positive" {
			t.Errorf("result = %+v", result)
		}
		s.sees(v1beta1.PhaseRejected, "Refused: count: must be positive")
	})
	t.Run("a terminated workflow's successor", func(t *testing.T) {
		s := newStage(t, server)
		s.plan = prepare.Plan{CleanOnly: "an earlier workflow began it"}
		let := s.hold()
		s.begin()
		s.enters(v1beta1.PhaseCleaning)
		s.sees(v1beta1.PhaseCleaning, "Cleaning up: an earlier workflow began it.")
		let()
		s.result()
		s.sees(v1beta1.PhaseFinished, "Over. Ending: an earlier workflow began it. Nothing is left.")
	})
}

func throughEveryPhase(s *stage) {
	expires := flow.Clock(s.plan.ExpireAt)
	s.plan.CreateAt = time.Now().Add(30 * time.Minute)
	s.startHeld.Store(true)
	s.found, s.injected = make(chan struct{}), make(chan struct{})
	s.endedCleans, s.cleans = []clean.Result{stuckPods}, []clean.Result{stuckPods, {}}
	s.begin()
	s.eventually("the spec is read", func() bool { return s.state().Plan != nil })
	s.sees(v1beta1.PhasePending, "Nothing is injected before "+flow.Clock(s.plan.CreateAt))
	s.signal(signalStart, nil)
	s.enters(v1beta1.PhaseSelecting)
	s.sees(v1beta1.PhaseSelecting, "Choosing targets. While none match it waits for some, until "+expires)
	close(s.found)
	s.enters(v1beta1.PhaseInjecting)
	s.sees(v1beta1.PhaseInjecting, "Injecting 2 targets, to be disrupted until "+expires)
	close(s.injected)
	s.enters(v1beta1.PhaseHolding)
	s.sees(v1beta1.PhaseHolding, "Disrupting 2 targets until "+expires)
	s.signal(contract.SignalObserved, contract.Observation{Hash: "1", Ended: 1})
	s.eventually("cleaners failed too", func() bool { return s.cleanersFailed() })
	s.sees(v1beta1.PhaseHolding, "- web-1 on node n1, chaos pod `chaos-1`: `qdisc busy`", `"action": "retry"`)
	let := s.hold()
	s.signal(contract.SignalEnd, nil)
	s.enters(v1beta1.PhaseCleaning)
	s.sees(v1beta1.PhaseCleaning, "Cleaning up: deleted.")
	let()
	s.enters(v1beta1.PhaseStuck)
	s.sees(v1beta1.PhaseStuck, "**Not clean: 1 chaos pod.**", "every 10 minutes", `"targets": ["web-1"]`)
	s.refusesBadResumes()
	if answer, err := s.resume(contract.Resume{Action: "release", By: "ann", Reason: "scrap"}); err != nil || answer != "releasing web-1" {
		s.Errorf("release = %q, %v", answer, err)
	}
	want := disruption.Result{
		Summary: "2 targets disrupted, ended (deleted); a person released 1 chaos pod that did not clean",
		Targets: 2, Kinds: []string{"cpu-pressure"}, Ending: "deleted", ReleasedPods: 1, Decisions: []string{"release web-1 by ann: scrap"},
	}
	if diff := cmp.Diff(want, s.result()); diff != "" {
		s.Errorf("result (-want +got):\n%s", diff)
	}
	s.sees(v1beta1.PhaseFinished, "Over. Ending: deleted. Released by a person without being clean: 1 chaos pod.", "- `release web-1 by ann: scrap`")
	wantSummaries(s.T, s.history(""))
}

// cleanersFailed is true once fresh cleaners failed too, as often as Squall starts any.
func (s *stage) cleanersFailed() bool {
	return slices.ContainsFunc(s.state().Left, func(pod chaospod.LeftPod) bool { return pod.Tries == 3 })
}

// refusesBadResumes: a stuck disruption refuses senseless resumes, with the reason, and
// none of it gets into the history: so nothing can have been carried out or written.
func (s *stage) refusesBadResumes() {
	s.Helper()
	before := s.atRest()
	for _, c := range []struct {
		resume contract.Resume
		want   string
	}{
		{contract.Resume{}, `action must be "retry" or "release", got ""`},
		{contract.Resume{Action: "skip"}, `action must be "retry" or "release", got "skip"`},
		{contract.Resume{Action: "retry", Targets: []string{"web-9"}}, `target "web-9" is not stuck; stuck are: web-1`},
		{contract.Resume{Action: "release", By: "ann"}, `it needs "by" (who decides) and "reason" (why)`},
		{contract.Resume{Action: "release", Reason: "scrap"}, `it needs "by" (who decides) and "reason" (why)`},
		{contract.Resume{Action: "release", By: " ", Reason: "\t"}, `it needs "by" (who decides) and "reason" (why)`},
	} {
		if _, err := s.resume(c.resume); err == nil || !strings.Contains(err.Error(), c.want) {
			s.Errorf("resume %+v = %v, want %q", c.resume, err, c.want)
		}
	}
	s.wantNothingSince(before)
}

// A disruption that is not stuck refuses every resume, and writes nothing.
func TestResumeOfADisruptionThatIsNotStuck(t *testing.T) {
	s := newStage(t, temporalserver.Shared(t))
	s.begin()
	s.enters(v1beta1.PhaseHolding)
	before := s.atRest()
	if _, err := s.resume(contract.Resume{Action: "retry"}); err == nil || !strings.Contains(err.Error(), "the disruption is not stuck: there is nothing to resume") {
		t.Errorf("resume = %v, want it refused", err)
	}
	s.wantNothingSince(before)
}

// Temporal does not pass a workflow's summary and details on to a new run. The page has
// their content, so that a reader need not find another run.
func TestNewRunShowsItsPageToo(t *testing.T) {
	s := newStage(t, temporalserver.Shared(t))
	first := s.lastTaskOfARun()
	s.decide()
	s.carried(first)
	s.eventually("cleaners failed too", func() bool { return s.cleanersFailed() })
	s.sees(v1beta1.PhaseHolding, "Disrupting 2 targets", "Faults: cpu-pressure.", "kubectl -n shop describe disruption calm", "qdisc busy")
	attributes := s.described().TypedSearchAttributes
	if stuck, _ := attributes.GetBool(start.AttributeStuck); !stuck {
		t.Errorf("search attributes of the new run = %v, want SquallStuck", attributes)
	}
}

// sees reads the workflow's page as the web interface does.
func (s *stage) sees(phase v1beta1.Phase, texts ...string) {
	s.Helper()
	answer, err := s.temporal.QueryWorkflow(s.Context(), s.id, "", "__temporal_workflow_metadata")
	s.must(err)
	var page sdk.WorkflowMetadata
	s.must(answer.Get(&page))
	for _, text := range append(texts, fmt.Sprintf("## %s: shop/calm", phase)) {
		if !strings.Contains(page.CurrentDetails, text) {
			s.Errorf("in phase %s a person reads:\n%s\nwant %q in it", phase, page.CurrentDetails, text)
		}
	}
	s.wantHandlers(page.Definition)
	s.wantAttributes(phase)
}

// wantHandlers: each message that a person can send has a description of its effect. The
// ones of resume also show their JSON.
func (s *stage) wantHandlers(d *sdk.WorkflowDefinition) {
	s.Helper()
	described := map[string]string{}
	for kind, all := range map[string][]*sdk.WorkflowInteractionDefinition{
		"query": d.GetQueryDefinitions(), "signal": d.GetSignalDefinitions(), "update": d.GetUpdateDefinitions(),
	} {
		for _, one := range all {
			described[kind+" "+one.Name] = one.Description
		}
	}
	for _, name := range []string{"query status", "signal observed", "signal end", "signal resume", "update resume"} {
		switch text := described[name]; {
		case text == "":
			s.Errorf("%s has no description; there are %v", name, described)
		case strings.HasSuffix(name, "resume") && !strings.Contains(text, `{"action":"retry"}`):
			s.Errorf("%s does not show what to send: %s", name, text)
		}
	}
}

func (s *stage) wantAttributes(phase v1beta1.Phase) {
	s.Helper()
	if phase == v1beta1.PhasePending {
		return // the bridge set them
	}
	attributes := s.described().TypedSearchAttributes
	if shown, _ := attributes.GetKeyword(start.AttributePhase); shown != string(phase) {
		s.Errorf("SquallPhase = %q, want %s", shown, phase)
	}
	if stuck, set := attributes.GetBool(start.AttributeStuck); !set || stuck != (len(s.state().Left) > 0) {
		s.Errorf("in phase %s SquallStuck = %t", phase, stuck)
	}
	if targets, set := attributes.GetInt64(start.AttributeTargets); !set || targets != int64(s.state().Targets) {
		s.Errorf("in phase %s SquallTargets = %d", phase, targets)
	}
}

func (s *stage) described() *client.WorkflowExecutionDescription {
	s.Helper()
	description, err := s.temporal.DescribeWorkflow(s.Context(), s.id, "")
	s.must(err)
	return description
}

// Every step of recorded disruptions has a summary in words.
func TestEveryRecordedStepHasASummary(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d histories, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			wantSummaries(t, readHistory(t, file).Events)
		})
	}
}

// wantSummaries: the workflow, every activity and every timer have a summary, and no
// summary is a long payload.
func wantSummaries(t *testing.T, events []*history.HistoryEvent) {
	t.Helper()
	for _, event := range events {
		if size := proto.Size(event); size > 4<<10 {
			t.Errorf("event %d, %s, has %d bytes", event.EventId, event.EventType, size)
		}
		if event.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
			continue // Temporal does not pass the summary on: see TestNewRunShowsItsPageToo
		}
		switch event.EventType {
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_TIMER_STARTED:
			var summary string
			err := converter.GetDefaultDataConverter().FromPayload(event.GetUserMetadata().GetSummary(), &summary)
			if err != nil || len(summary) < 10 {
				t.Errorf("event %d, %s, has the summary %q, %v", event.EventId, event.EventType, summary, err)
			}
		}
	}
}
