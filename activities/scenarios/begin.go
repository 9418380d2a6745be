package scenarios

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// BeginStepInput is a step of disruptions.
type BeginStepInput struct {
	Scenario   contract.ScenarioRef `json:"scenario"`
	Generation int64                `json:"generation"`
	// Step is its number, from 0.
	Step int `json:"step"`
	// Known are the disruptions that status has. BeginStep does not create them again,
	// even if they are gone.
	Known []v1beta1.ScenarioRun `json:"known,omitempty"`
	// Stopped means to find the created disruptions, and to create none.
	Stopped bool `json:"stopped,omitempty"`
}

// BegunStep has the disruptions of a step that were created, and why not all of them.
type BegunStep struct {
	Runs    []v1beta1.ScenarioRun `json:"runs,omitempty"`
	Stopped string                `json:"stopped,omitempty"`
}

// BeginStep creates the disruptions of a step. A retry finds the disruptions that it
// created, by name and owner.
func (a *Activities) BeginStep(ctx context.Context, in BeginStepInput) (BegunStep, error) {
	begun := BegunStep{Runs: in.Known}
	s, err := a.get(ctx, in.Scenario)
	switch {
	case apierrors.IsNotFound(err):
		begun.Stopped = "the scenario is gone"
		return begun, nil
	case err != nil:
		return BegunStep{}, err
	case s.DeletionTimestamp != nil:
		begun.Stopped = "the scenario is being deleted"
		return begun, nil
	case s.Generation != in.Generation:
		begun.Stopped = "the spec was edited after the scenario began; create another scenario with the new spec"
		return begun, nil
	}
	_, met := v1beta1.MetStop(s)
	in.Stopped = in.Stopped || met != ""
	s.Default()
	for i := range s.Spec.Steps[in.Step].Disruptions {
		if runOf(begun.Runs, s.ChildName(in.Step, i)) != nil {
			continue
		}
		run, stopped, err := a.beginRun(ctx, s, in, i)
		if err != nil {
			return BegunStep{}, err
		}
		if stopped != "" {
			begun.Stopped = cmp.Or(met, stopped)
			return begun, nil
		}
		begun.Runs = append(begun.Runs, *run)
	}
	return begun, nil
}

// runOf returns the run of this name; nil if there is none.
func runOf(runs []v1beta1.ScenarioRun, name string) *v1beta1.ScenarioRun {
	for i := range runs {
		if runs[i].Name == name {
			return &runs[i]
		}
	}
	return nil
}

// beginRun finds or creates one disruption, or returns why it must not begin.
func (a *Activities) beginRun(ctx context.Context, s *v1beta1.DisruptionScenario, in BeginStepInput, i int) (run *v1beta1.ScenarioRun, stopped string, err error) {
	want := disruptionOf(s, in.Step, i)
	have, err := a.disruption(ctx, in.Scenario, want.Name)
	switch {
	case err != nil:
		return nil, "", err
	case have != nil && s.Owns(have):
		return &v1beta1.ScenarioRun{Name: have.Name, UID: have.UID}, "", nil
	}
	if have == nil { // it may have been deleted before its creation was recorded
		run, err = a.noted(ctx, in, want.Name)
		if run != nil || err != nil {
			return run, "", err
		}
	}
	switch {
	case in.Stopped:
		return nil, "it was stopped before all of the step's disruptions began", nil
	case have != nil:
		return nil, fmt.Sprintf("there is a Disruption %s that is not part of this scenario: delete it, or give the scenario another name", have.Name), nil
	}
	stop, err := a.Stops.EmergencyStop(ctx)
	if err != nil || stop != "" {
		return nil, stop, err
	}
	if i == 0 { // later, the targets of the first one count as disrupted
		if why, err := a.crowded(ctx, s, in.Step); err != nil || why != "" {
			return nil, why, err
		}
	}
	made := &v1beta1.Disruption{}
	err = a.Client.Post().Namespace(want.Namespace).Resource(disruptions).Body(want).Do(ctx).Into(made)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil, fmt.Sprintf("the API server refuses Disruption %s: %.*s", want.Name, longestMessage, err), nil
	case err != nil:
		return nil, "", fmt.Errorf("create Disruption %s/%s: %w", want.Namespace, want.Name, err)
	}
	return &v1beta1.ScenarioRun{Name: made.Name, UID: made.UID}, "", nil
}

// crowded returns which disruptions of a step together want more targets than exist, if
// they may not share them; empty if none do.
func (a *Activities) crowded(ctx context.Context, s *v1beta1.DisruptionScenario, number int) (string, error) {
	step := s.Spec.Steps[number]
	if a.Targets == nil || !step.Competes() {
		return "", nil
	}
	matching := make([]map[string]bool, len(step.Disruptions))
	for i := range step.Disruptions {
		d := disruptionOf(s, number, i)
		found, err := a.Targets.Healthy(ctx, d)
		if err != nil {
			return "", fmt.Errorf("count the targets of Disruption %s/%s: %w", d.Namespace, d.Name, err)
		}
		matching[i] = map[string]bool{}
		for _, candidate := range found {
			matching[i][string(candidate.Target.UID)] = true
		}
	}
	return step.Crowded(matching), nil
}

// disruptionOf returns one disruption of a step.
func disruptionOf(s *v1beta1.DisruptionScenario, step, i int) *v1beta1.Disruption {
	controller := true
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.ChildName(step, i),
			// Set at creation, so that also a disruption that is deleted before the controller
			// has seen it is noted.
			Finalizers: []string{v1beta1.DisruptionFinalizer},
			Labels:     map[string]string{v1beta1.LabelScenario: s.Name}, Annotations: v1beta1.JudgedAnnotations(s),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindDisruptionScenario, Name: s.Name, UID: s.UID, Controller: &controller,
			}},
		},
		Spec: *s.Spec.Steps[step].Disruptions[i].Template.DeepCopy(),
	}
	if d.Spec.Reporting == nil {
		d.Spec.Reporting = s.Spec.Reporting.DeepCopy()
	}
	return d
}
