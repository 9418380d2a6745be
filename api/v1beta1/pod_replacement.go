package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// PodReplacement deletes the target while its node takes no new pods, so that
// its replacement starts elsewhere. The worker does it, through the API. A pod
// that no controller would start elsewhere is no target. Pod level only, and no
// other kind beside it.
type PodReplacement struct {
	// DeleteStorage also deletes the PersistentVolumeClaims that the target
	// mounts, but for those that other pods mount as well. Default true.
	//
	// +kubebuilder:default=true
	DeleteStorage *bool `json:"deleteStorage,omitempty"`
	// ForceDelete deletes without a grace period. Default false.
	ForceDelete bool `json:"forceDelete,omitempty"`
	// GracePeriodSeconds replaces the pod's own grace period, 0 to 600 s: as long is the
	// pod's node cordoned. Nothing means the pod's own.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	// +nullable
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
}

func (r *PodReplacement) validate(path *field.Path) field.ErrorList {
	if r.GracePeriodSeconds == nil {
		return nil
	}
	return between(path.Child("gracePeriodSeconds"), *r.GracePeriodSeconds, 0, 600)
}
