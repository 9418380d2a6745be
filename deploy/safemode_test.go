package deploy

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// ofNetwork returns the spec of a network disruption, with more fields below network.
func ofNetwork(more map[string]any) map[string]any {
	network := map[string]any{"drop": int64(10)}
	for field, value := range more {
		network[field] = value
	}
	return map[string]any{"cpuPressure": nil, "network": network}
}

// judgedBySafeMode are specs with the verdict of safe mode.
var judgedBySafeMode = []struct {
	name   string
	spec   map[string]any
	caught bool
}{
	{"no network", nil, false},
	{"all traffic", ofNetwork(nil), true},
	{"lists that are empty", ofNetwork(map[string]any{"hosts": []any{}, "services": nil}), true},
	{"HTTP to everybody", ofNetwork(map[string]any{"http": map[string]any{"methods": []any{"GET"}}}), true},
	{"a host", ofNetwork(map[string]any{"hosts": []any{map[string]any{"host": "10.0.0.1"}}}), false},
	{"a port", ofNetwork(map[string]any{"hosts": []any{map[string]any{"port": int64(80)}}}), false},
	{"a protocol of everybody", ofNetwork(map[string]any{"hosts": []any{map[string]any{"protocol": "tcp"}}}), true},
	{"a host, and everybody", ofNetwork(map[string]any{"hosts": []any{map[string]any{"host": "10.0.0.1"}, map[string]any{"host": "", "port": int64(0)}}}), true},
	{"a service", ofNetwork(map[string]any{"services": []any{map[string]any{"name": "orders"}}}), false},
	{"a service, and everybody", ofNetwork(map[string]any{"services": []any{map[string]any{"name": "orders"}}, "hosts": []any{map[string]any{"protocol": "tcp"}}}), true},
	{"a cloud", ofNetwork(map[string]any{"cloud": map[string]any{"aws": []any{map[string]any{"service": "S3"}}}}), false},
	{"set aside", unsafely(ofNetwork(nil), "disableNeitherHostNorPort"), false},
	{"all set aside", unsafely(ofNetwork(nil), "disableAll"), false},
	{"something else set aside", unsafely(ofNetwork(nil), "allowRootDiskFailure"), true},
}

func unsafely(spec map[string]any, field string) map[string]any {
	spec["unsafeMode"] = map[string]any{field: true}
	return spec
}

func disruptionWith(name string, spec map[string]any) *unstructured.Unstructured {
	d := aDisruption(name)
	for field, value := range spec {
		d.Object["spec"].(map[string]any)[field] = value
	}
	return d
}

// asked creates an object by a dry run and returns the warnings of the API server.
func asked(t *testing.T, resource string, object *unstructured.Unstructured) (warning string, err error) {
	t.Helper()
	config, received := apiserver.Start(t), &warnings{}
	config.WarningHandler = received
	_, err = dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: resource}).
		Namespace("default").Create(t.Context(), object, dryRun)
	received.mu.Lock()
	defer received.mu.Unlock()
	return strings.Join(received.texts, "\n"), err
}

// rule S15: by default a disruption of more than its spec names causes a warning. One
// component refuses it, and the other allows it without a warning.
func TestSafeMode(t *testing.T) {
	installed(t)
	restored(t, "squall-safe-mode")
	const message = "safe mode: network names neither host nor port"
	all := disruptionWith("asked", ofNetwork(nil))
	eventually(t, "by default it warns", func() bool {
		warning, err := asked(t, "disruptions", all)
		return err == nil && strings.Contains(warning, message)
	})
	for _, c := range judgedBySafeMode {
		warning, err := asked(t, "disruptions", disruptionWith("asked", c.spec))
		if err != nil || strings.Contains(warning, message) != c.caught {
			t.Errorf("%s: told %q, %v; want it to be caught: %t", c.name, warning, err, c.caught)
		}
		warning, err = asked(t, "disruptionscenarios", lastOfThree("asked", c.spec))
		if err != nil || strings.Contains(warning, message) != c.caught {
			t.Errorf("%s by a scenario: told %q, %v; want it to be caught: %t", c.name, warning, err, c.caught)
		}
		warning, err = asked(t, "disruptioncrons", aCron("asked", c.spec))
		if err != nil || strings.Contains(warning, message) != c.caught {
			t.Errorf("%s by a cron: told %q, %v; want it to be caught: %t", c.name, warning, err, c.caught)
		}
	}
	if _, err := disruptionsAs(t, "").Create(t.Context(), disruptionWith("all-traffic-before", ofNetwork(nil)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	apply(t, apiserver.Start(t), []*unstructured.Unstructured{bindingOf(t, overlaid(t, "components/safe-mode-enforce"), "squall-safe-mode")})
	refused(t, func() error { _, err := asked(t, "disruptions", all); return err }, message)
	refused(t, func() error { _, err := asked(t, "disruptioncrons", aCron("asked", ofNetwork(nil))); return err }, message)
	patch := func(body string) error {
		_, err := disruptionsAs(t, "").Patch(t.Context(), "all-traffic-before", types.MergePatchType, []byte(body), dryRunOfPatch)
		return err
	}
	if err := patch(`{"metadata":{"finalizers":null,"labels":{"a":"b"}}}`); err != nil {
		t.Errorf("what was there before cannot be looked after: %v", err)
	}
	if err := patch(`{"spec":{"dryRun":true}}`); !apierrors.IsForbidden(err) {
		t.Errorf("its spec can be edited: %v", err)
	}
	for _, c := range judgedBySafeMode {
		if _, err := asked(t, "disruptions", disruptionWith("asked", c.spec)); apierrors.IsForbidden(err) != c.caught {
			t.Errorf("%s, enforced: %v; want it refused: %t", c.name, err, c.caught)
		}
	}

	apply(t, apiserver.Start(t), []*unstructured.Unstructured{bindingOf(t, overlaid(t, "components/safe-mode-off"), "squall-safe-mode")})
	eventually(t, "with the other component it says nothing", func() bool {
		warning, err := asked(t, "disruptions", all)
		return err == nil && !strings.Contains(warning, message)
	})
}

var dryRunOfPatch = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}

// The worker and squall explain give the same messages as the API server.
func TestSafeModeIsTheSameInGo(t *testing.T) {
	policy := ""
	for _, object := range render(t, ".") {
		if object.GetKind() == "ValidatingAdmissionPolicy" && object.GetName() == "squall-safe-mode" {
			validations, _, _ := unstructured.NestedSlice(object.Object, "spec", "validations")
			policy = fmt.Sprint(validations...)
		}
	}
	for _, c := range judgedBySafeMode {
		d := &v1beta1.Disruption{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(disruptionWith("asked", c.spec).Object, d); err != nil {
			t.Fatal(err)
		}
		caught := d.Spec.CaughtBySafeMode()
		if len(caught) > 0 != c.caught {
			t.Errorf("%s: %q, want it to be caught: %t", c.name, caught, c.caught)
		}
		for _, message := range caught {
			if !strings.Contains(policy, "safe mode: "+message) {
				t.Errorf("%s: the policy does not say %q, but %s", c.name, message, policy)
			}
		}
	}
}
