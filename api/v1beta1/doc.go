// Package v1beta1 defines the resources of Squall and everything about them that
// needs no cluster: types, defaults, validation and the document a chaos pod
// carries. It imports apimachinery only and does no I/O.
//
// Go programs use these types with any Kubernetes client. Register them with
// AddToScheme; the package example creates a Disruption and ends it.
//
// +kubebuilder:object:generate=true
// +groupName=chaos.squall.dev
package v1beta1
