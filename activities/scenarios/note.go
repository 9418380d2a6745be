package scenarios

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Note adds d to the runs in its DisruptionScenario's status, unless it is there. It is
// called before d's finalizer is removed: a disruption that neither exists nor is in
// status never began. A DisruptionScenario that is gone is no error.
func Note(ctx context.Context, client rest.Interface, d *v1beta1.Disruption) error {
	owner := metav1.GetControllerOf(d)
	ref := contract.ScenarioRef{Namespace: d.Namespace, Name: owner.Name, UID: owner.UID}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := Read(ctx, client, ref)
		if err != nil {
			return err
		}
		step := stepOf(s, d.Name)
		if step == nil || runOf(step.Disruptions, d.Name) != nil {
			return nil
		}
		step.Disruptions = append(step.Disruptions, v1beta1.ScenarioRun{Name: d.Name, UID: d.UID})
		return client.Put().Namespace(s.Namespace).Resource(scenarios).Name(s.Name).SubResource("status").Body(s).Do(ctx).Error()
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("note in DisruptionScenario %s that %s began: %w", ref, d.Name, err)
	}
	return nil
}

// stepOf returns the step in status that a disruption of this name belongs to; nil if
// that step did not begin.
func stepOf(s *v1beta1.DisruptionScenario, name string) *v1beta1.ScenarioStepStatus {
	for step := range min(len(s.Spec.Steps), len(s.Status.Steps)) {
		for i := range s.Spec.Steps[step].Disruptions {
			if s.ChildName(step, i) == name {
				return &s.Status.Steps[step]
			}
		}
	}
	return nil
}

// noted returns the run of this name in status; nil if there is none.
func (a *Activities) noted(ctx context.Context, in BeginStepInput, name string) (*v1beta1.ScenarioRun, error) {
	s, err := a.get(ctx, in.Scenario)
	if err != nil || len(s.Status.Steps) <= in.Step {
		return nil, err
	}
	return runOf(s.Status.Steps[in.Step].Disruptions, name), nil
}

// keepNoted adds to a new status the runs that the one before has and it lacks: the
// writer of the new status does not know of them yet.
func keepNoted(now *v1beta1.DisruptionScenarioStatus, before v1beta1.DisruptionScenarioStatus) {
	for i := range min(len(now.Steps), len(before.Steps)) {
		for _, run := range before.Steps[i].Disruptions {
			if runOf(now.Steps[i].Disruptions, run.Name) == nil {
				now.Steps[i].Disruptions = append(now.Steps[i].Disruptions, run)
			}
		}
	}
}
