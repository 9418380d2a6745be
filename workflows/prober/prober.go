// Package prober runs the probes of a steady state for a workflow: one session of the
// activity AskProbes after the other, phase after phase.
package prober

import (
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/prepare"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// a names the activities; it is never called.
var a *probing.Activities

// Prober runs the probes of a steady state, phase after phase, and receives their
// results.
type Prober struct {
	Spec   v1beta1.SteadyState
	Course *steadystate.Course
	// Rules are the prepare.ProbeRulesNow of the time when the plan was made.
	Rules int
	// Input names the owner of the probes.
	Input probing.Input
	// Lasts is how long phase During may last, at most.
	Lasts func(workflow.Context) time.Duration
	// Changed is called when a result has changed.
	Changed func(workflow.Context)

	finalDue, missed bool
	// clock is how far the clock of the last reporting prober is behind the workflow's.
	clock struct {
		session int
		behind  time.Duration
	}
}

// FinalDue is true while the final result of a prober of During is still to come.
func (p *Prober) FinalDue() bool { return p.finalDue }

// Missed is true once no prober reported for too long.
func (p *Prober) Missed() bool { return p.missed }

// Ask runs the probes of the phase in the background until ctx ends. A prober signals
// each change, and its result is that all succeed. If its worker dies or stops, the next
// prober continues from the last heartbeat (rule P10). The caller does not wait for the
// end of a prober (rule P13).
func (p *Prober) Ask(ctx workflow.Context) {
	phase := p.Course.Phase
	if !p.Spec.Asks(phase) {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		in := p.Input
		in.Phase, in.Began = phase, p.Course.Began
		lastAlive := workflow.Now(ctx) // when a prober was running for sure
		for silent := 0; ctx.Err() == nil; {
			in.Session, in.Lasted = p.Course.Ask(), workflow.Now(ctx).Sub(p.Course.Began)
			if in.Resume != nil {
				in.Idle = workflow.Now(ctx).Sub(lastAlive)
			}
			var result probing.Result
			last := phase == v1beta1.ProbeDuring && p.Rules >= prepare.ProbeRulesFinalAnswers
			p.finalDue = p.finalDue || last
			future := workflow.ExecuteActivity(p.options(ctx, phase, last), a.AskProbes, in)
			if phase == v1beta1.ProbeDuring {
				p.miss(ctx, in.Session, future, lastAlive.Add(blindLimit(p.Spec)))
			}
			err := future.Get(ctx, &result)
			if last {
				p.finalDue = false
				p.Course.CompareAtEnd(result.Probes)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				p.Receive(ctx, contract.ProbeTransition{Phase: phase, Session: in.Session, Seq: math.MaxInt64, Probes: result.Probes})
				return
			}
			workflow.GetLogger(ctx).Warn("who asked the probes ended", "phase", phase, "error", err)
			silent++
			if p.Course.LastSession >= in.Session {
				silent, lastAlive = 0, workflow.Now(ctx)
			}
			if left := probing.SnapshotOf(err); left != nil {
				in.Resume, silent = left, 0
				if beat := p.beatAt(in.Session, left.At, lastAlive); beat.Before(lastAlive) {
					lastAlive = beat
				}
			}
			if silent > 0 && workflow.Sleep(ctx, pause(silent)) != nil {
				return
			}
		}
	})
}

// options are for one activity that asks the probes of a phase.
func (p *Prober) options(ctx workflow.Context, phase v1beta1.ProbePhase, last bool) workflow.Context {
	var lasts time.Duration
	switch phase {
	case v1beta1.ProbeBefore:
		lasts = p.Spec.GateTimeout() + time.Minute
	case v1beta1.ProbeAfter:
		lasts = p.Spec.RecoveryTimeout() + time.Minute
	default:
		lasts = p.Lasts(ctx)
	}
	return sessionOptions(ctx, phase, lasts, last)
}

// beatAt is when a prober gave its last sign of life, by the workflow's clock: the
// prober's clock may be ahead or behind. A prober that never reported adds no later time
// than is known.
func (p *Prober) beatAt(session int, theirs, lastAlive time.Time) time.Time {
	if p.Rules < prepare.ProbeRulesOneClock {
		return theirs
	}
	if p.clock.session != session {
		return lastAlive
	}
	return theirs.Add(p.clock.behind)
}

// miss detects, in the background, that no prober has reported by a moment: no worker
// took the session, or one runs it without any report (rule P11).
func (p *Prober) miss(ctx workflow.Context, session int, over workflow.Future, until time.Time) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		reported := func() bool { return p.Course.LastSession >= session || over.IsReady() }
		known, err := flow.AwaitFor(ctx, max(until.Sub(workflow.Now(ctx)), 0), "wait for a prober of the steady state", reported)
		if err == nil && !known && p.Course.Phase == v1beta1.ProbeDuring {
			p.missed = true
			p.Course.ProberLost(p.Spec)
			p.Changed(ctx)
		}
	})
}

// Receive applies the results of probes. At the first report of a prober it notes how far
// that prober's clock is behind the workflow's.
func (p *Prober) Receive(ctx workflow.Context, transition contract.ProbeTransition) {
	if !transition.At.IsZero() && transition.Session > p.clock.session {
		p.clock.session, p.clock.behind = transition.Session, workflow.Now(ctx).Sub(transition.At)
	}
	if p.Course.Receive(p.Spec, transition) {
		p.Changed(ctx)
	}
}

// blindLimit is how long the probes may be without a prober in phase During: no longer
// than the probe that is the quickest to fail.
func blindLimit(spec v1beta1.SteadyState) time.Duration {
	var limit time.Duration
	for _, probe := range spec.Of(v1beta1.ProbeDuring) {
		if one := contract.BlindLimit(probe); limit == 0 || one < limit {
			limit = one
		}
	}
	return limit
}

// sessionOptions are for one activity that asks the probes of a phase. The next one
// receives the last heartbeat. The workflow does not wait for a cancelled one, unless it
// needs its final result.
func sessionOptions(ctx workflow.Context, phase v1beta1.ProbePhase, lasts time.Duration, last bool) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.ProbeTaskQueue,
		ScheduleToCloseTimeout: lasts,
		HeartbeatTimeout:       contract.ProbeHeartbeatTimeout,
		WaitForCancellation:    last,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                "ask the probes of phase " + string(phase),
	})
}

// pause is how long to wait before the next prober starts after so many silent ones
// in a row: each costs events of history.
func pause(silent int) time.Duration {
	return min(time.Second<<min(silent-1, 9), 5*time.Minute)
}
