package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// UnsafeMode sets safe mode aside for one disruption, and lets "/" fail at level
// node. The fields of nets that do not exist yet are accepted and have no effect.
type UnsafeMode struct {
	// DisableAll switches every safety net off.
	DisableAll bool `json:"disableAll,omitempty"`
	// DisableCountTooLarge has no effect yet: a disruption of most of a namespace
	// or cluster is not refused.
	DisableCountTooLarge bool `json:"disableCountTooLarge,omitempty"`
	// DisableNeitherHostNorPort allows a network disruption that names neither host
	// nor port, and so disturbs traffic with everybody.
	DisableNeitherHostNorPort bool `json:"disableNeitherHostNorPort,omitempty"`
	// DisableSpecificContainDisk has no effect; it is accepted so that older
	// manifests stay valid.
	DisableSpecificContainDisk bool `json:"disableSpecificContainDisk,omitempty"`
	// AllowRootDiskFailure allows a disk failure of "/" at level node.
	AllowRootDiskFailure bool `json:"allowRootDiskFailure,omitempty"`
	// Config has no effect yet: there are no limits to move.
	Config *UnsafeModeConfig `json:"config,omitempty"`
}

// UnsafeModeConfig is for the limits of safety nets that do not exist yet.
type UnsafeModeConfig struct {
	// CountTooLarge has no effect yet: any share of pods may be disturbed at once.
	CountTooLarge *CountTooLarge `json:"countTooLarge,omitempty"`
}

// CountTooLarge are the shares of pods that may be disturbed at once, which
// nothing counts yet. At least one is needed.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespaceThreshold) || has(self.clusterThreshold)",message="set namespaceThreshold, clusterThreshold or both"
type CountTooLarge struct {
	// NamespaceThreshold is the share of the namespace's pods, in percent, 1 to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	NamespaceThreshold *int `json:"namespaceThreshold,omitempty"`
	// ClusterThreshold is the share of the cluster's pods, in percent, 1 to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ClusterThreshold *int `json:"clusterThreshold,omitempty"`
}

func (u *UnsafeMode) validate(path *field.Path) field.ErrorList {
	if u == nil || u.Config == nil || u.Config.CountTooLarge == nil {
		return nil
	}
	limits, at := u.Config.CountTooLarge, path.Child("config", "countTooLarge")
	if limits.NamespaceThreshold == nil && limits.ClusterThreshold == nil {
		return field.ErrorList{field.Required(at, "set namespaceThreshold, clusterThreshold or both")}
	}
	var errs field.ErrorList
	if limits.NamespaceThreshold != nil {
		errs = append(errs, within(at.Child("namespaceThreshold"), *limits.NamespaceThreshold, 1, 100)...)
	}
	if limits.ClusterThreshold != nil {
		errs = append(errs, within(at.Child("clusterThreshold"), *limits.ClusterThreshold, 1, 100)...)
	}
	return errs
}

func (u *UnsafeMode) allowsRootDiskFailure() bool {
	return u != nil && (u.AllowRootDiskFailure || u.DisableAll)
}
