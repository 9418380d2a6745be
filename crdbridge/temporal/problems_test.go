package temporal

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A worker that is just starting, or whose poll was missed once, is no problem.
func TestNoWorkerIsReportedAfterTwoPolls(t *testing.T) {
	p := newProblems(nil, 0, nil)
	probed := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{SteadyState: &v1beta1.SteadyState{}}}
	for of, pollers := range map[error]*pollers{ErrNoWorker: &p.workers, ErrNoProber: &p.probers} {
		for i, step := range []struct{ alive, changed, problem bool }{
			{true, false, false}, {false, false, false}, {true, false, false},
			{false, false, false}, {false, true, true}, {false, false, true}, {true, true, false},
		} {
			changed := pollers.note(step.alive)
			if problem := errors.Is(p.Err(probed), of); changed != step.changed || problem != step.problem {
				t.Errorf("%v, poll %d: changed %t, problem %t; want %t, %t", of, i, changed, problem, step.changed, step.problem)
			}
		}
	}
}

// A disruption without probes needs no program that polls for probes.
func TestNoProberConcernsDisruptionsWithProbesAlone(t *testing.T) {
	p := newProblems(nil, 0, nil)
	p.probers.note(false)
	p.probers.note(false)
	if err := p.Err(&v1beta1.Disruption{}); err != nil || !p.NoProber() || p.NoWorker() {
		t.Errorf("without probes: %v; no prober: %t, no worker: %t; want nil, true, false", err, p.NoProber(), p.NoWorker())
	}
}

func TestNoProberConcernsScenariosWithProbesAlone(t *testing.T) {
	p := newProblems(nil, 0, nil)
	p.probers.note(false)
	p.probers.note(false)
	probed := &v1beta1.DisruptionScenario{Spec: v1beta1.DisruptionScenarioSpec{SteadyState: &v1beta1.SteadyState{}}}
	if with, without := p.OfScenario(probed), p.OfScenario(&v1beta1.DisruptionScenario{}); !errors.Is(with, ErrNoProber) || without != nil {
		t.Errorf("with probes: %v, without: %v; want %v, nil", with, without, ErrNoProber)
	}
	p.workers.note(false)
	p.workers.note(false)
	if err := p.OfScenario(&v1beta1.DisruptionScenario{}); !errors.Is(err, ErrNoWorker) {
		t.Errorf("without a worker: %v, want %v", err, ErrNoWorker)
	}
}

func TestOnlyChangesOfFailingWorkflowsSendEvents(t *testing.T) {
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
	of := func(ref v1beta1.DisruptionRef) error {
		return p.Err(&v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}})
	}
	if err := of(two); !errors.Is(err, ErrTaskFailing) || of(one) != nil {
		t.Errorf("two: %v, one: %v; want only two to fail", err, of(one))
	}
}
