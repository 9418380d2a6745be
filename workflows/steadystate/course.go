package steadystate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Finding is what a probe has shown in a phase.
type Finding string

const (
	// The finding None: the phase was not entered, or ended before there was an answer.
	None Finding = ""
	// Steady means: in Before and After the probe succeeded in time, in During it never failed.
	Steady Finding = "Steady"
	// Lost means: in Before and After the probe did not succeed in time, in During it failed.
	Lost Finding = "Lost"
	// Blind means: for longer than the limit there was no answer to the probe.
	Blind Finding = "Blind"
)

// Findings are what a probe has shown in each phase of a disruption.
type Findings struct {
	Before Finding `json:"before,omitempty"`
	During Finding `json:"during,omitempty"`
	After  Finding `json:"after,omitempty"`
}

// of is the finding in a phase.
func (f *Findings) of(phase v1beta1.ProbePhase) *Finding {
	switch phase {
	case v1beta1.ProbeBefore:
		return &f.Before
	case v1beta1.ProbeDuring:
		return &f.During
	}
	return &f.After
}

// Course is what a disruption knows of its steady state, phase by phase. It changes by
// the reports it receives, in any order and any number of times: a report that is older
// than what it knows changes nothing.
type Course struct {
	// Phase whose probes are asked now; empty between two phases.
	Phase v1beta1.ProbePhase `json:"phase,omitempty"`
	// Began is when the phase began; it stays when the phase is over.
	Began time.Time `json:"began"`
	// Disturbed is true once something may be injected: the gate has opened, and the
	// probes of phase During are asked. The workflow sets it.
	Disturbed bool `json:"disturbed,omitempty"`
	// Injected is true once all targets were injected. The workflow sets it.
	Injected bool `json:"injected,omitempty"`
	// Over is true once phase After is over: no probe is asked any more.
	Over bool `json:"over,omitempty"`
	// Session counts the probers that were started. LastSession and LastSeq are the numbers
	// of the last report received.
	Session     int   `json:"session,omitempty"`
	LastSession int   `json:"heardSession,omitempty"`
	LastSeq     int64 `json:"heardSeq,omitempty"`
	// Notified is the worst result of phase During that people were notified of.
	Notified Worst `json:"told,omitempty"`
	// Control is the chosen control group; nil without one.
	Control *ControlGroup `json:"control,omitempty"`
	// Probes are the probes of the spec, in its order.
	Probes []Probe `json:"probes,omitempty"`
}

// ControlGroup is how many pods the control group should have, and has.
type ControlGroup struct {
	Wanted int `json:"wanted"`
	Chosen int `json:"chosen"`
}

// Probe is what is known of one probe.
type Probe struct {
	Name     string   `json:"name"`
	Findings Findings `json:"findings"`
	// Last is the newest report in the present phase, or else in the last one with a report.
	// Reported is true once there was a report in the present phase.
	Last     contract.ProbeReport `json:"said"`
	Reported bool                 `json:"spoke,omitempty"`
	// Compared has the answers of targets and control group in During, in the present run of
	// the workflow; Past has those of the runs before.
	Compared *contract.Comparison `json:"compared,omitempty"`
	Past     *contract.Comparison `json:"past,omitempty"`
	// Why is the reason for a finding that is not Steady, by phase.
	Why map[v1beta1.ProbePhase]string `json:"why,omitempty"`
}

// Begin begins a phase. Earlier reports count for nothing in it. A phase that has begun
// already, or in which no probe is asked, stays as it is.
func (c *Course) Begin(spec v1beta1.SteadyState, phase v1beta1.ProbePhase, now time.Time) {
	for len(c.Probes) < len(spec.Probes) {
		c.Probes = append(c.Probes, Probe{Name: spec.Probes[len(c.Probes)].Name})
	}
	if c.Phase == phase {
		return
	}
	c.Phase, c.Began = phase, now
	for i := range c.Probes {
		c.Probes[i].Reported = false
	}
}

// Ask counts one more prober, and returns its number.
func (c *Course) Ask() (session int) {
	c.Session++
	return c.Session
}

// Receive applies the reports of probes, and returns whether they changed anything. In
// During a probe that was lost stays lost, whatever is reported later.
func (c *Course) Receive(spec v1beta1.SteadyState, transition contract.ProbeTransition) (changed bool) {
	if c.Phase == "" || transition.Phase != c.Phase {
		return false
	}
	newer := transition.NewerThan(c.LastSession, c.LastSeq)
	if newer {
		c.LastSession, c.LastSeq = transition.Session, transition.Seq
	}
	for _, report := range transition.Probes {
		i := slices.IndexFunc(spec.Probes, func(p v1beta1.Probe) bool { return p.Name == report.Name })
		if i < 0 || i >= len(c.Probes) || !slices.Contains(spec.Probes[i].Phases, c.Phase) {
			continue
		}
		if newer {
			changed = c.Probes[i].update(report) || changed
			if c.Phase == v1beta1.ProbeDuring {
				changed = c.Probes[i].compare(report) || changed
			}
		}
		if c.Phase == v1beta1.ProbeDuring { // also reports that arrive late
			changed = c.Probes[i].shows(report) || changed
		}
	}
	return changed
}

func (p *Probe) update(report contract.ProbeReport) (changed bool) {
	answered := p.Reported && p.Last.Answered
	changed = !p.Reported || p.Last.State != report.State || p.Last.Text != report.Text || p.Last.Failing != report.Failing || p.Last.Targets != report.Targets
	p.Last, p.Reported = report, true
	p.Last.Answered = report.Answered || answered
	return changed
}

// compare notes a comparison, and returns whether it changed.
func (p *Probe) compare(report contract.ProbeReport) (changed bool) {
	if report.Comparison == nil {
		return false
	}
	changed = p.Compared == nil || *p.Compared != *report.Comparison
	p.Compared = report.Comparison
	return changed
}

// CompareAtEnd notes the final reports of a prober of During, which arrive when that
// phase is over.
func (c *Course) CompareAtEnd(reports []contract.ProbeReport) {
	for _, report := range reports {
		for i := range c.Probes {
			if c.Probes[i].Name == report.Name {
				c.Probes[i].compare(report)
			}
		}
	}
}

// KeepCompared lets the prober of a new run count from zero.
func (c *Course) KeepCompared() {
	for i := range c.Probes {
		if all := c.Probes[i].comparison(); all != nil {
			c.Probes[i].Past, c.Probes[i].Compared = all, nil
		}
	}
}

// comparison is the comparison over all runs; nil for none.
func (p *Probe) comparison() *contract.Comparison {
	if p.Compared == nil || p.Past == nil {
		return cmp.Or(p.Compared, p.Past)
	}
	return &contract.Comparison{
		Pods: p.Compared.Pods, Failing: p.Compared.Failing,
		Targets: p.Past.Targets.Plus(p.Compared.Targets), Control: p.Past.Control.Plus(p.Compared.Control),
	}
}

// shows notes the finding that a report means in During.
func (p *Probe) shows(report contract.ProbeReport) (changed bool) {
	switch report.State {
	case v1beta1.ProbeFailure:
		return p.find(v1beta1.ProbeDuring, Lost, report.Text)
	case v1beta1.ProbeUnknown:
		return p.find(v1beta1.ProbeDuring, Blind, report.Text)
	}
	return false
}

// find notes a finding, and returns whether it changed. Lost stays so, and Blind does not
// become Steady any more.
func (p *Probe) find(phase v1beta1.ProbePhase, finding Finding, why string) (changed bool) {
	found := p.Findings.of(phase)
	if *found == finding || *found == Lost || *found == Blind && finding != Lost {
		return false
	}
	*found = finding
	if finding != Steady && why != "" {
		p.Why = maps.Clone(p.Why)
		if p.Why == nil {
			p.Why = map[v1beta1.ProbePhase]string{}
		}
		p.Why[phase] = why
	}
	return true
}

// noProgramRuns is the reason for a probe without any report.
const noProgramRuns = "no program runs it; see that the Deployment squall-probes runs"

// ProberLost notes that no prober reported for longer than the limit.
func (c *Course) ProberLost(spec v1beta1.SteadyState) {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && c.Phase == v1beta1.ProbeDuring && slices.Contains(probe.Phases, c.Phase) {
			c.Probes[i].find(c.Phase, Blind, noProgramRuns)
		}
	}
}

// Asking is true once there is a report of every probe of the phase: a prober asks it.
// Nothing is injected before that is true for phase During.
func (c *Course) Asking(spec v1beta1.SteadyState) bool {
	return c.all(spec, func(p Probe) bool { return p.Reported })
}

// Reached is true while every probe of the phase succeeds. In Before that opens the gate,
// in After the steady state is back.
func (c *Course) Reached(spec v1beta1.SteadyState) bool {
	return c.all(spec, func(p Probe) bool { return p.Reported && p.Last.State == v1beta1.ProbeSuccess })
}

func (c *Course) all(spec v1beta1.SteadyState, is func(Probe) bool) bool {
	for i, probe := range spec.Probes {
		if slices.Contains(probe.Phases, c.Phase) && (i >= len(c.Probes) || !is(c.Probes[i])) {
			return false
		}
	}
	return true
}

// End ends the phase. timeUp is true when its time was over: what was not reached by then
// is lost. If a phase was cut short, only certain findings are noted.
func (c *Course) End(spec v1beta1.SteadyState, timeUp bool) {
	for i, probe := range spec.Probes {
		if i >= len(c.Probes) || !slices.Contains(probe.Phases, c.Phase) {
			continue
		}
		p := &c.Probes[i]
		if finding := p.atEnd(c.Phase, timeUp); finding != None {
			why := p.Last.Text
			if finding == Blind && !p.Reported {
				why = noProgramRuns
			}
			p.find(c.Phase, finding, why)
		}
	}
	c.Over = c.Over || c.Phase == v1beta1.ProbeAfter
	c.Phase = ""
}

// atEnd is the finding when a phase ends.
func (p *Probe) atEnd(phase v1beta1.ProbePhase, timeUp bool) Finding {
	answered := p.Reported && p.Last.Answered
	switch {
	case phase == v1beta1.ProbeDuring:
		if answered {
			return Steady
		}
		return None
	case p.Reported && p.Last.State == v1beta1.ProbeSuccess:
		return Steady
	case !timeUp:
		return None
	case answered:
		return Lost
	}
	return Blind
}

// AbortedBy is the first probe that makes the disruption end; nil if there is none.
func (c *Course) AbortedBy(spec v1beta1.SteadyState) *Probe {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && during(c.Probes[i].Findings.During, probe.OnFailure, spec.OnProberLost) == v1beta1.VerdictAborted {
			return &c.Probes[i]
		}
	}
	return nil
}

// Worst is the worst result of phase During.
type Worst string

// Results of phase During, from the least to the worst.
const (
	Nothing       Worst = ""
	BlindRecorded Worst = "BlindRecorded"
	LostRecorded  Worst = "LostRecorded"
	BlindAborted  Worst = "BlindAborted"
	LostAborted   Worst = "LostAborted"
)

// Worst is the worst result of phase During so far, and a sentence about the probe that
// has it.
func (c *Course) Worst(spec v1beta1.SteadyState) (worst Worst, sentence string) {
	order := []Worst{Nothing, BlindRecorded, LostRecorded, BlindAborted, LostAborted}
	for i, probe := range spec.Probes {
		if i >= len(c.Probes) {
			break
		}
		found := Nothing
		switch c.Probes[i].Findings.During {
		case Lost:
			found = map[bool]Worst{true: LostRecorded, false: LostAborted}[probe.OnFailure == v1beta1.ProbeRecord]
		case Blind:
			found = map[bool]Worst{true: BlindRecorded, false: BlindAborted}[spec.OnProberLost == v1beta1.ProbeRecord]
		}
		if slices.Index(order, found) > slices.Index(order, worst) {
			worst, sentence = found, c.Probes[i].sentence(v1beta1.ProbeDuring)
		}
	}
	return worst, sentence
}

// Verdict is the verdict on the disruption: the worst of its probes'. Steady probes prove
// nothing unless every target was injected.
func (c *Course) Verdict(spec v1beta1.SteadyState) v1beta1.Verdict {
	verdict := c.ofProbes(spec)
	if verdict == v1beta1.VerdictPassed && !c.Injected {
		return v1beta1.VerdictInconclusive
	}
	return verdict
}

func (c *Course) ofProbes(spec v1beta1.SteadyState) v1beta1.Verdict {
	var verdicts []v1beta1.Verdict
	for i := range spec.Probes {
		verdicts = append(verdicts, c.VerdictOf(spec, i))
	}
	return WorstOf(verdicts...)
}

// VerdictOf is the verdict on probe i of the spec.
func (c *Course) VerdictOf(spec v1beta1.SteadyState, i int) v1beta1.Verdict {
	var findings Findings
	if i < len(c.Probes) {
		findings = c.Probes[i].Findings
	}
	return OfProbe(spec.Probes[i], spec.OnProberLost, findings)
}
