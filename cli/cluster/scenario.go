package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Scenario reads a scenario live.
func (c *Client) Scenario(ctx context.Context, namespace, name string) (*v1beta1.DisruptionScenario, error) {
	found := &v1beta1.DisruptionScenario{}
	err := c.own.Get().Namespace(namespace).Resource(scenarios).Name(name).Do(ctx).Into(found)
	if apierrors.IsNotFound(err) && !noSuchResource(err) {
		return nil, missing{fmt.Sprintf("there is no scenario %q in namespace %q%s", name, namespace, otherOf(ctx, c, Scenarios, "scenarios", namespace, name))}
	}
	return scenarioKinded(found), c.advise(ctx, err, namespace, "")
}

// Scenarios lists those of a namespace; of all with an empty one.
func (c *Client) Scenarios(ctx context.Context, namespace string) (*v1beta1.DisruptionScenarioList, error) {
	list := &v1beta1.DisruptionScenarioList{}
	err := c.own.Get().Namespace(namespace).Resource(scenarios).Do(ctx).Into(list)
	list.APIVersion, list.Kind = v1beta1.GroupVersion.String(), v1beta1.KindDisruptionScenario+"List"
	for i := range list.Items {
		scenarioKinded(&list.Items[i])
	}
	return list, c.advise(ctx, err, namespace, "")
}

// TryScenario runs the API server's admission for a scenario and creates nothing.
func (c *Client) TryScenario(ctx context.Context, s *v1beta1.DisruptionScenario) error {
	err := c.own.Post().Namespace(s.Namespace).Resource(scenarios).Param("fieldValidation", "Strict").Param("dryRun", metav1.DryRunAll).Body(s).Do(ctx).Error()
	return c.advise(ctx, err, s.Namespace, "")
}

// CreateScenario creates a scenario.
func (c *Client) CreateScenario(ctx context.Context, s *v1beta1.DisruptionScenario) (*v1beta1.DisruptionScenario, error) {
	created := &v1beta1.DisruptionScenario{}
	err := c.own.Post().Namespace(s.Namespace).Resource(scenarios).Param("fieldValidation", "Strict").Body(s).Do(ctx).Into(created)
	return scenarioKinded(created), c.advise(ctx, err, s.Namespace, "")
}

// DeleteScenario deletes exactly this scenario, and no other of its name.
func (c *Client) DeleteScenario(ctx context.Context, s *v1beta1.DisruptionScenario) error {
	return c.DeleteRepeated(ctx, Repeated{scenarios, s})
}

// Approve approves a step of exactly this scenario in the name of the user, which it
// returns.
func (c *Client) Approve(ctx context.Context, s *v1beta1.DisruptionScenario, step string) (user string, err error) {
	me, err := whoAmI(ctx, c)
	if err != nil {
		return "", c.advise(ctx, err, "", "")
	}
	user = me.Username
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.UID, "annotations": map[string]string{v1beta1.AnnotationApprovedBy + step: user},
	}})
	if err != nil {
		return "", err
	}
	err = c.own.Patch(types.MergePatchType).Namespace(s.Namespace).Resource(scenarios).Name(s.Name).Body(body).Do(ctx).Error()
	return user, c.advise(ctx, err, s.Namespace, "")
}

func scenarioKinded(s *v1beta1.DisruptionScenario) *v1beta1.DisruptionScenario {
	s.APIVersion, s.Kind = v1beta1.GroupVersion.String(), v1beta1.KindDisruptionScenario
	return s
}

// DisruptionsOf lists the disruptions of a scenario.
func (c *Client) DisruptionsOf(ctx context.Context, s *v1beta1.DisruptionScenario) ([]v1beta1.Disruption, error) {
	list, err := c.Disruptions(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(d v1beta1.Disruption) bool { return !s.Owns(&d) }), nil
}
