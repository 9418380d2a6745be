package workflows

import (
	"flag"
	"fmt"
	"testing"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

var churned = flag.Int("churned", 90, "how many targets come and go in the test of churn")

// atOnce is how many targets come and go at once, as in an observation of the bridge,
// which sends one in four seconds at most while much changes.
const atOnce = 3

// N4: a target that is replaced costs the same number of events of history, however many
// were replaced before. Real server, real worker.
func TestReplacedTargetsCostTheSameForEver(t *testing.T) {
	s := newStage(t, temporalserver.Shared(t))
	s.plan.Static = false
	s.endedCleans = []clean.Result{{Lost: atOnce}}
	free := true
	s.choose = func(in choose.Input) targets.Selection {
		chosen := targets.Selection{Desired: atOnce, Selected: atOnce, Matching: atOnce}
		if free {
			chosen.Added, chosen.Shards, chosen.Run = []int{0}, max(in.Known, 1), in.Run
			if !in.Fill {
				chosen.Added, chosen.Shards = []int{in.Known}, 0
			}
		}
		free = false
		return chosen
	}
	s.begin()
	s.enters(v1beta1.PhaseHolding)
	cycles := *churned / atOnce
	before, half := s.allEvents(), 0
	for i := range cycles {
		if i == cycles/2 {
			half = s.allEvents()
		}
		s.mu.Lock()
		free = true
		s.mu.Unlock()
		seen := contract.Observation{Hash: fmt.Sprint(i), Ended: atOnce, TargetsLost: atOnce, Candidates: atOnce}
		if i%2 == 0 {
			seen.Shards = []int{0} // else the bridge does not know all of them
		}
		s.signal(contract.SignalObserved, seen)
		s.eventually("the targets are replaced", func() bool {
			state := s.state()
			return state.Runs == i+2 && state.Phase == v1beta1.PhaseHolding && len(state.Unannounced) == 0
		})
	}
	first, second := eventsEach(half-before, cycles/2), eventsEach(s.allEvents()-half, cycles-cycles/2)
	t.Logf("%d targets came and went: %.1f events each in the first half, %.1f in the second", cycles*atOnce, first, second)
	if second > 10 || second > 1.2*first {
		t.Errorf("a replaced target costs %.1f events, and %.1f after %d of them; want at most 10, and no more than a fifth more", first, second, cycles*atOnce/2)
	}
	s.end()
}

func eventsEach(events, cycles int) float64 { return float64(events) / float64(cycles*atOnce) }

// allEvents counts the events of all runs so far.
func (s *stage) allEvents() (n int) {
	s.Helper()
	for run := ""; ; {
		described, err := s.temporal.DescribeWorkflowExecution(s.Context(), s.id, run)
		s.must(err)
		info := described.GetWorkflowExecutionInfo()
		n += int(info.GetHistoryLength())
		first := s.history(info.GetExecution().GetRunId())[0].GetWorkflowExecutionStartedEventAttributes()
		if run = first.GetContinuedExecutionRunId(); run == "" {
			return n
		}
	}
}
