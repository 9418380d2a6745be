package v1beta1

import "k8s.io/apimachinery/pkg/util/intstr"

// ContainerFailure ends the target's containers by a signal to their first process.
type ContainerFailure struct {
	// Forced sends SIGKILL; otherwise SIGTERM, which a process may ignore.
	Forced bool `json:"forced,omitempty"`
}

// CPUPressure burns CPU time inside the target's cgroup.
type CPUPressure struct {
	// Count is a number of cores or a percentage of the cores the target may use. Nil means 100%.
	Count *intstr.IntOrString `json:"count,omitempty"`
}

// DiskPressure throttles the target's access to the disk below a path.
type DiskPressure struct {
	// Path is a file or directory in the target; the disk below it is throttled.
	Path       string                 `json:"path"`
	Throttling DiskPressureThrottling `json:"throttling"`
}

// DiskPressureThrottling are the limits; nil means unlimited.
type DiskPressureThrottling struct {
	ReadBytesPerSec  *int64 `json:"readBytesPerSec,omitempty"`
	WriteBytesPerSec *int64 `json:"writeBytesPerSec,omitempty"`
	ReadIOPSPerSec   *int64 `json:"readIOPSPerSec,omitempty"`
	WriteIOPSPerSec  *int64 `json:"writeIOPSPerSec,omitempty"`
}
