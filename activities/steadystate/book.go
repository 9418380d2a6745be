package steadystate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// mostNames bounds how many failing targets a report names.
const mostNames = 10

// book is what a session knows besides the states of its probes. It has no clock and no
// lock of its own.
type book struct {
	in Input
	// started is when the session began, and began when the phase did, by this process's
	// clock.
	started, began time.Time
	probes         []v1beta1.Probe
	targets        []Target
	names          map[types.UID]string
	// control are the pods of the control group that were ever asked.
	control map[types.UID]bool
	// known is true once the targets were read.
	known bool
	// lost are the targets that failed in During, and why: Results forget the state of a
	// target that ended for good.
	lost map[probe.Key]string
	// erring are the keys whose last question could not be asked, with the time of the
	// last answer before, and the reason.
	erring map[probe.Key]erring
	// answered is the time of each key's last answer.
	answered map[probe.Key]time.Time
	// before is the last report of each probe, by name; hasAnswer whether it ever had an
	// answer.
	before    map[string]contract.ProbeReport
	hasAnswer map[string]bool
	courses   map[group]*Course
}

// group is a set of pods with a course of its own.
type group struct {
	probe   string
	control bool
}

type erring struct {
	since time.Time
	why   string
}

func newBook(in Input, probes []v1beta1.Probe, now time.Time) *book {
	b := &book{
		in: in, started: now, began: now.Add(-in.Lasted), probes: probes, names: map[types.UID]string{}, control: map[types.UID]bool{}, lost: map[probe.Key]string{}, erring: map[probe.Key]erring{},
		answered: map[probe.Key]time.Time{}, before: map[string]contract.ProbeReport{}, hasAnswer: map[string]bool{}, courses: map[group]*Course{},
	}
	for _, p := range probes {
		b.courses[group{p.Name, false}] = &Course{Probe: p.Name}
	}
	if in.Resume == nil {
		return b
	}
	for _, report := range in.Resume.Reports {
		b.before[report.Name], b.hasAnswer[report.Name] = report, report.Answered
	}
	for _, course := range in.Resume.Courses {
		of := group{course.Probe, course.Group == GroupControl}
		if of.control || b.courses[of] != nil {
			b.courses[of] = &course
		}
	}
	return b
}

// setTargets sets the targets, and returns whether they changed.
func (b *book) setTargets(targets []Target) bool {
	if b.known && slices.Equal(b.targets, targets) {
		return false
	}
	b.targets, b.known = slices.Clone(targets), true
	clear(b.names)
	for _, target := range targets {
		b.names[target.UID] = target.Name
		if target.Control {
			b.control[target.UID] = true
		}
	}
	gone := func(key probe.Key) bool { return key.Target != "" && b.names[key.Target] == "" }
	maps.DeleteFunc(b.erring, func(key probe.Key, _ erring) bool { return gone(key) })
	maps.DeleteFunc(b.answered, func(key probe.Key, _ time.Time) bool { return gone(key) })
	return true
}

func (b *book) update(update probe.Update) {
	if update.Phase == v1beta1.ProbeDuring && update.Result == probe.Failure && !b.control[update.Target] {
		b.lost[update.Key] = update.Text
	}
}

func (b *book) answer(tick probe.Tick, now time.Time) {
	b.courseOf(tick.Key).add(now.Sub(b.began), tick.Answer.Result)
	if b.control[tick.Target] {
		return
	}
	if tick.Answer.Err == nil {
		delete(b.erring, tick.Key)
		b.answered[tick.Key], b.hasAnswer[tick.Probe] = now, true
		return
	}
	state := b.erring[tick.Key]
	if state.since.IsZero() {
		state.since = b.silentSince(tick.Key, now)
	}
	state.why = tick.Answer.Text
	b.erring[tick.Key] = state
}

// courseOf is the course to which an answer belongs.
func (b *book) courseOf(key probe.Key) *Course {
	of := group{key.Probe, b.control[key.Target]}
	if b.courses[of] == nil {
		b.courses[of] = &Course{Probe: key.Probe}
		if of.control {
			b.courses[of].Group = GroupControl
		}
	}
	return b.courses[of]
}

// asked is how many targets, or pods of the control group, are asked.
func (b *book) asked(control bool) (n int) {
	for _, target := range b.targets {
		if target.Control == control {
			n++
		}
	}
	return n
}

// silentSince returns the time of the last answer of a key whose question could not be
// asked. If this session had none, the previous session knows the oldest of each probe.
// Clocks may differ, so only durations from that session count: from its last answer to
// its last heartbeat.
func (b *book) silentSince(key probe.Key, now time.Time) time.Time {
	if at, hasAnswer := b.answered[key]; hasAnswer {
		return at
	}
	if left := b.in.Resume; left != nil {
		last := b.started.Add(-b.in.Idle)
		if since, blind := left.Blind[key.Probe]; blind {
			return last.Add(-left.At.Sub(since))
		}
		return last
	}
	if key.Target == "" {
		return b.began
	}
	return now // it may have become a target just now
}

// reports are the reports of all probes, in their order.
func (b *book) reports(states []probe.State, now time.Time) []contract.ProbeReport {
	var all []contract.ProbeReport
	for _, p := range b.probes {
		report := b.report(p, states, now)
		before, there := b.before[p.Name]
		if there && b.in.Phase == v1beta1.ProbeDuring && before.State == v1beta1.ProbeFailure && report.Failing <= before.Failing {
			before.Comparison = report.Comparison
			report = before // a lost probe stays lost, whatever happens to the target
		}
		report.Since = now
		if there && before.State == report.State {
			report.Since = before.Since
			if report.Text == "" { // the session before had the answer
				report.Text = before.Text
			}
		}
		b.before[p.Name] = report
		all = append(all, report)
	}
	return all
}

// report is the report of one probe. since is left open.
func (b *book) report(p v1beta1.Probe, states []probe.State, now time.Time) contract.ProbeReport {
	report := contract.ProbeReport{Name: p.Name, State: first(b.in.Phase), Answered: b.hasAnswer[p.Name]}
	if p.Scope == v1beta1.ProbePerTarget {
		report.Targets, report.Comparison = b.asked(false), b.compare(p, states)
		if report.Targets == 0 && b.known {
			report.State, report.Text = v1beta1.ProbeUnknown, "there is no target to ask"
		}
	}
	seen, agreed := 0, v1beta1.ProbeState("")
	for _, state := range b.withLost(states) {
		if state.Probe != p.Name || b.control[state.Target] || state.Phase != b.in.Phase || state.Target != "" && b.names[state.Target] == "" {
			continue
		}
		seen++
		result := v1beta1.ProbeState(state.Result)
		if result == v1beta1.ProbeFailure && state.Target != "" {
			report.Failing++
			if name := b.names[state.Target]; len(report.FailingTargets) < mostNames {
				report.FailingTargets = append(report.FailingTargets, name)
			}
		}
		if worse(result, agreed) || result == agreed && report.Text == "" {
			agreed, report.Text = result, state.Text
		}
	}
	switch {
	case agreed == "": // no answer yet
	case p.Scope == v1beta1.ProbePerTarget && seen < report.Targets && agreed == v1beta1.ProbeSuccess:
		// Some were not asked yet.
	default:
		report.State = agreed
	}
	if why, blind := b.blind(p, now); blind && report.State != v1beta1.ProbeFailure {
		report.State, report.Text = v1beta1.ProbeUnknown, why
	}
	return report
}

// compare compares the answers of the targets with those of the control group; nil
// without a group.
func (b *book) compare(p v1beta1.Probe, states []probe.State) *contract.Comparison {
	control := b.courses[group{p.Name, true}]
	if control == nil {
		return nil
	}
	compared := &contract.Comparison{Pods: b.asked(true), Control: control.answers(), Targets: b.courses[group{p.Name, false}].answers()}
	for _, state := range states {
		if state.Probe == p.Name && state.Phase == b.in.Phase && b.control[state.Target] && b.names[state.Target] != "" && state.Result == probe.Failure {
			compared.Failing++
		}
	}
	return compared
}

// withLost adds the lost targets that Results have forgotten.
func (b *book) withLost(states []probe.State) []probe.State {
	if len(b.lost) == 0 {
		return states
	}
	all, there := slices.Clone(states), map[probe.Key]bool{}
	for _, state := range states {
		there[state.Key] = true
	}
	for key, why := range b.lost {
		if !there[key] {
			all = append(all, probe.State{Key: key, Phase: b.in.Phase, Result: probe.Failure, Text: why})
		}
	}
	return all
}

// first is the state in which a phase begins.
func first(phase v1beta1.ProbePhase) v1beta1.ProbeState {
	switch phase {
	case v1beta1.ProbeBefore:
		return v1beta1.ProbeFailure
	case v1beta1.ProbeDuring:
		return v1beta1.ProbeSuccess
	}
	return v1beta1.ProbeUnknown
}

// worse orders states: a known failure weighs more than an unknown state.
func worse(a, than v1beta1.ProbeState) bool {
	rank := func(s v1beta1.ProbeState) int {
		return slices.Index([]v1beta1.ProbeState{v1beta1.ProbeSuccess, v1beta1.ProbeUnknown, v1beta1.ProbeFailure}, s)
	}
	return rank(a) > rank(than)
}

// blind returns why a probe had no answer for longer than the limit.
func (b *book) blind(p v1beta1.Probe, now time.Time) (why string, blind bool) {
	limit := contract.BlindLimit(p)
	for key, state := range b.erring {
		if silent := now.Sub(state.since); key.Probe == p.Name && silent > limit && b.late(p, now) {
			return fmt.Sprintf("no answer for %s: %s", silent.Round(time.Second), state.why), true
		}
	}
	return "", false
}

// late is true once the initial delay and the blind limit are over.
func (b *book) late(p v1beta1.Probe, now time.Time) bool {
	return now.Sub(b.began) > time.Duration(p.InitialDelaySeconds)*time.Second+contract.BlindLimit(p)
}

// complete is true when all probes are steady. In After, a probe whose targets are all
// gone does not count.
func (b *book) complete(reports []contract.ProbeReport) bool {
	if !b.known {
		return false
	}
	for i, p := range b.probes {
		noTarget := p.Scope == v1beta1.ProbePerTarget && b.asked(false) == 0 && b.in.Phase == v1beta1.ProbeAfter
		if reports[i].State != v1beta1.ProbeSuccess && !noTarget {
			return false
		}
	}
	return true
}

// snapshot returns the part that another session needs. It leaves out a target in
// During that never failed, because that begins with the same state.
func (b *book) snapshot(states []probe.State, reports []contract.ProbeReport, now time.Time) Snapshot {
	snapshot := Snapshot{At: now, Reports: reports, Courses: b.allCourses()}
	for _, state := range states {
		quiet := state.Result == probe.Success && state.Last != probe.Failure && state.Spent == nil
		if state.Phase != v1beta1.ProbeDuring || !quiet {
			snapshot.States = append(snapshot.States, state)
		}
	}
	for key, state := range b.erring {
		if snapshot.Blind == nil {
			snapshot.Blind = map[string]time.Time{}
		}
		if known, there := snapshot.Blind[key.Probe]; !there || state.since.Before(known) {
			snapshot.Blind[key.Probe] = state.since
		}
	}
	return snapshot
}

func (b *book) allCourses() []Course {
	var all []Course
	for _, p := range b.probes {
		for _, control := range []bool{false, true} {
			if course := b.courses[group{p.Name, control}]; course != nil {
				all = append(all, course.clone())
			}
		}
	}
	return fit(all, mostBytes)
}

// leastCompared is the least number of answers for a comparison.
const leastCompared = 100

// compared is true each time that there are twice as many answers to compare as at the
// last report.
func compared(before, now contract.ProbeReport) bool {
	if now.Comparison == nil {
		return false
	}
	count := func(c *contract.Comparison) int64 {
		if c == nil {
			return 0
		}
		return c.Targets.Count() + c.Control.Count()
	}
	return count(now.Comparison) >= max(leastCompared, 2*count(before.Comparison))
}

// worthSignalling returns the reports that the workflow needs: another state, the first
// answer, and each time that twice as many targets fail. So a thousand targets that
// fail one after the other cause ten signals.
func worthSignalling(sent map[string]contract.ProbeReport, now []contract.ProbeReport) []contract.ProbeReport {
	var changes []contract.ProbeReport
	for _, report := range now {
		before, there := sent[report.Name]
		more := report.Failing > before.Failing && report.Failing >= 2*before.Failing
		if !there || compared(before, report) || report.State != before.State || report.Answered && !before.Answered || more {
			changes = append(changes, report)
		}
	}
	return changes
}
