package temporal

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A worker that is just starting, or whose poll was missed once, is no problem.
func TestNoWorkerIsToldAfterTwoPolls(t *testing.T) {
	p := newProblems(nil, 0, nil)
	for i, step := range []struct{ alive, changed, problem bool }{
		{true, false, false}, {false, false, false}, {true, false, false},
		{false, false, false}, {false, true, true}, {false, false, true}, {true, true, false},
	} {
		changed := p.noteWorkers(step.alive)
		if problem := errors.Is(p.Err(v1beta1.DisruptionRef{}), ErrNoWorker); changed != step.changed || problem != step.problem {
			t.Errorf("poll %d: changed %t, problem %t; want %t, %t", i, changed, problem, step.changed, step.problem)
		}
	}
}

func TestOnlyWhatChangesOfFailingWorkflowsIsTold(t *testing.T) {
	one, two := v1beta1.DisruptionRef{Name: "one"}, v1beta1.DisruptionRef{Name: "two"}
	p := newProblems(nil, 0, nil)
	for _, step := range []struct {
		name    string
		failing map[v1beta1.DisruptionRef]string
		want    []v1beta1.DisruptionRef
	}{
		{"none", nil, nil},
		{"one fails", map[v1beta1.DisruptionRef]string{one: "a"}, []v1beta1.DisruptionRef{one}},
		{"it fails on", map[v1beta1.DisruptionRef]string{one: "a"}, nil},
		{"for another cause", map[v1beta1.DisruptionRef]string{one: "b"}, []v1beta1.DisruptionRef{one}},
		{"another fails, too", map[v1beta1.DisruptionRef]string{one: "b", two: "a"}, []v1beta1.DisruptionRef{two}},
		{"the first goes on", map[v1beta1.DisruptionRef]string{two: "a"}, []v1beta1.DisruptionRef{one}},
	} {
		if diff := cmp.Diff(step.want, p.noteFailing(step.failing)); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
		}
	}
	if err := p.Err(two); !errors.Is(err, ErrTaskFailing) || p.Err(one) != nil {
		t.Errorf("two: %v, one: %v; want only two to fail", err, p.Err(one))
	}
}
