package crdtest

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// A rule that would be misunderstood is refused when it is written: a rule that is about
// nothing because of a slip would allow everything.
func TestAPIServerJudgesPolicies(t *testing.T) {
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	create := func(text []byte) error {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatal(err)
		}
		_, err := client.Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptionpolicies"}).
			Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	sample, err := os.ReadFile("../../deploy/samples/policies/production.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := create(sample); err != nil {
		t.Errorf("the sample: %v", err)
	}
	var fields []string
	for _, kind := range v1beta1.AllKinds() {
		fields = append(fields, kind.Field())
	}
	for _, test := range []struct{ rules, refused string }{
		{"[{name: all}]", ""},
		{"[{name: kinds, kinds: [" + strings.Join(v1beta1.AllKinds().Names(), ", ") + "]}]", ""},
		{"[{name: fields, kinds: [" + strings.Join(fields, ", ") + "]}]", ""},
		{"[{name: kinds, kinds: [node-failur]}]", `"node-failur"`},
		{"[]", "at least 1 items"},
		{"[{name: a}, {name: a}]", "Duplicate"},
		{"[{name: No name}]", "should match"},
		{"[{name: a, level: nodes}]", `"nodes"`},
		{"[{name: a, kind: node-failure}]", "unknown field"},
		{"[{name: a, atMost: {}}]", "at least 1 properties"},
		{"[{name: a, atMost: {percent: 101}}]", "want 0 to 100 percent"},
		{"[{name: a, atMost: {targets: -1}}]", "greater than or equal to 0"},
		{`[{name: a, windows: [{timeZone: America/New_York, days: [Monday], from: "09:00", to: "17:30"}]}]`, ""},
		{"[{name: a, windows: [{timeZone: Europe/Atlantis}]}]", "Europe/Atlantis"},
		{"[{name: a, windows: [{timeZone: Local}]}]", "want the name of a time zone"},
		{"[{name: a, windows: [{days: [Mon]}]}]", `"Mon"`},
		{`[{name: a, windows: [{from: "9:00"}]}]`, "should match"},
		{`[{name: a, windows: [{to: "24:00"}]}]`, "should match"},
		{"[{name: a, requesters: {users: [ann], groups: [shop]}, exceptRequesters: {groups: [ops]}}]", ""},
		{"[{name: a, requesters: {}}]", "at least 1 properties"},
		{`[{name: a, exceptRequesters: {users: [""]}}]`, "at least 1 chars"},
		{"[{name: a, exceptEnvironments: [staging]}]", ""},
		{`[{name: a, exceptEnvironments: [""]}]`, "at least 1 chars"},
		{"[{name: a, exceptEnvironments: [staging, staging]}]", "Duplicate value"},
		{"[{name: a, requesters: [ann]}]", "must be of type object"},
	} {
		t.Run(test.rules, func(t *testing.T) {
			err := create([]byte("apiVersion: chaos.squall.dev/v1beta1\nkind: DisruptionPolicy\nmetadata: {name: p}\nspec: {rules: " + test.rules + "}\n"))
			if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("the API server says %v, want %q", err, test.refused)
			}
		})
	}
}

func TestWhatKubectlGetShowsOfAPolicy(t *testing.T) {
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	there := client.Resource(v1beta1.GroupVersion.WithResource("disruptionpolicies"))
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "DisruptionPolicy", "metadata": map[string]any{"name": "columns"},
		"spec": map[string]any{"rules": []any{
			map[string]any{"name": "nodes", "reason": "on-call is small", "kinds": []any{"node-failure"}, "namespaces": []any{"none"}, "atMost": map[string]any{"targets": int64(2)}},
			map[string]any{"name": "sale", "namespaces": []any{"none"}},
		}},
	}}
	if _, err := there.Create(t.Context(), policy, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Delete(context.Background(), "columns", metav1.DeleteOptions{}) })
	narrow, wide, shown := columns(t, "disruptionpolicies", "", "columns")
	if diff := cmp.Diff([]string{"NAME", "RULE", "KINDS", "ATMOST", "AGE"}, narrow); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"REASON"}, wide); diff != "" {
		t.Errorf("further columns of -o wide (-want +got):\n%s", diff)
	}
	want := map[string]any{"NAME": "columns", "RULE": "nodes", "KINDS": `["node-failure"]`, "ATMOST": `{"targets":2}`, "REASON": "on-call is small"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
