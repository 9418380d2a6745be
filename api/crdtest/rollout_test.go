package crdtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// afterReleases is a good rollout with another template.
func afterReleases(spec string) string {
	return onWeb + "disruptionTemplate: {" + spec + "}"
}

var rollouts = []manifest{
	{"with everything", cron("paused: true\ndelayedStartTolerance: 30s\nreporting: {slackChannel: chaos, purpose: to be sure of it}"), ""},
	{"with defaults", cron(""), ""},
	{"tolerance 0", cron("delayedStartTolerance: 0s"), ""},
	{"tolerance null", cron("delayedStartTolerance: null"), ""},
	{"tolerance negative", cron("delayedStartTolerance: -1m"), "spec.delayedStartTolerance"},
	{"tolerance that was meant as seconds", cron("delayedStartTolerance: 90"), "write 90s"},
	{"on a daemon set", "targetResource: {kind: daemonset, name: web}\ndisruptionTemplate: {count: 1, cpuPressure: {}}", "spec.targetResource.kind"},
	{"on nothing of a name", "targetResource: {kind: statefulset, name: ''}\ndisruptionTemplate: {count: 1, cpuPressure: {}}", "spec.targetResource.name"},
	{"a template without a kind", afterReleases("count: 1"), "no kind is asked for"},
	{"a template of nodes", afterReleases("count: 1, level: node, cpuPressure: {}"), "targetResource stands for pods"},
	{"a template with a moment", afterReleases("count: 1, cpuPressure: {}, triggers: {inject: {notBefore: '2027-01-01T00:00:00Z'}}"), "notBefore is one moment"},
	{"a name of 44 characters", named44(0) + rolloutSpec, ""},
	{"a name of 45 characters", named44(1) + rolloutSpec, "use at most 44 characters, not 45"},
}

const rolloutSpec = "spec: {targetResource: {kind: deployment, name: web}, disruptionTemplate: {count: 1, cpuPressure: {}}}"

func named44(more int) string {
	return "apiVersion: chaos.squall.dev/v1beta1\nkind: DisruptionRollout\nmetadata: {name: " + strings.Repeat("a", 44+more) + ", namespace: default}\n"
}

func TestRolloutsAPIServerAgreesWithValidate(t *testing.T) {
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	there := client.Resource(v1beta1.GroupVersion.WithResource("disruptionrollouts")).Namespace("default")
	for _, m := range rollouts {
		t.Run(m.name, func(t *testing.T) {
			text := []byte(strings.Replace(string(m.object()), "kind: Disruption\n", "kind: DisruptionRollout\n", 1))
			local := &v1beta1.DisruptionRollout{}
			if err := yaml.UnmarshalStrict(text, local); err != nil {
				t.Fatal(err)
			}
			local.Default()
			m.check(t, "Validate", local.Validate().ToAggregate())
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &object.Object); err != nil {
				t.Fatal(err)
			}
			answer, err := there.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			m.check(t, "the API server", err)
			if m.refused != "" || t.Failed() {
				return
			}
			stored := &v1beta1.DisruptionRollout{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(local.Spec, stored.Spec); diff != "" {
				t.Errorf("the API server's defaults are not Default's (-Default +server):\n%s", diff)
			}
		})
	}
}
