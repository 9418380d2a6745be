// Package crdtest holds the CRDs against a real API server: whatever
// Disruption.Validate accepts or refuses, the API server does too, without any
// webhook. It is a package of its own so that api imports no client.
package crdtest

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// manifest is one case: a disruption and the expected answer of both judges.
type manifest struct {
	name string
	// text is the spec, or a whole object if it begins with apiVersion.
	text string
	// refused is part of every judge's answer; empty means accepted.
	refused string
}

func (m manifest) object() []byte {
	if strings.HasPrefix(m.text, "apiVersion:") {
		return []byte(m.text)
	}
	indented := strings.ReplaceAll(strings.TrimRight(m.text, "\n"), "\n", "\n  ")
	return []byte("apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: sample, namespace: default}\nspec:\n  " + indented + "\n")
}

// The Go half runs everywhere, also where there is no API server to compare with.
func TestValidate(t *testing.T) {
	for _, m := range manifests {
		t.Run(m.name, func(t *testing.T) {
			_, err := judgeHere(m.object())
			m.check(t, "Decode and Validate", err)
		})
	}
}

func TestAPIServerAgreesWithValidate(t *testing.T) {
	client := disruptions(t)
	for _, m := range manifests {
		t.Run(m.name, func(t *testing.T) {
			stored, err := judgeThere(t, client, m.object())
			m.check(t, "the API server", err)
			if local, err := judgeHere(m.object()); err == nil && !t.Failed() {
				sameAfterStoring(t, client, m.object(), local, stored)
			}
		})
	}
}

func (m manifest) check(t *testing.T, judge string, err error) {
	t.Helper()
	if m.refused == "" && err != nil {
		t.Errorf("%s refused it: %v", judge, err)
	}
	if m.refused != "" && err == nil {
		t.Errorf("%s accepted it, want a refusal with %q", judge, m.refused)
	}
	if m.refused != "" && err != nil && !strings.Contains(err.Error(), m.refused) {
		t.Errorf("%s refused it with %v, want %q in it", judge, err, m.refused)
	}
}

// sameAfterStoring checks that the server's defaults are Default's, that
// server-side apply stores the same as a create, and that writing back what was
// read is accepted and changes nothing.
func sameAfterStoring(t *testing.T, client dynamic.ResourceInterface, text []byte, local, stored *v1beta1.Disruption) {
	t.Helper()
	if viaApply, err := applied(t, client, text); err != nil {
		t.Errorf("server-side apply refused it: %v", err)
	} else if viaApply.Spec.Hash() != local.Spec.Hash() {
		t.Errorf("server-side apply made %+v of it, Default %+v", viaApply.Spec, local.Spec)
	}
	if local.Spec.Hash() != stored.Spec.Hash() {
		t.Errorf("the API server made %+v of it, Default %+v", stored.Spec, local.Spec)
	}
	written, err := yaml.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	again, err := judgeThere(t, client, written)
	if err != nil {
		t.Fatalf("the API server refused what Go wrote of it: %v\n%s", err, written)
	}
	if again.Spec.Hash() != stored.Spec.Hash() {
		t.Errorf("writing %+v back made %+v of it", stored.Spec, again.Spec)
	}
}

// applied is what GitOps does: server-side apply, which keeps a null that a
// create would drop.
func applied(t *testing.T, client dynamic.ResourceInterface, text []byte) (*v1beta1.Disruption, error) {
	t.Helper()
	return ask(t, text, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "gitops"})
	})
}

// judgeHere is what `squall validate` and the worker do.
func judgeHere(text []byte) (*v1beta1.Disruption, error) {
	d, err := v1beta1.Decode(text)
	if err != nil {
		return nil, err
	}
	d.Default()
	return d, d.Validate().ToAggregate()
}

// judgeThere asks the API server, as strictly as kubectl does, storing nothing.
func judgeThere(t *testing.T, client dynamic.ResourceInterface, text []byte) (*v1beta1.Disruption, error) {
	t.Helper()
	return ask(t, text, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	})
}

func ask(t *testing.T, text []byte, question func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (*v1beta1.Disruption, error) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		t.Fatal(err)
	}
	answer, err := question(object)
	if err != nil {
		return nil, err
	}
	d := &v1beta1.Disruption{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, d); err != nil {
		t.Fatalf("read the API server's answer: %v", err)
	}
	return d, nil
}

func disruptions(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1beta1.GroupVersion.WithResource("disruptions")).Namespace("default")
}
