package steadystate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const before, in, after = v1beta1.ProbeBefore, v1beta1.ProbeDuring, v1beta1.ProbeAfter

// noon is when the course of a test begins.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// two are a probe that ends the disruption and one that is recorded.
func two(onProberLost v1beta1.ProbeOnFailure) v1beta1.SteadyState {
	return v1beta1.SteadyState{OnProberLost: onProberLost, Probes: []v1beta1.Probe{
		{Name: "shop", OnFailure: v1beta1.ProbeAbort}, {Name: "slow", OnFailure: v1beta1.ProbeRecord},
	}}.WithDefaults()
}

// reported is the report of one probe, so many seconds after noon.
func reported(probe string, state v1beta1.ProbeState, seconds int, text string) contract.ProbeReport {
	return contract.ProbeReport{Name: probe, State: state, Since: noon.Add(time.Duration(seconds) * time.Second), Answered: text != "", Text: text}
}

// transition is what a prober sends, numbered by the latest second in it.
func transition(phase v1beta1.ProbePhase, all ...contract.ProbeReport) contract.ProbeTransition {
	sent := contract.ProbeTransition{Phase: phase, Session: sessions[phase], Probes: all}
	for _, one := range all {
		sent.Seq = max(sent.Seq, one.Since.Unix()-noon.Unix()+1)
	}
	return sent
}

// sessions are those of the prober of each phase.
var sessions = map[v1beta1.ProbePhase]int{before: 1, in: 2, after: 3}

// step is something that happens to a course.
type step func(*Course, v1beta1.SteadyState)

func begin(phase v1beta1.ProbePhase) step {
	return func(c *Course, spec v1beta1.SteadyState) { c.Begin(spec, phase, noon) }
}

func end(timeUp bool) step {
	return func(c *Course, spec v1beta1.SteadyState) { c.End(spec, timeUp) }
}

func report(phase v1beta1.ProbePhase, all ...contract.ProbeReport) step {
	return func(c *Course, spec v1beta1.SteadyState) {
		c.Receive(spec, transition(phase, all...))
	}
}

func proberLost(c *Course, spec v1beta1.SteadyState) { c.ProberLost(spec) }

// steady are the steps of a phase in which both probes succeed.
func steady(phase v1beta1.ProbePhase) []step {
	return []step{begin(phase), report(phase, reported("shop", v1beta1.ProbeSuccess, 1, "status 200"), reported("slow", v1beta1.ProbeSuccess, 1, "status 200")), end(false)}
}

func steps(parts ...[]step) (all []step) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// rule P15
func TestCourse(t *testing.T) {
	const abort, record = v1beta1.ProbeAbort, v1beta1.ProbeRecord
	const success, failure, unknown = v1beta1.ProbeSuccess, v1beta1.ProbeFailure, v1beta1.ProbeUnknown
	for _, test := range []struct {
		name         string
		onProberLost v1beta1.ProbeOnFailure
		steps        []step
		spared       bool // not every target was injected
		want         v1beta1.Verdict
		aborts       bool
		summary      string
	}{
		{name: "steady all the time", steps: steps(steady(before), steady(in), steady(after)),
			want: v1beta1.VerdictPassed, summary: "Passed: every probe was steady in each of its phases."},
		{name: "steady all the time, and not every target was injected", steps: steps(steady(before), steady(in), steady(after)), spared: true,
			want: v1beta1.VerdictInconclusive, summary: "Inconclusive: every probe was steady, but not every target was injected before the end."},
		{name: "not back, and not every target was injected", spared: true,
			steps: steps(steady(before), steady(in), []step{begin(after), report(after, reported("shop", success, 9, "status 200"), reported("slow", failure, 9, "status 503")), end(true)}),
			want:  v1beta1.VerdictFailed, summary: "Failed: probe slow did not come back in time: status 503."},
		{name: "nothing ever happened", want: v1beta1.VerdictInconclusive,
			summary: "Inconclusive: probe shop was not steady yet when the gate was left."},
		{name: "the gate's time is over", steps: []step{begin(before), report(before, reported("shop", success, 1, "status 200"), reported("slow", failure, 1, "status 503")), end(true)},
			want: v1beta1.VerdictFailed, summary: "Failed: probe slow was not steady before: status 503."},
		{name: "the gate's time is over and nobody could ask", steps: []step{begin(before), report(before, reported("shop", success, 1, "status 200"), reported("slow", failure, 1, "")), end(true)},
			want: v1beta1.VerdictInconclusive, summary: "Inconclusive: probe slow could not be asked before."},
		{name: "deleted in the gate", steps: []step{begin(before), report(before, reported("shop", failure, 1, "status 503")), end(false)},
			want: v1beta1.VerdictInconclusive, summary: "Inconclusive: probe shop was not steady yet when the gate was left."},
		{name: "lost", steps: steps(steady(before), []step{begin(in), report(in, reported("shop", failure, 9, "status 503")), end(false)}, steady(after)),
			want: v1beta1.VerdictAborted, aborts: true, summary: "Aborted: probe shop was lost: status 503."},
		{name: "lost, and later all is well", steps: steps(steady(before), []step{begin(in), report(in, reported("shop", failure, 9, "status 503")), report(in, reported("shop", success, 20, "status 200")), end(false)}, steady(after)),
			want: v1beta1.VerdictAborted, aborts: true, summary: "Aborted: probe shop was lost: status 503."},
		{name: "lost, and heard of it late", steps: steps(steady(before), []step{begin(in), report(in, reported("shop", success, 9, "status 200")), report(in, reported("shop", failure, 3, "status 503")), end(false)}, steady(after)),
			want: v1beta1.VerdictAborted, aborts: true, summary: "Aborted: probe shop was lost: status 503."},
		{name: "lost, of the phase before", steps: steps(steady(before), []step{begin(in), report(before, reported("shop", failure, 9, "status 503"))}, steady(in), steady(after)),
			want: v1beta1.VerdictPassed, summary: "Passed: every probe was steady in each of its phases."},
		{name: "lost and recorded", steps: steps(steady(before), []step{begin(in), report(in, reported("slow", failure, 9, "status 503")), end(false)}, steady(after)),
			want: v1beta1.VerdictFailed, summary: "Failed: probe slow was lost: status 503."},
		{name: "lost and recorded, and lost again after", steps: steps(steady(before), []step{begin(in), report(in, reported("slow", failure, 9, "status 503")), end(false), begin(after), report(after, reported("slow", failure, 30, "status 504")), end(true)}),
			want: v1beta1.VerdictFailed, summary: "Failed: probe slow was lost: status 503."},
		{name: "not back", steps: steps(steady(before), steady(in), []step{begin(after), report(after, reported("shop", success, 9, "status 200"), reported("slow", failure, 9, "status 503")), end(true)}),
			want: v1beta1.VerdictFailed, summary: "Failed: probe slow did not come back in time: status 503."},
		{name: "back, and the phase is cut short", steps: steps(steady(before), steady(in), []step{begin(after), report(after, reported("shop", success, 9, "status 200"), reported("slow", success, 9, "status 200")), end(false)}),
			want: v1beta1.VerdictPassed, summary: "Passed: every probe was steady in each of its phases."},
		{name: "deleted: there is no After", steps: steps(steady(before), steady(in)),
			want: v1beta1.VerdictInconclusive, summary: "Inconclusive: probe shop was not asked after."},
		{name: "ended before any answer", steps: steps(steady(before), []step{begin(in), report(in, reported("shop", success, 9, ""), reported("slow", success, 9, "")), end(false)}, steady(after)),
			want: v1beta1.VerdictInconclusive, summary: "Inconclusive: probe shop gave no answer meanwhile."},
		{name: "one could not be asked", steps: steps(steady(before), []step{begin(in), report(in, reported("shop", unknown, 9, "no server")), end(false)}, steady(after)),
			onProberLost: abort, want: v1beta1.VerdictAborted, aborts: true, summary: "Aborted: probe shop could not be asked for too long: no server."},
		{name: "nobody could ask", steps: steps(steady(before), []step{begin(in), proberLost, end(false)}, steady(after)),
			onProberLost: abort, want: v1beta1.VerdictAborted, aborts: true, summary: "Aborted: probe shop could not be asked for too long: no program runs it; see that the Deployment squall-probes runs."},
		{name: "nobody could ask, recorded, and asked again later", steps: steps(steady(before), []step{begin(in), proberLost, report(in, reported("shop", success, 99, "status 200")), end(false)}, steady(after)),
			onProberLost: record, want: v1beta1.VerdictInconclusive, summary: "Inconclusive: probe shop could not be asked for too long: no program runs it; see that the Deployment squall-probes runs."},
		{name: "nobody could ask, recorded, and lost later", steps: steps(steady(before), []step{begin(in), proberLost, report(in, reported("shop", failure, 99, "status 503")), end(false)}, steady(after)),
			onProberLost: record, want: v1beta1.VerdictAborted, aborts: true, summary: "Aborted: probe shop was lost: status 503."},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := two(test.onProberLost)
			once, twice := Course{Injected: !test.spared}, Course{Injected: !test.spared}
			for _, do := range test.steps {
				do(&once, spec)
				do(&twice, spec)
				do(&twice, spec) // a repeated report counts once
				twice = carried(t, twice)
			}
			if got := once.Verdict(spec); got != test.want {
				t.Errorf("Verdict = %s, want %s; %+v", got, test.want, once)
			}
			if aborts := once.AbortedBy(spec) != nil; aborts != test.aborts {
				t.Errorf("aborts = %t, want %t; %+v", aborts, test.aborts, once)
			}
			if got := once.Summary(spec, true); got != test.summary {
				t.Errorf("Summary = %q, want %q", got, test.summary)
			}
			if diff := cmp.Diff(once.Status(spec, true, noon), twice.Status(spec, true, noon)); diff != "" {
				t.Errorf("told twice, and carried into a new run (-once +twice):\n%s", diff)
			}
		})
	}
}

// carried is a course as the next run of a workflow gets it.
func carried(t *testing.T, c Course) (next Course) {
	t.Helper()
	document, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(document, &next); err != nil {
		t.Fatal(err)
	}
	return next
}

// rule P8
func TestTheGateOpensWhenAllSucceed(t *testing.T) {
	spec := two(v1beta1.ProbeAbort)
	spec.Probes = append(spec.Probes, v1beta1.Probe{Name: "later", Phases: []v1beta1.ProbePhase{in}})
	var c Course
	c.Begin(spec, before, noon)
	for _, step := range []struct {
		probe         string
		state         v1beta1.ProbeState
		at            int
		open, changed bool
	}{
		{"shop", v1beta1.ProbeFailure, 1, false, true},
		{"shop", v1beta1.ProbeSuccess, 5, false, true},
		{"slow", v1beta1.ProbeSuccess, 6, true, true},
		{"slow", v1beta1.ProbeFailure, 2, true, false}, // older than what is known
		{"shop", v1beta1.ProbeFailure, 7, false, true},
		{"later", v1beta1.ProbeFailure, 8, false, false}, // it asks in another phase
		{"nobody", v1beta1.ProbeFailure, 8, false, false},
		{"shop", v1beta1.ProbeSuccess, 9, true, true},
		{"shop", v1beta1.ProbeSuccess, 9, true, false},
	} {
		changed := c.Receive(spec, transition(before, reported(step.probe, step.state, step.at, "an answer")))
		if got := c.Reached(spec); got != step.open || changed != step.changed {
			t.Fatalf("%+v: open %t, changed %t", step, got, changed)
		}
	}
}

// Before the first report nothing opens the gate, and nothing is guarded: both need
// answers.
func TestNothingOpensBeforeTheFirstReport(t *testing.T) {
	spec := two(v1beta1.ProbeAbort)
	var c Course
	c.Begin(spec, before, noon)
	if c.Reached(spec) || c.Asking(spec) {
		t.Errorf("reached %t, asking %t before anything was said", c.Reached(spec), c.Asking(spec))
	}
	c.Receive(spec, transition(before, reported("shop", v1beta1.ProbeSuccess, 1, "x"), reported("slow", v1beta1.ProbeSuccess, 1, "x")))
	c.End(spec, false)
	c.Begin(spec, in, noon.Add(time.Minute))
	if c.Reached(spec) || c.Asking(spec) {
		t.Errorf("reached %t, asking %t by what was said in another phase", c.Reached(spec), c.Asking(spec))
	}
	c.Receive(spec, transition(in, reported("shop", v1beta1.ProbeSuccess, 0, ""), reported("slow", v1beta1.ProbeSuccess, 0, "")))
	if !c.Asking(spec) {
		t.Error("all have said that they are asked, whatever the clock was before")
	}
	began := c.Began
	c.Begin(spec, in, noon.Add(time.Hour))
	if !c.Asking(spec) || !c.Began.Equal(began) {
		t.Error("a phase that goes on began anew")
	}
}

func TestAPhaseWithoutProbesIsReached(t *testing.T) {
	spec := two(v1beta1.ProbeAbort)
	spec.Probes[0].Phases, spec.Probes[1].Phases = []v1beta1.ProbePhase{in}, []v1beta1.ProbePhase{in}
	var c Course
	c.Begin(spec, before, noon)
	if !c.Reached(spec) {
		t.Error("no probe asks Before, and the gate is closed")
	}
}

// If a sentence names the probes that the gate waits for, there are some.
func TestWaitedForProbesAreNamed(t *testing.T) {
	for _, test := range []struct {
		phase v1beta1.ProbePhase
		want  string
	}{
		{before, "No probe keeps it from beginning."},
		{after, "No probe is waited for any more."},
	} {
		for name, phases := range map[string][]v1beta1.ProbePhase{"no probe asks": {in}, "all succeed": {test.phase}} {
			t.Run(string(test.phase)+", "+name, func(t *testing.T) {
				spec := two(v1beta1.ProbeAbort)
				spec.Probes[0].Phases, spec.Probes[1].Phases = phases, phases
				var c Course
				c.Begin(spec, test.phase, noon)
				c.Receive(spec, transition(test.phase, reported("shop", v1beta1.ProbeSuccess, 1, "x"), reported("slow", v1beta1.ProbeSuccess, 1, "x")))
				if got := c.Summary(spec, false); got != test.want {
					t.Errorf("Summary = %q, want %q", got, test.want)
				}
			})
		}
	}
}

// rule P18
func TestStatusAndTableAgree(t *testing.T) {
	spec := two(v1beta1.ProbeRecord)
	var c Course
	for _, do := range steps(steady(before), []step{begin(in), report(in, contract.ProbeReport{
		Name: "slow", State: v1beta1.ProbeFailure, Since: noon.Add(9 * time.Second), Answered: true, Text: "status 503", Targets: 3, Failing: 1, FailingTargets: []string{"web-1"}})}) {
		do(&c, spec)
	}
	status := c.Status(spec, false, noon)
	if status.Phase != in || status.Verdict != "" || status.Summary != "Lost, and it goes on: slow." {
		t.Errorf("status = %+v", status)
	}
	slow := status.Probes[1]
	if slow.State != v1beta1.ProbeFailure || slow.Verdict != v1beta1.VerdictFailed || slow.Failing != 1 || slow.Targets != 3 || strings.Join(slow.FailingTargets, " ") != "web-1" || slow.Text != "status 503" {
		t.Errorf("status of slow = %+v", slow)
	}
	want := [][6]string{
		{"shop", "Success", "Steady", "asked", "-", "status 200"},
		{"slow", "Failure (1 of 3 targets)", "Steady", "Lost", "-", "status 503"},
	}
	if diff := cmp.Diff(want, c.Table(spec)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	c.Begin(spec, before, noon) // the table of a run that knows fewer probes
	if rows := new(Course).Table(spec); len(rows) != 2 || rows[0][1] != "-" {
		t.Errorf("table of nothing = %v", rows)
	}
}
