package v1beta1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// InjectionEnv is the environment variable of a chaos pod that holds its
// Injection as one JSON document.
const InjectionEnv = "SQUALL_INJECTION"

// ReadyFile is created by the injector once everything is injected, and
// removed when cleaning starts (rules 32, 55).
const ReadyFile = "/tmp/readiness_probe"

// GuardName is the name of the process that cleans up after an injector that was killed.
const GuardName = "injector-guard"

// MessageInjectionFailed is the message of the log line about a failed injection. The
// line is JSON, the reason is its key "error". The worker reads it from the chaos pod's
// log into status (rules 33, 57).
const MessageInjectionFailed = "injection failed"

// Injection is everything an injector receives: one kind, one target. It has neither
// flags nor credentials.
//
// +kubebuilder:object:generate=false
type Injection struct {
	Disruption DisruptionRef `json:"disruption"`
	Kind       Kind          `json:"kind"`
	// Params are the parameters of the kind, as in the spec.
	Params json.RawMessage `json:"params"`
	Level  Level           `json:"level"`
	Target InjectionTarget `json:"target"`
	// NotBefore delays the injection (spec.triggers.inject). Nil means at once.
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// Deadline is when the injector cleans and ends without any other component. Never zero.
	Deadline metav1.Time `json:"deadline"`
	// Remaining is how long it was to the deadline when the chaos pod was made. The injector
	// also ends after that time, even if its node's clock is wrong. 0, of an older worker,
	// means by the clock alone.
	Remaining metav1.Duration `json:"remaining,omitzero"`
	DryRun    bool            `json:"dryRun,omitempty"`
	// Pulse interrupts and repeats the injection, with both durations set. Nil means that it
	// stays.
	Pulse *DisruptionPulse `json:"pulse,omitempty"`
	// MaxRuns is how often a kind that repeats acts in all, at least 1. 0 means until the
	// end.
	MaxRuns int `json:"maxRuns,omitempty"`
	// OnInit are the kinds that have to be injected before the waiting pod may start its own
	// containers. target.containers is then OnInitContainer alone. Empty for a target that
	// runs.
	OnInit []Kind `json:"onInit,omitempty"`
	// SysrqTrigger is the file in which the node's kernel takes commands, for the kind that
	// ends nodes. An injector has no other source for its path.
	SysrqTrigger string `json:"sysrqTrigger,omitempty"`
	// AllowedHosts are the operator's network hosts that are never disrupted.
	AllowedHosts []NetworkHost `json:"allowedHosts,omitempty"`
	// ResolvedHosts is the file with the addresses of network.services and network.cloud, as
	// a JSON list of NetworkHost with an address or a CIDR each. The worker updates it when
	// the cluster changes. Empty if the spec has neither.
	ResolvedHosts string `json:"resolvedHosts,omitempty"`
}

// DisruptionRef identifies one Disruption.
type DisruptionRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Cluster is the cluster of the Disruption: the UID of its namespace kube-system. Empty
	// if unknown, which means the cluster of the reader.
	Cluster types.UID `json:"cluster,omitempty"`
}

// InjectionTarget is the pod or node to disrupt.
type InjectionTarget struct {
	// Namespace is empty for a node.
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	NodeName  string    `json:"nodeName"`
	// NodeIPs and PodIPs are the addresses the API server knows, both families.
	NodeIPs []string `json:"nodeIPs,omitempty"`
	PodIPs  []string `json:"podIPs,omitempty"`
	// Containers are the containers to disrupt, running when the target was chosen. Empty at
	// node level.
	Containers []InjectionContainer `json:"containers,omitempty"`
	// SomeContainers is true when spec.containers restricts the disruption to
	// a part of the pod's containers.
	SomeContainers bool `json:"someContainers,omitempty"`
}

// InjectionContainer is one container of the target.
type InjectionContainer struct {
	Name string `json:"name"`
	// ID is the runtime's ID without its scheme ("containerd://" and the like).
	ID string `json:"id"`
}

// AnnotationResolvedHosts on a chaos pod is what the file Injection.ResolvedHosts
// holds. The worker writes it, and the kubelet hands it on to the injector.
const AnnotationResolvedHosts = "chaos.squall.dev/resolved-hosts" // chaos pod: addresses of Services and cloud ranges

// InjectionReport is the JSON termination message of an injector.
//
// +kubebuilder:object:generate=false
type InjectionReport struct {
	// Injected is true when the ready file was written at some time.
	Injected bool `json:"injected"`
	// Cleaned is true when nothing of this injection is left on the node.
	Cleaned bool `json:"cleaned"`
	// Audited is true when the node was searched, after the cleaning, for
	// everything that carries this injection's marks, and nothing was found.
	Audited bool `json:"audited"`
	// Error is what failed, on which object.
	Error string `json:"error,omitempty"`
	// Left lists what is still on the node, one object each.
	Left []string `json:"left,omitempty"`
	// Effect is what was measured last, with the figures of the end; nil when nothing
	// was injected.
	Effect *Effect `json:"effect,omitempty"`
}

// CleanReport is the report of the injector's command clean about its node. As a
// termination message it is cut to what the kubelet keeps, as standard output it is
// whole.
//
// +kubebuilder:object:generate=false
type CleanReport struct {
	// Cleaned are the injections of which nothing is left now. Never nil.
	Cleaned []string `json:"cleaned"`
	// Audited is true when the node was searched for all that carries their
	// marks, and nothing was found.
	Audited bool `json:"audited"`
	// Left are those that could not be cleaned. Never nil.
	Left []LeftInjection `json:"left"`
	// More is how many were cut off, cleaned ones first.
	More int `json:"more,omitempty"`
	// Error is why some journals could not be read.
	Error string `json:"error,omitempty"`
}

// LeftInjection is one injection that the command clean could not clean.
//
// +kubebuilder:object:generate=false
type LeftInjection struct {
	Injection string `json:"injection"`
	// Error is why it could not be cleaned.
	Error string `json:"error"`
	// Objects are what is left of it, one object each.
	Objects []string `json:"objects,omitempty"`
}

// Audit is the report of the injector's command audit about its node. As a termination
// message it is cut to what the kubelet keeps, as standard output it is whole.
//
// +kubebuilder:object:generate=false
type Audit struct {
	// Marks are the objects that carry a mark of Squall. Never nil.
	Marks []Mark `json:"marks"`
	// Disruptions are the UIDs that the marks name, each once, sorted, also for marks that
	// were cut off. UIDs with a journal come first.
	Disruptions []types.UID `json:"disruptions,omitempty"`
	// More is how many marks were cut off.
	More int `json:"more,omitempty"`
	// Error is what could not be searched: without it, no mark would prove nothing.
	Error string `json:"error,omitempty"`
}

// Mark is one object on a node that an injection has put there.
//
// +kubebuilder:object:generate=false
type Mark struct {
	// Object describes the object and its place.
	Object string `json:"object"`
	Kind   Kind   `json:"kind,omitempty"`
	// Disruption is the owner of the mark. Namespace and name are empty without a journal,
	// the UID when the object names none.
	Disruption DisruptionRef `json:"disruption"`
	// Target is the UID of the target; empty when the object names none.
	Target types.UID `json:"target,omitempty"`
}
