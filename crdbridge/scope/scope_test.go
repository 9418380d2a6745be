package scope

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestNamespaces(t *testing.T) {
	for _, test := range []struct {
		namespace string
		watched   []string
		want      bool
	}{
		{"shop", nil, true},
		{"shop", []string{"cart", "shop"}, true},
		{"shop", []string{"cart"}, false},
		{"system", nil, false},
		{"chaos", nil, false},
		{"kube-system", nil, false},
		{"chaos", []string{"chaos"}, false},
		{"kube-system", []string{"kube-system"}, false},
	} {
		n := Namespaces{System: "system", Chaos: "chaos", Watched: test.watched}
		if got := n.Has(test.namespace); got != test.want {
			t.Errorf("Has(%q) = %t where %q are watched, want %t", test.namespace, got, test.watched, test.want)
		}
	}
}

func TestPod(t *testing.T) {
	asked := func(change func(*admission.Request)) admission.Request {
		r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "shop", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"new"}}`)},
		}}
		change(&r)
		return r
	}
	for _, test := range []struct {
		name      string
		request   admission.Request
		operation admissionv1.Operation
		want      string // name of the pod
	}{
		{"a creation", asked(func(*admission.Request) {}), admissionv1.Create, "new"},
		{"a deletion", asked(func(r *admission.Request) {
			r.Operation, r.Object, r.OldObject = admissionv1.Delete, runtime.RawExtension{}, runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"old"}}`)}
		}), admissionv1.Delete, "old"},
		{"another operation", asked(func(r *admission.Request) { r.Operation = admissionv1.Update }), admissionv1.Create, ""},
		{"another resource", asked(func(r *admission.Request) { r.Resource.Resource = "services" }), admissionv1.Create, ""},
		{"a part of a pod", asked(func(r *admission.Request) { r.SubResource = "eviction" }), admissionv1.Create, ""},
		{"in another namespace", asked(func(r *admission.Request) { r.Namespace = "kube-system" }), admissionv1.Create, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, err := Namespaces{}.Pod(test.request, test.operation)
			if err != nil || (pod == nil) != (test.want == "") || pod != nil && pod.Name != test.want {
				t.Errorf("Pod = %v, %v, want %q", pod, err, test.want)
			}
		})
	}
	if _, err := (Namespaces{}).Pod(asked(func(r *admission.Request) { r.Object.Raw = []byte("[]") }), admissionv1.Create); err == nil {
		t.Error("what is no pod is decoded")
	}
}
