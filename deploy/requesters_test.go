package deploy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule S19: without the webhook, too, an object cannot name a user who did not request it.
func TestUsersCannotSetTheRequester(t *testing.T) {
	kube := installed(t)
	namespace := aNamespace(t, kube)
	who := resourcesAs(t, "", "disruptions", namespace)
	named := func(name, user, groups string) *unstructured.Unstructured {
		d := disruptionWith(name, map[string]any{"cpuPressure": map[string]any{}})
		if user != "" || groups != "" {
			d.SetAnnotations(map[string]string{v1beta1.AnnotationRequester: user, v1beta1.AnnotationRequesterGroups: groups})
		}
		return d
	}
	const own = "system:masters\nsystem:authenticated"
	for name, test := range map[string]struct {
		user, groups string
		refused      bool
	}{
		"nobody":         {"", "", false},
		"oneself":        {"admin", own, false},
		"another":        {"ann", own, true},
		"other groups":   {"admin", own + "\nops", true},
		"without groups": {"admin", "", true},
	} {
		_, err := who.Create(t.Context(), named("web", test.user, test.groups), dryRun)
		if (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), "say who asks for it: that is admin, so leave them out") {
			t.Errorf("%s: %v, want it refused: %t", name, err, test.refused)
		}
	}
	_, err := who.Create(t.Context(), named("web", "admin", own), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		_, err := who.Patch(t.Context(), "web", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun.DryRun})
		return err
	}
	for _, body := range []string{
		`{"metadata":{"annotations":null}}`,
		`{"metadata":{"annotations":{"` + v1beta1.AnnotationRequester + `":"ann"}}}`,
		`{"metadata":{"annotations":{"` + v1beta1.AnnotationRequesterGroups + `":"ops"}}}`,
		`{"spec":{"reporting":{"purpose":"another reason for it"}},"metadata":{"annotations":{"` + v1beta1.AnnotationRequester + `":null}}}`,
	} {
		if err := patch(body); err == nil || !strings.Contains(err.Error(), "stay as they are") {
			t.Errorf("%s: %v, want it refused", body, err)
		}
	}
	if err := patch(`{"metadata":{"annotations":{"mine":"b"}}}`); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	wantEditsInTheOwnName(t, kube, namespace, patch)
	if _, err := resourcesAs(t, "system:serviceaccount:squall-system:squall-crdbridge", "disruptions", namespace).
		Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`), metav1.PatchOptions{DryRun: dryRun.DryRun}); err != nil {
		t.Errorf("the bridge's finalizer: %v", err)
	}
}

// wantEditsInTheOwnName wants that only its requester, admin, can edit web before it
// begins.
func wantEditsInTheOwnName(t *testing.T, kube kubernetes.Interface, namespace string, byAdmin func(body string) error) {
	t.Helper()
	const edit = `{"spec":{"reporting":{"purpose":"another reason for it"}}}`
	bind(t, kube, "bob", "squall-disruptions", namespace)
	byBob := func() error {
		_, err := resourcesAs(t, "bob", "disruptions", namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(edit), metav1.PatchOptions{DryRun: dryRun.DryRun})
		return err
	}
	eventually(t, "another user may edit Disruptions, but not this one", func() error {
		if err := byBob(); err == nil || !strings.Contains(err.Error(), "it has not begun, and was asked for by admin") {
			return fmt.Errorf("his edit: %w", cmp.Or(err, errors.New("taken")))
		}
		return nil
	})
	if err := byAdmin(edit); err != nil {
		t.Errorf("the requester's edit: %v", err)
	}
	if _, err := resourcesAs(t, "", "disruptions", namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"status":{"specHash":"abc"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if err := byBob(); err != nil {
		t.Errorf("an edit by another user after it began: %v, want it taken, as it has no effect", err)
	}
}

// rule D5: the API server also refuses what a rule about requesters denies.
func TestRulesAboutRequestersAtAdmission(t *testing.T) {
	namespace := aNamespace(t, installed(t))
	policed(t, namespace, map[string]any{
		"name": "ours-only", "kinds": []any{"cpu-pressure"}, "namespaces": []any{namespace}, "exceptRequesters": map[string]any{"groups": []any{"system:masters"}},
	}, map[string]any{
		"name": "not-admin", "kinds": []any{"disk-failure"}, "namespaces": []any{namespace}, "requesters": map[string]any{"users": []any{"admin"}},
	}, map[string]any{
		"name": "not-ann", "kinds": []any{"memory-pressure"}, "namespaces": []any{namespace}, "requesters": map[string]any{"users": []any{"ann"}, "groups": []any{"ops"}},
	})
	faults := map[string]any{
		"cpuPressure": map[string]any{}, "memoryPressure": map[string]any{"targetPercent": "50%"},
		"diskFailure": map[string]any{"paths": []any{"/data"}, "probability": "50%"},
	}
	for _, test := range []struct {
		kind    string
		known   bool
		refused string
	}{
		{"cpuPressure", true, ""}, {"cpuPressure", false, `"ours-only" of DisruptionPolicy "` + namespace + `" (nobody knows who asked for it`},
		{"diskFailure", true, `"not-admin"`}, {"diskFailure", false, `"not-admin"`},
		{"memoryPressure", true, ""}, {"memoryPressure", false, `"not-ann"`},
	} {
		d := disruptionWith("web", map[string]any{"cpuPressure": nil, test.kind: faults[test.kind]})
		if test.known {
			d.SetAnnotations(v1beta1.Requester{User: "admin", Groups: []string{"system:masters", "system:authenticated"}}.Annotations())
		}
		err := tried(t, "", namespace, "disruptions", d)
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s, known %t: %v, want %q", test.kind, test.known, err, test.refused)
		}
	}
}
