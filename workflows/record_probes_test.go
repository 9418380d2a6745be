package workflows

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/squall-chaos/squall/activities/prepare"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// playedProber is the result of a stage's AskProbes: all is steady, except for these
// fields.
type playedProber struct {
	// closed fails Before.
	closed bool
	// lost fails During once it is closed.
	lost chan struct{}
	// dies stops the first prober of During before its first report.
	dies bool
	// deaf is true for a prober of During that does not end when it is cancelled.
	deaf bool
	// compared is what the prober of During has counted in the end.
	compared *contract.Comparison
}

// guard gives the disruption a probe.
func (s *stage) guard() {
	spec := v1beta1.SteadyState{GateTimeoutSeconds: 5, RecoveryTimeoutSeconds: 60, Probes: []v1beta1.Probe{{Name: "shop", PeriodSeconds: 1}}}.WithDefaults()
	s.plan.SteadyState, s.plan.ProbeRules = &spec, prepare.ProbeRulesNow
	s.prober.lost = make(chan struct{})
}

// known is what the workflow knows of its probes.
func (s *stage) known() string { return fmt.Sprintf("%+v", s.state().Steady) }

// askProbes is AskProbes on a stage: it signals, heartbeats and ends as the real one.
func (s *stage) askProbes(ctx context.Context, in probing.Input) (probing.Result, error) {
	ask, seq := s.prober, int64(0)
	send := func(state v1beta1.ProbeState, text string) []contract.ProbeReport {
		seq++
		reports := []contract.ProbeReport{{Name: "shop", State: state, Answered: true, Text: text, Since: time.Now()}}
		transition := contract.ProbeTransition{Phase: in.Phase, Session: in.Session, Seq: seq, At: time.Now(), Probes: reports}
		_ = activity.GetClient(ctx).SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", contract.SignalProbe, transition)
		return reports
	}
	switch {
	case in.Phase == v1beta1.ProbeBefore && ask.closed:
		send(v1beta1.ProbeFailure, "status 503")
		return probing.Result{}, wait(ctx, nil)
	case in.Phase != v1beta1.ProbeDuring:
		return probing.Result{Probes: []contract.ProbeReport{{Name: "shop", State: v1beta1.ProbeSuccess, Answered: true, Text: "status 200", Since: time.Now()}}}, nil
	}
	reports := send(v1beta1.ProbeSuccess, "status 200")
	if ask.dies && in.Resume == nil {
		activity.RecordHeartbeat(ctx, probing.Snapshot{At: time.Now(), Reports: reports})
		<-s.Context().Done()
		return probing.Result{}, ctx.Err()
	}
	tick, ended := time.NewTicker(beat), ctx.Done()
	defer tick.Stop()
	if ask.deaf {
		ended = s.Context().Done()
	}
	for {
		select {
		case <-ask.lost:
			ask.lost, reports = nil, send(v1beta1.ProbeFailure, "status 503")
		case <-ended:
			reports[0].Comparison = ask.compared
			return probing.Result{Probes: reports}, nil
		case <-tick.C:
			activity.RecordHeartbeat(ctx, probing.Snapshot{At: time.Now(), Reports: reports})
		}
	}
}
