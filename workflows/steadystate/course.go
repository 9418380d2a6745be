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
	// None: the phase never came, or ended before there was an answer.
	None Finding = ""
	// Steady: in Before and After it became so in time, in During it stayed so.
	Steady Finding = "Steady"
	// Lost: in Before and After it did not become so in time, in During it did
	// not stay so.
	Lost Finding = "Lost"
	// Blind: for longer than the limit nobody could ask.
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

// Course is what a disruption has learned of its steady state, phase by phase. It
// changes by what it is told, in any order and as often as it is told: what is
// older than what it knows changes nothing.
type Course struct {
	// Phase in which the probes ask; empty between two phases.
	Phase v1beta1.ProbePhase `json:"phase,omitempty"`
	// Began is when the phase did; it stays when the phase is over.
	Began time.Time `json:"began"`
	// Disturbed is true once something may be injected: the gate has opened, and the
	// probes of phase During are asked. The workflow sets it.
	Disturbed bool `json:"disturbed,omitempty"`
	// Injected is true once all targets were injected. The workflow sets it.
	Injected bool `json:"injected,omitempty"`
	// Over is true once phase After is: nothing more is asked.
	Over bool `json:"over,omitempty"`
	// Session counts those who were told to ask. HeardSession and HeardSeq number
	// the last that was heard.
	Session      int   `json:"session,omitempty"`
	HeardSession int   `json:"heardSession,omitempty"`
	HeardSeq     int64 `json:"heardSeq,omitempty"`
	// Told is the worst of phase During that people were told of.
	Told Worst `json:"told,omitempty"`
	// Control is the control group that was chosen; nil without one.
	Control *ControlGroup `json:"control,omitempty"`
	// Probes are those of the spec, in its order.
	Probes []Probe `json:"probes,omitempty"`
}

// ControlGroup is how many pods the control group was to have, and has.
type ControlGroup struct {
	Wanted int `json:"wanted"`
	Chosen int `json:"chosen"`
}

// Probe is what is known of one probe.
type Probe struct {
	Name     string   `json:"name"`
	Findings Findings `json:"findings"`
	// Said is the last that it said in the present phase, or in the last one in
	// which it said anything; Spoke is false as long as it said nothing in the
	// present one.
	Said  contract.ProbeReport `json:"said"`
	Spoke bool                 `json:"spoke,omitempty"`
	// Compared is what targets and control group answered in During, in the present run
	// of the workflow; Past is that of the runs before.
	Compared *contract.Comparison `json:"compared,omitempty"`
	Past     *contract.Comparison `json:"past,omitempty"`
	// Why is the text that goes with a finding that is not Steady, by phase.
	Why map[v1beta1.ProbePhase]string `json:"why,omitempty"`
}

// Begin begins a phase. What was said before counts for nothing in it. A phase
// that goes on already, or in which no probe asks, is left as it is.
func (c *Course) Begin(spec v1beta1.SteadyState, phase v1beta1.ProbePhase, now time.Time) {
	for len(c.Probes) < len(spec.Probes) {
		c.Probes = append(c.Probes, Probe{Name: spec.Probes[len(c.Probes)].Name})
	}
	if c.Phase == phase {
		return
	}
	c.Phase, c.Began = phase, now
	for i := range c.Probes {
		c.Probes[i].Spoke = false
	}
}

// Ask counts one more who is told to ask, and returns the number.
func (c *Course) Ask() (session int) {
	c.Session++
	return c.Session
}

// Hear takes in what probes say, and tells whether that is news. In During a
// probe that was lost stays lost, whatever is said later.
func (c *Course) Hear(spec v1beta1.SteadyState, told contract.ProbeTransition) (news bool) {
	if c.Phase == "" || told.Phase != c.Phase {
		return false
	}
	newer := told.NewerThan(c.HeardSession, c.HeardSeq)
	if newer {
		c.HeardSession, c.HeardSeq = told.Session, told.Seq
	}
	for _, said := range told.Probes {
		i := slices.IndexFunc(spec.Probes, func(p v1beta1.Probe) bool { return p.Name == said.Name })
		if i < 0 || i >= len(c.Probes) || !slices.Contains(spec.Probes[i].Phases, c.Phase) {
			continue
		}
		if newer {
			news = c.Probes[i].hear(said) || news
			if c.Phase == v1beta1.ProbeDuring {
				news = c.Probes[i].compare(said) || news
			}
		}
		if c.Phase == v1beta1.ProbeDuring { // also what is heard late
			news = c.Probes[i].shows(said) || news
		}
	}
	return news
}

func (p *Probe) hear(said contract.ProbeReport) (news bool) {
	answered := p.Spoke && p.Said.Answered
	news = !p.Spoke || p.Said.State != said.State || p.Said.Text != said.Text || p.Said.Failing != said.Failing || p.Said.Targets != said.Targets
	p.Said, p.Spoke = said, true
	p.Said.Answered = said.Answered || answered
	return news
}

// compare notes a comparison, and tells whether it is news.
func (p *Probe) compare(said contract.ProbeReport) (news bool) {
	if said.Comparison == nil {
		return false
	}
	news = p.Compared == nil || *p.Compared != *said.Comparison
	p.Compared = said.Comparison
	return news
}

// CompareAtEnd notes what a prober of During said in its last word, which comes
// when that phase is over.
func (c *Course) CompareAtEnd(reports []contract.ProbeReport) {
	for _, said := range reports {
		for i := range c.Probes {
			if c.Probes[i].Name == said.Name {
				c.Probes[i].compare(said)
			}
		}
	}
}

// KeepCompared lets the prober of a new run count from nothing.
func (c *Course) KeepCompared() {
	for i := range c.Probes {
		if all := c.Probes[i].comparison(); all != nil {
			c.Probes[i].Past, c.Probes[i].Compared = all, nil
		}
	}
}

// comparison is that of all runs; nil for none.
func (p *Probe) comparison() *contract.Comparison {
	if p.Compared == nil || p.Past == nil {
		return cmp.Or(p.Compared, p.Past)
	}
	return &contract.Comparison{
		Pods: p.Compared.Pods, Failing: p.Compared.Failing,
		Targets: p.Past.Targets.Plus(p.Compared.Targets), Control: p.Past.Control.Plus(p.Compared.Control),
	}
}

// shows notes what a probe shows in During by what it says.
func (p *Probe) shows(said contract.ProbeReport) (news bool) {
	switch said.State {
	case v1beta1.ProbeFailure:
		return p.find(v1beta1.ProbeDuring, Lost, said.Text)
	case v1beta1.ProbeUnknown:
		return p.find(v1beta1.ProbeDuring, Blind, said.Text)
	}
	return false
}

// find notes a finding, and tells whether it is news. One that was Lost stays so,
// and one that was Blind is not Steady any more.
func (p *Probe) find(phase v1beta1.ProbePhase, finding Finding, why string) (news bool) {
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

// noProgramRuns is what a person learns of a probe of which no word has come.
const noProgramRuns = "no program runs it; see that the Deployment squall-probes runs"

// ProberLost notes that nobody has asked for longer than the limit.
func (c *Course) ProberLost(spec v1beta1.SteadyState) {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && c.Phase == v1beta1.ProbeDuring && slices.Contains(probe.Phases, c.Phase) {
			c.Probes[i].find(c.Phase, Blind, noProgramRuns)
		}
	}
}

// Asking is true once every probe of the phase has said something: it is being
// asked. Nothing is injected before that is so of phase During.
func (c *Course) Asking(spec v1beta1.SteadyState) bool {
	return c.all(spec, func(p Probe) bool { return p.Spoke })
}

// Reached is true while every probe of the phase succeeds: in Before that opens
// the gate, in After all is as it was.
func (c *Course) Reached(spec v1beta1.SteadyState) bool {
	return c.all(spec, func(p Probe) bool { return p.Spoke && p.Said.State == v1beta1.ProbeSuccess })
}

func (c *Course) all(spec v1beta1.SteadyState, is func(Probe) bool) bool {
	for i, probe := range spec.Probes {
		if slices.Contains(probe.Phases, c.Phase) && (i >= len(c.Probes) || !is(c.Probes[i])) {
			return false
		}
	}
	return true
}

// End ends the phase. timeUp says that it ended because its time was over: what
// was not reached by then is lost. A phase that was cut short shows of a probe
// only what is sure.
func (c *Course) End(spec v1beta1.SteadyState, timeUp bool) {
	for i, probe := range spec.Probes {
		if i >= len(c.Probes) || !slices.Contains(probe.Phases, c.Phase) {
			continue
		}
		p := &c.Probes[i]
		if finding := p.atEnd(c.Phase, timeUp); finding != None {
			why := p.Said.Text
			if finding == Blind && !p.Spoke {
				why = noProgramRuns
			}
			p.find(c.Phase, finding, why)
		}
	}
	c.Over = c.Over || c.Phase == v1beta1.ProbeAfter
	c.Phase = ""
}

// atEnd is what a probe has shown when a phase ends.
func (p *Probe) atEnd(phase v1beta1.ProbePhase, timeUp bool) Finding {
	answered := p.Spoke && p.Said.Answered
	switch {
	case phase == v1beta1.ProbeDuring:
		if answered {
			return Steady
		}
		return None
	case p.Spoke && p.Said.State == v1beta1.ProbeSuccess:
		return Steady
	case !timeUp:
		return None
	case answered:
		return Lost
	}
	return Blind
}

// AbortedBy is the first probe for which the disruption has to end, and why; nil
// if there is none.
func (c *Course) AbortedBy(spec v1beta1.SteadyState) *Probe {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && during(c.Probes[i].Findings.During, probe.OnFailure, spec.OnProberLost) == v1beta1.VerdictAborted {
			return &c.Probes[i]
		}
	}
	return nil
}

// Worst is the worst that phase During has shown.
type Worst string

// What phase During may have shown, from the least to the worst.
const (
	Nothing       Worst = ""
	BlindRecorded Worst = "BlindRecorded"
	LostRecorded  Worst = "LostRecorded"
	BlindAborted  Worst = "BlindAborted"
	LostAborted   Worst = "LostAborted"
)

// Worst is the worst that phase During has shown so far, and which probe has, in a
// sentence.
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

// Verdict is that of the disruption: the worst of its probes'. That all were steady
// shows nothing unless every target was injected.
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

// VerdictOf is that of probe i of the spec.
func (c *Course) VerdictOf(spec v1beta1.SteadyState, i int) v1beta1.Verdict {
	var findings Findings
	if i < len(c.Probes) {
		findings = c.Probes[i].Findings
	}
	return OfProbe(spec.Probes[i], spec.OnProberLost, findings)
}
