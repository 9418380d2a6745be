// Package v1beta1 holds the resources of Squall and everything that can be
// said about them without a cluster: types, defaults, validation and the
// document a chaos pod carries. It imports apimachinery only and does no I/O.
//
// +kubebuilder:object:generate=true
// +groupName=chaos.squall.dev
package v1beta1
