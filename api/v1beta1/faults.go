package v1beta1

import "encoding/json"

// Kind names what is done to a target. It is the subcommand of the injector
// and the value of LabelDisruptionKind.
type Kind string

// The kinds, with the names the reference product gives them.
const (
	KindContainerFailure Kind = "container-failure"
	KindCPUPressure      Kind = "cpu-pressure"
	KindDiskFailure      Kind = "disk-failure"
	KindDiskPressure     Kind = "disk-pressure"
	KindDNS              Kind = "dns-disruption"
	KindGRPC             Kind = "grpc-disruption"
	KindMemoryPressure   Kind = "memory-pressure"
	KindNetwork          Kind = "network-disruption"
	KindNodeFailure      Kind = "node-failure"
	KindPodReplacement   Kind = "pod-replacement"
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
	// DNS falsifies name resolution.
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
	// Network disturbs packets.
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

// Requested lists the faults asked for, in a fixed order.
func (f Faults) Requested() []Fault {
	var requested []Fault
	add := func(present bool, kind Kind, params any) {
		if present {
			requested = append(requested, Fault{kind, params})
		}
	}
	add(f.ContainerFailure != nil, KindContainerFailure, f.ContainerFailure)
	add(f.CPUPressure != nil, KindCPUPressure, f.CPUPressure)
	add(f.DiskFailure != nil, KindDiskFailure, f.DiskFailure)
	add(f.DiskPressure != nil, KindDiskPressure, f.DiskPressure)
	add(f.DNS != nil, KindDNS, f.DNS)
	add(f.GRPC != nil, KindGRPC, f.GRPC)
	add(f.MemoryPressure != nil, KindMemoryPressure, f.MemoryPressure)
	add(f.Network != nil, KindNetwork, f.Network)
	add(f.NodeFailure != nil, KindNodeFailure, f.NodeFailure)
	add(f.PodReplacement != nil, KindPodReplacement, f.PodReplacement)
	return requested
}

// Document returns the parameters as the JSON an injector receives.
func (f Fault) Document() (json.RawMessage, error) { return json.Marshal(f.Params) }

// Needs is what the chaos pod of a kind gets beyond nothing at all.
//
// +kubebuilder:object:generate=false
type Needs struct {
	// Capabilities of the container, without the CAP_ prefix.
	Capabilities []string
	// Cgroups mounts the node's /sys/fs/cgroup at the same path, writable.
	Cgroups bool
}

// Needs returns the rights the kind's injector uses, and no more.
func (k Kind) Needs() Needs { return needs[k] }

var needs = map[Kind]Needs{
	KindContainerFailure: {Capabilities: []string{"KILL", "SYS_PTRACE"}},
	KindCPUPressure:      {Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE", "SYS_NICE", "KILL", "DAC_OVERRIDE"}, Cgroups: true},
	KindDiskPressure:     {Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE", "DAC_OVERRIDE"}, Cgroups: true},
	KindNetwork:          {Capabilities: []string{"NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE", "BPF", "PERFMON", "DAC_OVERRIDE"}, Cgroups: true},
}
