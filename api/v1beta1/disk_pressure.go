package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// DiskPressure throttles the target's access to the disk below a path.
type DiskPressure struct {
	// Path is a file or directory in the target; the disk below it is
	// throttled. At node level it is a path of the node. Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path"`
	// Throttling are the limits. Without any, the disk is not throttled.
	//
	// +nullable
	Throttling DiskPressureThrottling `json:"throttling,omitempty"`
}

// DiskPressureThrottling are the limits, per target and direction. Absent or 0
// means unlimited.
type DiskPressureThrottling struct {
	// ReadBytesPerSec limits reading, in bytes per second.
	//
	// +kubebuilder:validation:Minimum=0
	// +nullable
	ReadBytesPerSec *int64 `json:"readBytesPerSec,omitempty"`
	// WriteBytesPerSec limits writing, in bytes per second.
	//
	// +kubebuilder:validation:Minimum=0
	// +nullable
	WriteBytesPerSec *int64 `json:"writeBytesPerSec,omitempty"`
	// ReadIOPSPerSec limits reading, in operations per second.
	//
	// +kubebuilder:validation:Minimum=0
	// +nullable
	ReadIOPSPerSec *int64 `json:"readIOPSPerSec,omitempty"`
	// WriteIOPSPerSec limits writing, in operations per second.
	//
	// +kubebuilder:validation:Minimum=0
	// +nullable
	WriteIOPSPerSec *int64 `json:"writeIOPSPerSec,omitempty"`
}

func (p *DiskPressure) validate(path *field.Path) field.ErrorList {
	errs := length(path.Child("path"), p.Path, 1, 4096)
	throttling := path.Child("throttling")
	for _, limit := range []struct {
		name  string
		value *int64
	}{
		{"readBytesPerSec", p.Throttling.ReadBytesPerSec},
		{"writeBytesPerSec", p.Throttling.WriteBytesPerSec},
		{"readIOPSPerSec", p.Throttling.ReadIOPSPerSec},
		{"writeIOPSPerSec", p.Throttling.WriteIOPSPerSec},
	} {
		if limit.value != nil {
			errs = append(errs, atLeast(throttling.Child(limit.name), *limit.value, 0)...)
		}
	}
	return errs
}
