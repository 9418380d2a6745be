package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/test/apiserver"
)

// A time in the far future is refused on creation by a policy, as a CRD cannot compare with
// the current time.
func TestDisruptionEndsWithinAYear(t *testing.T) {
	installed(t)
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	disruptions := client.Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptions"}).Namespace("default")
	create := func(ctx context.Context, spec map[string]any) error {
		d := aDisruption("late")
		for field, value := range spec {
			d.Object["spec"].(map[string]any)[field] = value
		}
		_, err := disruptions.Create(ctx, d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	in := func(hours time.Duration) string { return time.Now().Add(hours * time.Hour).UTC().Format(time.RFC3339) }
	moment := func(text string) map[string]any { return map[string]any{"notBefore": text} }
	never := map[string]any{"triggers": map[string]any{"inject": moment("9999-12-31T23:59:59Z")}}
	const message = "more than a year (8760h) after its creation"
	// The API server applies a new policy after a moment.
	eventually(t, "a disruption that injects in the year 9999 is refused", func() error {
		if err := create(t.Context(), never); err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("create = %v", err)
		}
		return nil
	})
	for _, c := range []struct {
		name    string
		spec    map[string]any
		refused bool
	}{
		{"nothing said", nil, false},
		{"triggers that are null", map[string]any{"triggers": nil}, false},
		{"moments that are null", map[string]any{"triggers": map[string]any{"inject": map[string]any{"notBefore": nil, "offset": nil}, "createPods": nil}}, false},
		{"a duration as a number", map[string]any{"duration": int64(time.Minute)}, false},
		{"a moment in half a year", map[string]any{"triggers": map[string]any{"inject": moment(in(4380))}}, false},
		{"a moment in two years", map[string]any{"triggers": map[string]any{"inject": moment(in(17520))}}, true},
		{"chaos pods in two years", map[string]any{"triggers": map[string]any{"createPods": moment(in(17520))}}, true},
		{"a moment in half a year and an offset after it", map[string]any{"duration": "2h",
			"triggers": map[string]any{"createPods": moment(in(4380)), "inject": map[string]any{"offset": "4400h"}}}, true},
		{"a moment within the year, a duration beyond it", map[string]any{"duration": "48h", "triggers": map[string]any{"inject": moment(in(8740))}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := create(t.Context(), c.spec)
			if c.refused && (err == nil || !strings.Contains(err.Error(), message)) {
				t.Errorf("create = %v, want a refusal with %q", err, message)
			}
			if !c.refused && err != nil {
				t.Errorf("create = %v, want no refusal", err)
			}
		})
	}
}
