package deploy

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

const rolloutSample = "samples/disruption-rollout.yaml"

// aRollout makes the disruption of aDisruption after releases, with other fields in its
// template.
func aRollout(name string, template map[string]any) *unstructured.Unstructured {
	o := aCron(name, template)
	o.SetKind("DisruptionRollout")
	delete(o.Object["spec"].(map[string]any), "schedule")
	return o
}

// The sample is accepted unchanged, from a user with the roles for it.
func TestRolloutSample(t *testing.T) {
	kube := installed(t)
	bind(t, kube, "roller", "squall-disruptions", "default")
	bind(t, kube, "roller", "squall-disruption-rollouts", "default")
	text, err := os.ReadFile(rolloutSample)
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"", "roller"} {
		eventually(t, rolloutSample+" by "+user, func() bool { // the API server applies new rights after a moment
			_, err := resourcesAs(t, user, "disruptionrollouts", "default").Create(t.Context(), sample, dryRun)
			return err == nil
		})
	}
}

// rule C7: a rollout gives no rights beyond those to a Disruption.
func TestARolloutNeedsTheRightsOfItsRuns(t *testing.T) {
	kube := installed(t)
	for _, user := range []string{"rollout-only", "rollout-tenant"} {
		bind(t, kube, user, "squall-disruption-rollouts", "default")
	}
	bind(t, kube, "rollout-tenant", "squall-disruptions", "default")
	create := func(user string, template map[string]any) error {
		_, err := resourcesAs(t, user, "disruptionrollouts", "default").Create(t.Context(), aRollout("asked", template), dryRun)
		return err
	}
	refused(t, func() error { return create("rollout-only", nil) }, "rollout-only needs the right to create disruptions.chaos.squall.dev in default")
	eventually(t, "rollout-tenant may", func() bool { return create("rollout-tenant", nil) == nil })
	ofNodes := map[string]any{"cpuPressure": nil, "nodeFailure": map[string]any{}}
	refused(t, func() error { return create("rollout-tenant", ofNodes) }, "rollout-tenant needs the right to create nodedisruptions.chaos.squall.dev")
	refused(t, func() error {
		_, err := resourcesAs(t, "", "disruptionrollouts", "squall-chaos").Create(t.Context(), aRollout("inside", nil), dryRun)
		return err
	}, "are never targets")

	if _, err := resourcesAs(t, "", "disruptionrollouts", "default").Create(t.Context(), aRollout("held", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind(t, kube, bridgeUser, "squall-disruption-rollouts", "default")
	bind(t, kube, "rollout-editor", "squall-disruption-rollouts", "default")
	patch := func(user, body string) error {
		_, err := resourcesAs(t, user, "disruptionrollouts", "default").Patch(t.Context(), "held", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused(t, func() error { return patch("rollout-editor", `{"spec":{"paused":true}}`) }, "rollout-editor needs the right to create disruptions")
	eventually(t, "the bridge adds its finalizer", func() bool {
		return patch(bridgeUser, `{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`) == nil
	})
	refused(t, func() error { return patch(bridgeUser, `{"spec":{"paused":true}}`) }, "may change the finalizers")
}
