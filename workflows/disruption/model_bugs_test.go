package disruption

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/verify"
)

// bug is a mistake that the workflow could have. It is planted between the workflow and
// its activities, so that the workflow's code stays as it is.
type bug struct {
	name string
	// scenario and fault limit the search: to all trials in which this is the only fault.
	scenario, fault string
	// want is a part of the model's report about it.
	want string
	// options changes the options of an activity, in its input, and out its result.
	options func(name string, o *workflow.ActivityOptions)
	in      func(in any) any
	out     func(out any, err error) (any, error)
}

func (b *bug) changeOptions(name string, o *workflow.ActivityOptions) {
	if b != nil && b.options != nil {
		b.options(name, o)
	}
}

func (b *bug) changeIn(in any) any {
	if b == nil || b.in == nil {
		return in
	}
	return b.in(in)
}

func (b *bug) changeOut(out any, err error) (any, error) {
	if b == nil || b.out == nil {
		return out, err
	}
	return b.out(out, err)
}

var bugs = []*bug{
	{
		name:     "a creation that is cancelled is not waited for",
		scenario: "many targets", fault: "a person deletes the disruption",
		want: "was created after the cleaning began",
		options: func(name string, o *workflow.ActivityOptions) {
			o.WaitForCancellation = o.WaitForCancellation && name != "CreateChaosPods"
		},
	},
	{
		name:     "what is left is not told",
		scenario: "injectors fail", fault: "people release what is stuck",
		want: "nobody is told that it is stuck",
		in: func(in any) any {
			if r, ok := in.(status.Report); ok {
				r.Left = nil
				return r
			}
			return in
		},
	},
	{
		name:     "who releases one releases all",
		scenario: "injectors fail", fault: "release web-0",
		want: "nobody who saw it has released it",
		in: func(in any) any {
			if clean, ok := in.(clean.Input); ok && len(clean.Release) > 0 {
				ever := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
				clean.ReleaseUntil = &ever
				return clean
			}
			return in
		},
	},
	{
		name:     "nodes are not searched",
		scenario: "injectors leave something and do not say so", fault: "and leaves something on its node",
		want: "does not say that",
		in: func(in any) any {
			if verify, ok := in.(verify.Input); ok {
				verify.Nodes = nil
				return verify
			}
			return in
		},
	},
	{
		name:     "what a search found is forgotten",
		scenario: "injectors fail", fault: "a person resumes: release",
		want: "does not say that",
		out: func(out any, err error) (any, error) {
			if _, ok := out.(verify.Result); ok {
				return verify.Result{}, nil
			}
			return out, err
		},
	},
	{
		name:     "a late cleaning ends targets that were chosen since",
		scenario: "a target goes, and another is taken", fault: "goes on 4 minutes later",
		want: "is given up while it is disrupted",
		in: func(in any) any {
			if clean, ok := in.(clean.Input); ok {
				clean.Runs = 0
				return clean
			}
			return in
		},
	},
	{
		name:     "targets are disrupted before they are given",
		scenario: "an operation", want: "was created while its target was not given",
		in: func(in any) any {
			if create, ok := in.(inject.CreateInput); ok {
				create.Operated = false
				return create
			}
			return in
		},
		out: func(out any, err error) (any, error) {
			if operated, ok := out.(operate.Result); ok {
				operated.Given = operated.Waiting
				return operated, err
			}
			return out, err
		},
	},
	{
		name:     "targets that are clean are not given back",
		scenario: "an operation", want: "it has not ended",
		in: func(in any) any {
			if end, ok := in.(operate.EndInput); ok {
				end.OnlyEnded = true
				return end
			}
			return in
		},
	},
	{
		name:     "a cleaning that failed counts as one that left nothing",
		scenario: "injectors fail", fault: "people release what is stuck",
		want: "it has not ended",
		out: func(out any, err error) (any, error) {
			if cleaned, ok := out.(clean.Result); ok {
				cleaned.Left, cleaned.Remaining = nil, 0
				return cleaned, err
			}
			return out, err
		},
	},
}

// many is a scenario with more targets than a local activity creates chaos pods for.
var many = scene{name: "many targets", pods: localTargetLimit + 1, wanted: localTargetLimit + 1}

// The model is worth what it finds: each of these bugs breaks the promise, and some trial
// must report it.
func TestTheModelFindsPlantedBugs(t *testing.T) {
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			trials, made, wrong := b.find()
			if !slices.ContainsFunc(wrong, func(what string) bool { return strings.Contains(what, b.want) }) {
				t.Fatalf("after %d trials the model says %v, want %q", trials, wrong, b.want)
			}
			t.Logf("trial %d found it:\n%s\n%s", trials, made.list(), wrong[0])
		})
	}
}

// find makes trials until one breaks the promise.
func (b *bug) find() (trials int, made *faults, wrong []string) {
	all := append(slices.Clone(scenes), many)
	s := all[slices.IndexFunc(all, func(s scene) bool { return s.name == b.scenario })]
	s.bug = b
	quiet, wrong := attemptTrial(s, &faults{})
	if len(wrong) > 0 {
		return 1, quiet, wrong
	}
	trials = 1
	for number, choice := range quiet.made {
		for way, option := range choice.options {
			if !strings.Contains(option, b.fault) {
				continue
			}
			trials++
			if made, wrong = attemptTrial(s, &faults{forced: deviations{number: way}}); len(wrong) > 0 {
				return trials, made, wrong
			}
		}
	}
	return trials, made, nil
}

// fault is a fault of a trial, by name: at the first moment of that name at which it is
// possible.
type fault struct{ moment, happens string }

// onceBroken are trials that once broke the promise.
var onceBroken = []struct {
	name, scenario string
	steps          []fault
}{
	{
		"a report that says stuck comes after the last status: marks that a person released are swept all the same", "injectors fail",
		[]fault{{"show in status: Stuck", "goes on 4 minutes later"}, {"show in status: Stuck", "a person resumes: release"}},
	},
}

func TestWhatOnceBrokeThePromise(t *testing.T) {
	for _, trial := range onceBroken {
		t.Run(trial.name, func(t *testing.T) {
			s := scenes[slices.IndexFunc(scenes, func(s scene) bool { return s.name == trial.scenario })]
			d, from := deviations{}, 0
			for _, next := range trial.steps {
				made, _ := attemptTrial(s, &faults{forced: d})
				number, way := next.find(made.made, from)
				if way == 0 {
					t.Fatalf("%q is not possible at %q any more", next.happens, next.moment)
				}
				d, from = d.with(number, way), number+1
			}
			if made, wrong := attemptTrial(s, &faults{forced: d}); len(wrong) > 0 {
				t.Errorf("%s\n%s", made.list(), strings.Join(wrong, "\n"))
			}
		})
	}
}

func (s fault) find(made []choice, from int) (number, way int) {
	for number := from; number < len(made); number++ {
		for way, option := range made[number].options {
			if strings.Contains(made[number].what, s.moment) && strings.HasSuffix(option, s.happens) {
				return number, way
			}
		}
	}
	return 0, 0
}
