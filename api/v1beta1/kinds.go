package v1beta1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

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

// KindRow is everything about a kind that does not depend on a disruption. A
// kind is one row here, one field of Faults, and one package of the injector or
// of the activities.
//
// +kubebuilder:object:generate=false
type KindRow struct {
	Kind Kind
	// Field is the kind's field in the spec.
	Field string
	// By is the carrier of the kind.
	By Carrier
	// Needs are the rights of the kind's chaos pod. Nothing for a kind that the
	// worker carries out, which has no chaos pod.
	Needs Needs
	// Alone is true for a kind that ends its targets: it can neither be combined
	// with another kind nor pulse.
	Alone bool
	// PodOnly is true for a kind that cannot disrupt a node as a whole.
	PodOnly bool
	// WholePod is true for a kind that cannot be narrowed to some containers.
	WholePod bool
	// OnInit is true for a kind that can disrupt a pod whose containers do not run yet.
	OnInit bool

	// params returns the kind's parameters, nil when it is not asked for.
	params func(Faults) parameters
}

// Carrier is who carries a kind out.
type Carrier string

// The carriers: an injector in a chaos pod beside each target, or an activity
// of the worker, which acts through the Kubernetes API.
const (
	ByInjector Carrier = "injector"
	ByWorker   Carrier = "worker"
)

// Needs is what the chaos pod of a kind gets beyond nothing at all.
//
// +kubebuilder:object:generate=false
type Needs struct {
	// Capabilities of the container, without the CAP_ prefix.
	Capabilities []string
	// Cgroups mounts the node's /sys/fs/cgroup at the same path, writable.
	Cgroups bool
}

// parameters are the parameters of a kind.
type parameters interface {
	validate(path *field.Path) field.ErrorList
}

// kindTable has a row for each field of Faults, in the same order, which is
// also the order in which kinds are listed everywhere.
var kindTable = kindRows{
	{
		Kind: KindContainerFailure, Field: "containerFailure", By: ByInjector, Alone: true, PodOnly: true,
		Needs:  Needs{Capabilities: []string{"KILL", "SYS_PTRACE"}},
		params: of(func(f Faults) *ContainerFailure { return f.ContainerFailure }),
	},
	{
		Kind: KindCPUPressure, Field: "cpuPressure", By: ByInjector,
		Needs:  Needs{Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE", "SYS_NICE", "KILL", "DAC_OVERRIDE"}, Cgroups: true},
		params: of(func(f Faults) *CPUPressure { return f.CPUPressure }),
	},
	{
		Kind: KindDiskFailure, Field: "diskFailure", By: ByInjector,
		Needs:  Needs{Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "DAC_READ_SEARCH", "IPC_LOCK"}},
		params: of(func(f Faults) *DiskFailure { return f.DiskFailure }),
	},
	{
		Kind: KindDiskPressure, Field: "diskPressure", By: ByInjector, WholePod: true,
		Needs:  Needs{Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE", "DAC_OVERRIDE"}, Cgroups: true},
		params: of(func(f Faults) *DiskPressure { return f.DiskPressure }),
	},
	{
		Kind: KindDNS, Field: "dns", By: ByInjector, PodOnly: true, OnInit: true,
		Needs:  Needs{Capabilities: []string{"NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"}},
		params: of(func(f Faults) *DNSDisruption { return f.DNS }),
	},
	{
		Kind: KindGRPC, Field: "grpc", By: ByInjector, PodOnly: true,
		Needs:  Needs{Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE"}},
		params: of(func(f Faults) *GRPCDisruption { return f.GRPC }),
	},
	{
		Kind: KindMemoryPressure, Field: "memoryPressure", By: ByInjector, WholePod: true,
		Needs:  Needs{Capabilities: []string{"SYS_ADMIN", "SYS_PTRACE", "SYS_NICE", "KILL", "DAC_OVERRIDE"}, Cgroups: true},
		params: of(func(f Faults) *MemoryPressure { return f.MemoryPressure }),
	},
	{
		Kind: KindNetwork, Field: "network", By: ByInjector, OnInit: true,
		Needs:  Needs{Capabilities: []string{"NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", "BPF", "DAC_OVERRIDE"}, Cgroups: true},
		params: of(func(f Faults) *NetworkDisruption { return f.Network }),
	},
	{
		Kind: KindNodeFailure, Field: "nodeFailure", By: ByInjector, Alone: true,
		Needs:  Needs{Capabilities: []string{"SYS_PTRACE"}},
		params: of(func(f Faults) *NodeFailure { return f.NodeFailure }),
	},
	{
		Kind: KindPodReplacement, Field: "podReplacement", By: ByWorker, Alone: true, PodOnly: true, WholePod: true,
		params: of(func(f Faults) *PodReplacement { return f.PodReplacement }),
	},
}

// of hides the type of a kind's parameters, and that an absent one has a type.
func of[P interface {
	comparable
	parameters
}](get func(Faults) P) func(Faults) parameters {
	return func(f Faults) parameters {
		var absent P
		if params := get(f); params != absent {
			return params
		}
		return nil
	}
}

// KindTable returns the rows of all kinds.
func KindTable() []KindRow { return slices.Clone(kindTable) }

// AllKinds are the kinds that can be asked for.
func AllKinds() Kinds {
	var kinds Kinds
	for _, row := range kindTable {
		kinds = append(kinds, row.Kind)
	}
	return kinds
}

// Needs returns the rights the kind's injector uses, and no more.
func (k Kind) Needs() Needs {
	for _, row := range kindTable {
		if row.Kind == k {
			return row.Needs
		}
	}
	return Needs{}
}

// Field is the name of the kind's field in the spec, as people write the fault.
func (k Kind) Field() string {
	for _, row := range kindTable {
		if row.Kind == k {
			return row.Field
		}
	}
	return string(k)
}

// Kinds are the kinds of a disruption in the order of Faults.Requested.
//
// +kubebuilder:object:generate=false
type Kinds []Kind

// Kinds are the kinds asked for.
func (f Faults) Kinds() Kinds {
	var kinds Kinds
	for _, fault := range f.Requested() {
		kinds = append(kinds, fault.Kind)
	}
	return kinds
}

// By is the carrier of the kinds. A kind of the worker stands alone, so one answer holds
// for all of them; without any kind it is an injector.
func (k Kinds) By() Carrier {
	for _, row := range kindTable {
		if row.By == ByWorker && slices.Contains(k, row.Kind) {
			return ByWorker
		}
	}
	return ByInjector
}

// Names are the kinds as plain strings.
func (k Kinds) Names() []string {
	names := make([]string, len(k))
	for i, kind := range k {
		names[i] = string(kind)
	}
	return names
}

// String is the form of status.kinds: the names, separated by commas.
func (k Kinds) String() string { return strings.Join(k.Names(), ",") }

// ParseKinds reads what String wrote.
func ParseKinds(text string) Kinds {
	if text == "" {
		return nil
	}
	var kinds Kinds
	for name := range strings.SplitSeq(text, ",") {
		kinds = append(kinds, Kind(name))
	}
	return kinds
}
