package workflows

import (
	"math"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/prepare"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// prober runs the probes of a steady state, phase after phase, and receives their
// results.
type prober struct {
	spec   v1beta1.SteadyState
	course *steadystate.Course
	// rules are the prepare.ProbeRulesNow of the time when the plan was made.
	rules int
	// input names the owner of the probes.
	input probing.Input
	// lasts is how long phase During may last, at most.
	lasts func(workflow.Context) time.Duration
	// changed is called when a result has changed.
	changed func(workflow.Context)
	// lastWord is true while the final result of a prober of During is still to come.
	lastWord bool
	// missed is true once no prober reported for too long.
	missed bool
	// clock is how far the clock of the last reporting prober is behind the workflow's.
	clock struct {
		session int
		behind  time.Duration
	}
}

// ask runs the probes of the phase in the background until ctx ends. A prober signals
// each change, and its result is that all succeed. If its worker dies or stops, the next
// prober continues from the last heartbeat (rule P10). The caller does not wait for the
// end of a prober (rule P13).
func (p *prober) ask(ctx workflow.Context) {
	phase := p.course.Phase
	if !p.spec.Asks(phase) {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		in := p.input
		in.Phase, in.Began = phase, p.course.Began
		lastAlive := workflow.Now(ctx) // when a prober was running for sure
		for silent := 0; ctx.Err() == nil; {
			in.Session, in.Lasted = p.course.Ask(), workflow.Now(ctx).Sub(p.course.Began)
			if in.Resume != nil {
				in.Idle = workflow.Now(ctx).Sub(lastAlive)
			}
			var result probing.Result
			last := phase == v1beta1.ProbeDuring && p.rules >= prepare.ProbeRulesFinalAnswers
			p.lastWord = p.lastWord || last
			future := workflow.ExecuteActivity(p.options(ctx, phase, last), a.AskProbes, in)
			if phase == v1beta1.ProbeDuring {
				p.miss(ctx, in.Session, future, lastAlive.Add(blindLimit(p.spec)))
			}
			err := future.Get(ctx, &result)
			if last {
				p.lastWord = false
				p.course.CompareAtEnd(result.Probes)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				p.receive(ctx, contract.ProbeTransition{Phase: phase, Session: in.Session, Seq: math.MaxInt64, Probes: result.Probes})
				return
			}
			workflow.GetLogger(ctx).Warn("who asked the probes ended", "phase", phase, "error", err)
			silent++
			if p.course.LastSession >= in.Session {
				silent, lastAlive = 0, workflow.Now(ctx)
			}
			if left := probing.SnapshotOf(err); left != nil {
				in.Resume, silent = left, 0
				if beat := p.beatAt(in.Session, left.At, lastAlive); beat.Before(lastAlive) {
					lastAlive = beat
				}
			}
			if silent > 0 && workflow.Sleep(ctx, probePause(silent)) != nil {
				return
			}
		}
	})
}

// options are for one activity that asks the probes of a phase.
func (p *prober) options(ctx workflow.Context, phase v1beta1.ProbePhase, lastWord bool) workflow.Context {
	var lasts time.Duration
	switch phase {
	case v1beta1.ProbeBefore:
		lasts = p.spec.GateTimeout() + time.Minute
	case v1beta1.ProbeAfter:
		lasts = p.spec.RecoveryTimeout() + time.Minute
	default:
		lasts = p.lasts(ctx)
	}
	return probeOptions(ctx, phase, lasts, lastWord)
}

// beatAt is when a prober gave its last sign of life, by the workflow's clock: the
// prober's clock may be ahead or behind. A prober that never reported adds no later time
// than is known.
func (p *prober) beatAt(session int, theirs, lastAlive time.Time) time.Time {
	if p.rules < prepare.ProbeRulesOneClock {
		return theirs
	}
	if p.clock.session != session {
		return lastAlive
	}
	return theirs.Add(p.clock.behind)
}

// miss detects, in the background, that no prober has reported by a moment: no worker
// took the session, or one runs it without any report (rule P11).
func (p *prober) miss(ctx workflow.Context, session int, over workflow.Future, until time.Time) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		reported := func() bool { return p.course.LastSession >= session || over.IsReady() }
		known, err := awaitFor(ctx, max(until.Sub(workflow.Now(ctx)), 0), "wait for a prober of the steady state", reported)
		if err == nil && !known && p.course.Phase == v1beta1.ProbeDuring {
			p.missed = true
			p.course.ProberLost(p.spec)
			p.changed(ctx)
		}
	})
}

// receive applies the results of probes. At the first report of a prober it notes how far
// that prober's clock is behind the workflow's.
func (p *prober) receive(ctx workflow.Context, transition contract.ProbeTransition) {
	if !transition.At.IsZero() && transition.Session > p.clock.session {
		p.clock.session, p.clock.behind = transition.Session, workflow.Now(ctx).Sub(transition.At)
	}
	if p.course.Receive(p.spec, transition) {
		p.changed(ctx)
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
