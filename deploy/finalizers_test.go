package deploy

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/apiserver"
)

// The credentials of a program cannot redirect a disruption: they allow changes of
// finalizers only, which both programs need.
func TestProgramsChangeNothingOfADisruptionButItsFinalizers(t *testing.T) {
	installed(t)
	resource := schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptions"}
	as := func(user string) dynamic.ResourceInterface {
		config := rest.CopyConfig(apiserver.Start(t))
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{
				UserName: "system:serviceaccount:squall-system:" + user, Groups: []string{"system:serviceaccounts", "system:authenticated"},
			}
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client.Resource(resource).Namespace("default")
	}
	if _, err := as("").Create(t.Context(), aDisruption("guarded"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(ctx context.Context, user, body string) error {
		_, err := as(user).Patch(ctx, "guarded", types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const redirect = `{"spec":{"selector":{"app":"bank"}}}`
	for _, program := range []string{"squall-worker", "squall-crdbridge"} {
		// The API server applies new policies and rights after a moment.
		eventually(t, program+" may write finalizers and nothing else", func() error {
			selector, finalizer := patch(t.Context(), program, redirect), patch(t.Context(), program, `{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`)
			if !apierrors.IsForbidden(selector) || finalizer != nil {
				return fmt.Errorf("a new selector: %v, want it forbidden; a finalizer: %v, want it written", selector, finalizer)
			}
			return nil
		})
		if err := patch(t.Context(), program, `{"metadata":{"labels":{"team":"bank"}}}`); !apierrors.IsForbidden(err) {
			t.Errorf("%s: a label: %v, want it forbidden", program, err)
		}
		// The garbage collector deletes an object whose owner is gone.
		dead := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"00000000-0000-0000-0000-000000000000"}]}}`
		if err := patch(t.Context(), program, dead); !apierrors.IsForbidden(err) {
			t.Errorf("%s: an owner: %v, want it forbidden", program, err)
		}
	}
	// An emergency stop marks crons, rollouts and scenarios, and no Disruption.
	scenario := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "chaos.squall.dev/v1beta1", "kind": "DisruptionScenario", "metadata": map[string]any{"name": "guarded"},
		"spec": map[string]any{"steps": []any{map[string]any{"name": "calm", "wait": "1h"}}},
	}}
	resource.Resource = "disruptionscenarios"
	if _, err := as("").Create(t.Context(), scenario, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const mark = `{"metadata":{"annotations":{"chaos.squall.dev/stopped":"2026-11-29T12:00:00Z emergency stop fire"}}}`
	if err := patch(t.Context(), "squall-crdbridge", mark); err != nil {
		t.Errorf("the mark of an emergency stop on a scenario: %v, want it written", err)
	}
	if err := patch(t.Context(), "squall-crdbridge", `{"metadata":{"annotations":{"chaos.squall.dev/approved-by.look":"squall"}}}`); !apierrors.IsForbidden(err) {
		t.Errorf("an approval by a program: %v, want it forbidden", err)
	}
	resource.Resource = "disruptions"
	if err := patch(t.Context(), "squall-crdbridge", mark); !apierrors.IsForbidden(err) {
		t.Errorf("the mark of an emergency stop on a disruption: %v, want it forbidden", err)
	}
	if err := patch(t.Context(), "", redirect); err != nil {
		t.Errorf("a person edits the spec: %v, want it accepted", err)
	}
}
