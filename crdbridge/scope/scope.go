// Package scope selects the pods that the bridge's admission webhooks act on, whatever
// requests their configurations let through.
package scope

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Namespaces separates the namespaces whose pods may be acted on from those left alone.
type Namespaces struct {
	// System and Chaos are Squall's own.
	System, Chaos string
	// Watched are the namespaces that the bridge handles; empty means all.
	Watched []string
}

// Has is true for a namespace whose pods may be acted on.
func (n Namespaces) Has(namespace string) bool {
	if slices.Contains([]string{n.System, n.Chaos, metav1.NamespaceSystem}, namespace) {
		return false
	}
	return len(n.Watched) == 0 || slices.Contains(n.Watched, namespace)
}

// Pod is the pod of a request for the operation in one of the namespaces: as it is to be
// created, or as it was before its deletion. It is nil for any other request.
func (n Namespaces) Pod(request admission.Request, operation admissionv1.Operation) (*corev1.Pod, error) {
	if request.Operation != operation || request.Resource.Resource != "pods" || request.SubResource != "" || !n.Has(request.Namespace) {
		return nil, nil
	}
	object := request.Object
	if operation == admissionv1.Delete {
		object = request.OldObject
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(object.Raw, pod); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	return pod, nil
}
