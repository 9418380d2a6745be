package workflows

import (
	"math"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// prober has the probes of a steady state asked, phase after phase, and takes in what
// they say.
type prober struct {
	spec   v1beta1.SteadyState
	course *steadystate.Course
	// rules are those of activities.ProbeRulesNow when the plan was made.
	rules int
	// input says whose probes they are.
	input activities.AskProbesInput
	// lasts is how long phase During may, at most.
	lasts func(workflow.Context) time.Duration
	// news is called when something is news.
	news func(workflow.Context)
	// lastWord is true while a prober of During has its last word to say.
	lastWord bool
	// missed is true once nobody asked for too long.
	missed bool
	// clock is how far behind the clock of the last prober is that was heard.
	clock struct {
		session int
		behind  time.Duration
	}
}

// ask has the probes of the phase asked until ctx ends, in the background. Who
// asks tells by signal what changes, and by its result that all succeed. One
// whose worker dies or stops is followed by the next, which goes on with what it
// left (rule P10). That it ends is not waited for (rule P13).
func (p *prober) ask(ctx workflow.Context) {
	phase := p.course.Phase
	if !p.spec.Asks(phase) {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		in := p.input
		in.Phase, in.Began = phase, p.course.Began
		heard := workflow.Now(ctx) // when somebody was asking for sure
		for unheard := 0; ctx.Err() == nil; {
			in.Session, in.Lasted = p.course.Ask(), workflow.Now(ctx).Sub(p.course.Began)
			if in.Resume != nil {
				in.Idle = workflow.Now(ctx).Sub(heard)
			}
			var said activities.AskProbesResult
			last := phase == v1beta1.ProbeDuring && p.rules >= activities.ProbeRulesFinalAnswers
			p.lastWord = p.lastWord || last
			future := workflow.ExecuteActivity(p.options(ctx, phase, last), a.AskProbes, in)
			if phase == v1beta1.ProbeDuring {
				p.miss(ctx, in.Session, future, heard.Add(blindLimit(p.spec)))
			}
			err := future.Get(ctx, &said)
			if last {
				p.lastWord = false
				p.course.CompareAtEnd(said.Probes)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				p.hear(ctx, contract.ProbeTransition{Phase: phase, Session: in.Session, Seq: math.MaxInt64, Probes: said.Probes})
				return
			}
			workflow.GetLogger(ctx).Warn("who asked the probes ended", "phase", phase, "error", err)
			unheard++
			if p.course.HeardSession >= in.Session {
				unheard, heard = 0, workflow.Now(ctx)
			}
			if left := activities.SnapshotOf(err); left != nil {
				in.Resume, unheard = left, 0
				if beat := p.beatAt(in.Session, left.At, heard); beat.Before(heard) {
					heard = beat
				}
			}
			if unheard > 0 && workflow.Sleep(ctx, probePause(unheard)) != nil {
				return
			}
		}
	})
}

// options are for asking the probes of a phase, once.
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

// beatAt is when a prober gave its last sign of life, by the workflow's clock,
// which that of the prober is ahead of or behind. One that was never heard gave
// none that is known better than before.
func (p *prober) beatAt(session int, theirs, heard time.Time) time.Time {
	if p.rules < activities.ProbeRulesOneClock {
		return theirs
	}
	if p.clock.session != session {
		return heard
	}
	return theirs.Add(p.clock.behind)
}

// miss finds, in the background, that nobody has asked until a moment: no word has
// come of the session, whether it was taken over by nobody or goes on somewhere
// without a word (rule P11).
func (p *prober) miss(ctx workflow.Context, session int, over workflow.Future, until time.Time) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		heard := func() bool { return p.course.HeardSession >= session || over.IsReady() }
		known, err := awaitFor(ctx, max(until.Sub(workflow.Now(ctx)), 0), "wait for a prober of the steady state", heard)
		if err == nil && !known && p.course.Phase == v1beta1.ProbeDuring {
			p.missed = true
			p.course.ProberLost(p.spec)
			p.news(ctx)
		}
	})
}

// hear takes in what probes say, and how far behind the workflow's clock that of a
// prober is, when it is heard first.
func (p *prober) hear(ctx workflow.Context, told contract.ProbeTransition) {
	if !told.At.IsZero() && told.Session > p.clock.session {
		p.clock.session, p.clock.behind = told.Session, workflow.Now(ctx).Sub(told.At)
	}
	if p.course.Hear(p.spec, told) {
		p.news(ctx)
	}
}

// blindLimit is how long nobody may ask in phase During: no longer than the
// probe that is the quickest to fail.
func blindLimit(spec v1beta1.SteadyState) time.Duration {
	var limit time.Duration
	for _, probe := range spec.Of(v1beta1.ProbeDuring) {
		if one := contract.BlindLimit(probe); limit == 0 || one < limit {
			limit = one
		}
	}
	return limit
}
