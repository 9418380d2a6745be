package steadystate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Status is the course in the form of status. over is true for the last status; at is its
// time.
func (c *Course) Status(spec v1beta1.SteadyState, over bool, at time.Time) v1beta1.SteadyStateStatus {
	reported := metav1.NewMicroTime(at)
	status := v1beta1.SteadyStateStatus{Phase: c.Phase, Summary: c.Summary(spec, over), ReportedAt: &reported}
	if over {
		status.Phase = ""
	}
	if over || c.AbortedBy(spec) != nil {
		status.Verdict = c.Verdict(spec)
	}
	if c.Control != nil {
		status.ControlGroup = &v1beta1.ControlGroupStatus{Wanted: c.Control.Wanted, Chosen: c.Control.Chosen}
	}
	for i, probe := range spec.Probes {
		one := v1beta1.ProbeStatus{Name: probe.Name}
		if i < len(c.Probes) {
			one = c.Probes[i].status()
		}
		if verdict := c.VerdictOf(spec, i); over || verdict == v1beta1.VerdictAborted || verdict == v1beta1.VerdictFailed {
			one.Verdict = verdict
		}
		status.Probes = append(status.Probes, one)
	}
	return status
}

func (p *Probe) status() v1beta1.ProbeStatus {
	last := p.Last
	status := v1beta1.ProbeStatus{
		Name: p.Name, State: last.State, Text: last.Text, Targets: last.Targets, Failing: last.Failing, FailingTargets: last.FailingTargets,
	}
	if !last.Since.IsZero() {
		since := metav1.NewTime(last.Since)
		status.Since = &since
	}
	if all := p.comparison(); all != nil && all.Targets.Count() > 0 && all.Control.Count() > 0 {
		targets, control := all.Targets.FailedPercent(), all.Control.FailedPercent()
		status.Comparison = &v1beta1.ProbeComparison{
			ControlPods: all.Pods, ControlFailing: all.Failing, TargetAnswers: all.Targets.Count(), ControlAnswers: all.Control.Count(),
			TargetsFailedPercent: targets, ControlFailedPercent: control, Difference: targets - control,
		}
	}
	return status
}

// compared describes how targets and control group differ, or why that is not known;
// empty without a control group.
func (c *Course) compared() string {
	switch {
	case c.Control == nil:
		return ""
	case c.Control.Chosen == 0:
		return " No pod was left for the control group: the verdict is without it."
	}
	var b strings.Builder
	for i := range c.Probes {
		if compared := c.Probes[i].status().Comparison; compared != nil {
			b.WriteString(fmt.Sprintf(" Probe %s: %d%% of the targets' answers failed, %d%% of the control group's, a difference of %+d points.",
				c.Probes[i].Name, compared.TargetsFailedPercent, compared.ControlFailedPercent, compared.Difference))
		}
	}
	if b.Len() == 0 {
		return " The control group was not asked: the verdict is without it."
	}
	return b.String()
}

// Summary describes the steady state in a sentence: now, or the result when it is over.
func (c *Course) Summary(spec v1beta1.SteadyState, over bool) string {
	switch {
	case over:
		return c.conclusion(spec) + c.compared()
	case c.AbortedBy(spec) != nil:
		return "It ends: " + c.WhyAborted(spec) + "."
	}
	waited := strings.Join(c.waitedFor(spec), ", ")
	switch c.Phase {
	case v1beta1.ProbeBefore:
		if waited == "" {
			return "No probe keeps it from beginning."
		}
		return "Nothing is injected before the probes succeed. Waiting for: " + waited + "."
	case v1beta1.ProbeAfter:
		if waited == "" {
			return "No probe is waited for any more."
		}
		return "Waiting for the steady state to come back. Not yet: " + waited + "."
	case v1beta1.ProbeDuring:
		if lost := c.lost(spec); len(lost) > 0 {
			return "Lost, and it goes on: " + strings.Join(lost, ", ") + "."
		}
		return "The probes are asked, and end it if they fail."
	}
	return ""
}

// waitedFor names the probes of the phase that do not succeed yet.
func (c *Course) waitedFor(spec v1beta1.SteadyState) (names []string) {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && slices.Contains(probe.Phases, c.Phase) && (!c.Probes[i].Reported || c.Probes[i].Last.State != v1beta1.ProbeSuccess) {
			names = append(names, probe.Name)
		}
	}
	return names
}

// lost names the probes that were lost or could not be asked in During.
func (c *Course) lost(spec v1beta1.SteadyState) (names []string) {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && slices.Contains(probe.Phases, v1beta1.ProbeDuring) && (c.Probes[i].Findings.During == Lost || c.Probes[i].Findings.During == Blind) {
			names = append(names, probe.Name)
		}
	}
	return names
}

// WhyAborted describes which probe ends the disruption, and why; empty if none does.
func (c *Course) WhyAborted(spec v1beta1.SteadyState) string {
	probe := c.AbortedBy(spec)
	if probe == nil {
		return ""
	}
	return probe.sentence(v1beta1.ProbeDuring)
}

// WhyClosed describes which probe keeps the gate closed, and why.
func (c *Course) WhyClosed(spec v1beta1.SteadyState) string {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && slices.Contains(probe.Phases, v1beta1.ProbeBefore) && c.Probes[i].Findings.Before != Steady {
			return c.Probes[i].sentence(v1beta1.ProbeBefore)
		}
	}
	return ""
}

// WhyNotBack describes which probe did not succeed in After, and why.
func (c *Course) WhyNotBack(spec v1beta1.SteadyState) string {
	for i, probe := range spec.Probes {
		if i < len(c.Probes) && slices.Contains(probe.Phases, v1beta1.ProbeAfter) && c.Probes[i].Findings.After != Steady {
			return c.Probes[i].sentence(v1beta1.ProbeAfter)
		}
	}
	return ""
}

// conclusion is the verdict with the probe that caused it. A probe with a finding is
// preferred to one without.
func (c *Course) conclusion(spec v1beta1.SteadyState) string {
	verdict := c.Verdict(spec)
	if verdict == v1beta1.VerdictPassed {
		return "Passed: every probe was steady in each of its phases."
	}
	if verdict != c.ofProbes(spec) {
		return "Inconclusive: every probe was steady, but not every target was injected before the end."
	}
	for _, shown := range []bool{true, false} {
		for _, phase := range []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeDuring, v1beta1.ProbeAfter} {
			for i, probe := range spec.Probes {
				known := Probe{Name: probe.Name}
				if i < len(c.Probes) {
					known = c.Probes[i]
				}
				alone := probe
				alone.Phases = []v1beta1.ProbePhase{phase}
				if slices.Contains(probe.Phases, phase) && *known.Findings.of(phase) != None == shown && OfProbe(alone, spec.OnProberLost, known.Findings) == verdict {
					return fmt.Sprintf("%s: %s.", verdict, known.sentence(phase))
				}
			}
		}
	}
	return string(verdict) + "."
}

// findings are the texts for a finding in a phase.
var findings = map[v1beta1.ProbePhase]map[Finding]string{
	v1beta1.ProbeBefore: {Lost: "was not steady before", Blind: "could not be asked before", None: "was not steady yet when the gate was left", Steady: "was steady before"},
	v1beta1.ProbeDuring: {Lost: "was lost", Blind: "could not be asked for too long", None: "gave no answer meanwhile", Steady: "stayed steady"},
	v1beta1.ProbeAfter:  {Lost: "did not come back in time", Blind: "could not be asked after", None: "was not asked after", Steady: "is steady again"},
}

// sentence describes the finding of a probe in a phase, and why.
func (p *Probe) sentence(phase v1beta1.ProbePhase) string {
	finding := *p.Findings.of(phase)
	text := fmt.Sprintf("probe %s %s", p.Name, findings[phase][finding])
	if why := p.Why[phase]; why != "" {
		text += ": " + strings.TrimSuffix(why, ".")
	}
	return text
}

// Table is a row for each probe, for the page that a person reads. Its columns are the
// name, the state, the findings Before, During and After, and the text that goes with
// them.
func (c *Course) Table(spec v1beta1.SteadyState) (rows [][6]string) {
	for i, probe := range spec.Probes {
		row := [6]string{probe.Name, "-", "-", "-", "-", ""}
		if i < len(c.Probes) {
			known := c.Probes[i]
			if known.Last.State != "" {
				row[1] = string(known.Last.State)
			}
			if known.Last.Failing > 0 {
				row[1] += fmt.Sprintf(" (%d of %d targets)", known.Last.Failing, known.Last.Targets)
			}
			for column, phase := range []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeDuring, v1beta1.ProbeAfter} {
				row[2+column] = c.cell(&known, probe, phase)
			}
			row[5] = known.Last.Text
		}
		rows = append(rows, row)
	}
	return rows
}

func (c *Course) cell(known *Probe, probe v1beta1.Probe, phase v1beta1.ProbePhase) string {
	finding := *known.Findings.of(phase)
	switch {
	case !slices.Contains(probe.Phases, phase):
		return ""
	case finding != None:
		return string(finding)
	case c.Phase == phase:
		return "asked"
	}
	return "-"
}
