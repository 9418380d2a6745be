package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FinalizerPatch returns the JSON patch that removes one finalizer from the object as
// it was read, and fails on any other version of it. found is false when the object
// does not have the finalizer.
func FinalizerPatch(object metav1.Object, finalizer string) (patch []byte, found bool) {
	return finalizerPatch(object, finalizer, "resourceVersion", object.GetResourceVersion())
}

// FinalizerPatchAnyVersion returns a patch that works for any later version of the
// object. It is for a decision that no write can change. The patch fails on another
// object of the name, or when the finalizers have moved.
func FinalizerPatchAnyVersion(object metav1.Object, finalizer string) (patch []byte, found bool) {
	return finalizerPatch(object, finalizer, "uid", string(object.GetUID()))
}

func finalizerPatch(object metav1.Object, finalizer, guard, value string) (patch []byte, found bool) {
	for i, name := range object.GetFinalizers() {
		if name != finalizer {
			continue
		}
		return fmt.Appendf(nil, `[{"op":"test","path":"/metadata/%s","value":%q},{"op":"test","path":"/metadata/finalizers/%d","value":%q},{"op":"remove","path":"/metadata/finalizers/%d"}]`,
			guard, value, i, finalizer, i), true
	}
	return nil, false
}
