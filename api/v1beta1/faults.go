package v1beta1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Faults has one optional field per kind; what is set is asked for, even when
// it is empty.
type Faults struct {
	// ContainerFailure ends containers.
	//
	// +nullable
	ContainerFailure *ContainerFailure `json:"containerFailure,omitempty"`
	// CPUPressure burns CPU time.
	//
	// +nullable
	CPUPressure *CPUPressure `json:"cpuPressure,omitempty"`
	// DiskFailure makes the opening of files fail.
	//
	// +nullable
	DiskFailure *DiskFailure `json:"diskFailure,omitempty"`
	// DiskPressure throttles disks.
	//
	// +nullable
	DiskPressure *DiskPressure `json:"diskPressure,omitempty"`
	// DNS changes the answers to DNS queries.
	//
	// +nullable
	DNS *DNSDisruption `json:"dns,omitempty"`
	// GRPC alters the answers of a gRPC server.
	//
	// +nullable
	GRPC *GRPCDisruption `json:"grpc,omitempty"`
	// MemoryPressure fills memory.
	//
	// +nullable
	MemoryPressure *MemoryPressure `json:"memoryPressure,omitempty"`
	// Network disrupts packets.
	//
	// +nullable
	Network *NetworkDisruption `json:"network,omitempty"`
	// NodeFailure crashes nodes.
	//
	// +nullable
	NodeFailure *NodeFailure `json:"nodeFailure,omitempty"`
	// PodReplacement moves pods to other nodes.
	//
	// +nullable
	PodReplacement *PodReplacement `json:"podReplacement,omitempty"`
}

// Fault is one kind asked for, with its parameters.
//
// +kubebuilder:object:generate=false
type Fault struct {
	Kind   Kind
	Params any
}

// Requested lists the faults asked for, in the order of the table of kinds.
func (f Faults) Requested() []Fault {
	var requested []Fault
	for _, row := range kindTable {
		if params := row.params(f); params != nil {
			requested = append(requested, Fault{row.Kind, params})
		}
	}
	return requested
}

// validate checks the parameters of every kind asked for.
func (f Faults) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, row := range kindTable {
		if params := row.params(f); params != nil {
			errs = append(errs, params.validate(path.Child(row.Field))...)
		}
	}
	return errs
}

// Document returns the parameters as the JSON an injector receives.
func (f Fault) Document() (json.RawMessage, error) { return json.Marshal(f.Params) }
