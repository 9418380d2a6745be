package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FinalizerPatch is the JSON patch that takes one finalizer off the object as
// it was read, and fails on any other version of it. found is false when the
// finalizer is not there.
func FinalizerPatch(object metav1.Object, finalizer string) (patch []byte, found bool) {
	return finalizerPatch(object, finalizer, "resourceVersion", object.GetResourceVersion())
}

// FinalizerPatchAnyVersion takes the finalizer off the object whatever was
// written to it since, for a judgement that nothing written can change. It
// fails on another object of the name, or when the finalizers have moved.
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
