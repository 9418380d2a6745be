package v1beta1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DiskPressure throttles the target's access to the disk below a path.
type DiskPressure struct {
	// Path is the absolute path of a file or directory in the target; the disk
	// below it is throttled. At node level it is a path of the node. Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="want an absolute path, such as /data",messageExpression="'\"' + self + '\": want an absolute path, such as /data'"
	Path string `json:"path"`
	// Throttling are the limits. Without any, the disk is not throttled.
	//
	// +nullable
	Throttling DiskPressureThrottling `json:"throttling,omitempty"`
}

// The least limits. Below them a target does not slow down but stand still, and with it
// every process that waits for its writes: on ext4 every fsync of the disk may. All pods of a
// node share theirs, and the injector is one of them: it has to read its own program
// from the disk to take the limits off again.
const (
	podBytesPerSec  = 64 << 10
	podIOPSPerSec   = 10
	nodeBytesPerSec = 1 << 20
	nodeIOPSPerSec  = 20
)

// DiskPressureThrottling are the limits, per target and direction. Absent or 0
// means unlimited.
type DiskPressureThrottling struct {
	// ReadBytesPerSec limits reading, in bytes per second: at least 65536,
	// and 1048576 at level node.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self <= 0 || self >= 65536",message="want 0 for no limit, or at least 65536 at level pod and 1048576 at level node: below that a target stands still",messageExpression="'%d: want 0 for no limit, or at least 65536 at level pod and 1048576 at level node: below that a target stands still'.format([self])"
	// +nullable
	ReadBytesPerSec *int64 `json:"readBytesPerSec,omitempty"`
	// WriteBytesPerSec limits writing, in bytes per second: at least 65536,
	// and 1048576 at level node.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self <= 0 || self >= 65536",message="want 0 for no limit, or at least 65536 at level pod and 1048576 at level node: below that a target stands still",messageExpression="'%d: want 0 for no limit, or at least 65536 at level pod and 1048576 at level node: below that a target stands still'.format([self])"
	// +nullable
	WriteBytesPerSec *int64 `json:"writeBytesPerSec,omitempty"`
	// ReadIOPSPerSec limits reading, in operations per second: at least 10,
	// and 20 at level node.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self <= 0 || self >= 10",message="want 0 for no limit, or at least 10 at level pod and 20 at level node: below that a target stands still",messageExpression="'%d: want 0 for no limit, or at least 10 at level pod and 20 at level node: below that a target stands still'.format([self])"
	// +nullable
	ReadIOPSPerSec *int64 `json:"readIOPSPerSec,omitempty"`
	// WriteIOPSPerSec limits writing, in operations per second: at least 10,
	// and 20 at level node.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self <= 0 || self >= 10",message="want 0 for no limit, or at least 10 at level pod and 20 at level node: below that a target stands still",messageExpression="'%d: want 0 for no limit, or at least 10 at level pod and 20 at level node: below that a target stands still'.format([self])"
	// +nullable
	WriteIOPSPerSec *int64 `json:"writeIOPSPerSec,omitempty"`
}

// DiskLimit is a limit of DiskPressureThrottling.
//
// +kubebuilder:object:generate=false
type DiskLimit struct {
	// Field is its name.
	Field string
	// Value is what is asked for, Least what the level takes, per second.
	Value, Least int64
	// leastOfNode is Least at level node.
	leastOfNode int64
}

// limits are those that are asked for, with what level pod takes.
func (t DiskPressureThrottling) limits() []DiskLimit {
	var asked []DiskLimit
	add := func(field string, value *int64, least, leastOfNode int64) {
		if value != nil {
			asked = append(asked, DiskLimit{field, *value, least, leastOfNode})
		}
	}
	add("readBytesPerSec", t.ReadBytesPerSec, podBytesPerSec, nodeBytesPerSec)
	add("writeBytesPerSec", t.WriteBytesPerSec, podBytesPerSec, nodeBytesPerSec)
	add("readIOPSPerSec", t.ReadIOPSPerSec, podIOPSPerSec, nodeIOPSPerSec)
	add("writeIOPSPerSec", t.WriteIOPSPerSec, podIOPSPerSec, nodeIOPSPerSec)
	return asked
}

// TooLow is the first limit under which a target of the level would stand still; false
// if there is none. 0 is no limit.
func (t DiskPressureThrottling) TooLow(level Level) (DiskLimit, bool) {
	for _, limit := range t.limits() {
		if level == LevelNode {
			limit.Least = limit.leastOfNode
		}
		if limit.Value > 0 && limit.Value < limit.Least {
			return limit, true
		}
	}
	return DiskLimit{}, false
}

func (p *DiskPressure) validate(path *field.Path) field.ErrorList {
	errs := length(path.Child("path"), p.Path, 1, 4096)
	if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
		errs = append(errs, field.Invalid(path.Child("path"), p.Path, "want an absolute path, such as /data"))
	}
	for _, limit := range p.Throttling.limits() {
		at := path.Child("throttling", limit.Field)
		errs = append(errs, atLeast(at, limit.Value, 0)...)
		if limit.Value > 0 && limit.Value < limit.Least {
			errs = append(errs, field.Invalid(at, limit.Value, fmt.Sprintf(
				"want 0 for no limit, or at least %d at level pod and %d at level node: below that a target stands still", limit.Least, limit.leastOfNode)))
		}
	}
	return errs
}
