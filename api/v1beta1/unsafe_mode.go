package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// UnsafeMode sets safe mode aside for one disruption, and lets "/" fail at level
// node.
type UnsafeMode struct {
	// DisableAll switches every safety net off.
	DisableAll bool `json:"disableAll,omitempty"`
	// DisableCountTooLarge allows a disruption of most of a namespace or cluster.
	DisableCountTooLarge bool `json:"disableCountTooLarge,omitempty"`
	// DisableNeitherHostNorPort allows a network disruption without host and port,
	// which disrupts all traffic.
	DisableNeitherHostNorPort bool `json:"disableNeitherHostNorPort,omitempty"`
	// DisableSpecificContainDisk has no effect; it is accepted so that older
	// manifests stay valid.
	DisableSpecificContainDisk bool `json:"disableSpecificContainDisk,omitempty"`
	// AllowRootDiskFailure allows a disk failure of "/" at level node.
	AllowRootDiskFailure bool `json:"allowRootDiskFailure,omitempty"`
	// AllowMemoryPressureWithoutLimit allows memory pressure at level pod on pods with
	// a container without a memory limit. It fills the node, so the requester needs the
	// right to disrupt nodes.
	AllowMemoryPressureWithoutLimit bool `json:"allowMemoryPressureWithoutLimit,omitempty"`
	// Config moves the limits of safe mode.
	Config *UnsafeModeConfig `json:"config,omitempty"`
}

// UnsafeModeConfig are the limits of safe mode for one disruption.
type UnsafeModeConfig struct {
	// CountTooLarge are the shares of pods, or nodes, that may be disrupted.
	CountTooLarge *CountTooLarge `json:"countTooLarge,omitempty"`
}

// CountTooLarge are the shares of pods, or nodes, that may be disrupted, in place of
// the operator's, 80 and 66 unless they set others. At least one is needed.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespaceThreshold) || has(self.clusterThreshold)",message="set namespaceThreshold, clusterThreshold or both"
type CountTooLarge struct {
	// NamespaceThreshold is the share of the namespace's pods, in percent, 1 to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	NamespaceThreshold *int `json:"namespaceThreshold,omitempty"`
	// ClusterThreshold is the share of the cluster's pods, or at level node of its
	// nodes, in percent, 1 to 100.
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

// NeedsMemoryLimit is true of a spec that disrupts pods with a memory limit alone: of
// others memory pressure would fill the node.
func (s DisruptionSpec) NeedsMemoryLimit() bool {
	u := s.UnsafeMode
	return s.MemoryPressure != nil && s.Level != LevelNode && (u == nil || !u.AllowMemoryPressureWithoutLimit && !u.DisableAll)
}

func (u *UnsafeMode) allowsRootDiskFailure() bool {
	return u != nil && (u.AllowRootDiskFailure || u.DisableAll)
}
