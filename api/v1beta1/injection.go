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

// GuardName is what the process is called that cleans in the place of an injector
// which was killed.
const GuardName = "injector-guard"

// MessageInjectionFailed is the message of the log line that says why an
// injection failed. The line is JSON, the reason is its key "error". The worker
// reads it from the chaos pod's log into status (rules 33, 57).
const MessageInjectionFailed = "injection failed"

// Injection is all an injector is told: one kind, one target. Nothing else
// reaches it, neither flags nor credentials.
//
// +kubebuilder:object:generate=false
type Injection struct {
	Disruption DisruptionRef `json:"disruption"`
	Kind       Kind          `json:"kind"`
	// Params are the parameters of the kind, the very API object of the spec.
	Params json.RawMessage `json:"params"`
	Level  Level           `json:"level"`
	Target InjectionTarget `json:"target"`
	// NotBefore delays the injection (spec.triggers.inject). Nil means at once.
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// Deadline is when the injector cleans and ends by itself, whatever else
	// is dead. Never zero.
	Deadline metav1.Time `json:"deadline"`
	// Remaining is how long it was to the deadline when the chaos pod was made: the
	// injector ends after that time, too, whatever its node's clock says. 0, of an older
	// worker, means by the clock alone.
	Remaining metav1.Duration `json:"remaining,omitzero"`
	DryRun    bool            `json:"dryRun,omitempty"`
	// Pulse takes the injection off and puts it on again, with both durations
	// set. Nil means that it stays.
	Pulse *DisruptionPulse `json:"pulse,omitempty"`
	// MaxRuns is how often a kind that repeats itself acts in all, at least 1. 0
	// means until the end.
	MaxRuns int `json:"maxRuns,omitempty"`
	// OnInit are the kinds that have to be injected before the pod, which waits
	// with none of its own containers started, is let go. target.containers is
	// then OnInitContainer alone. Empty for a target that runs.
	OnInit []Kind `json:"onInit,omitempty"`
	// SysrqTrigger is the file in which the node's kernel takes commands, for the
	// kind that ends nodes. No injector knows it by itself.
	SysrqTrigger string `json:"sysrqTrigger,omitempty"`
	// AllowedHosts are the operator's network hosts that are never disturbed.
	AllowedHosts []NetworkHost `json:"allowedHosts,omitempty"`
	// ResolvedHosts is the file with the hosts that network.services and
	// network.cloud stand for, as a JSON list of NetworkHost with an address or a
	// CIDR each. It follows the cluster. Empty if neither is asked for.
	ResolvedHosts string `json:"resolvedHosts,omitempty"`
}

// DisruptionRef names one Disruption for good.
type DisruptionRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Cluster is whose Disruption it is: the UID of the cluster's namespace
	// kube-system. Empty where nobody said, which means the cluster of who reads it.
	Cluster types.UID `json:"cluster,omitempty"`
}

// InjectionTarget is the pod or node to disturb.
type InjectionTarget struct {
	// Namespace is empty for a node.
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	NodeName  string    `json:"nodeName"`
	// NodeIPs and PodIPs are the addresses the API server knows, both families.
	NodeIPs []string `json:"nodeIPs,omitempty"`
	PodIPs  []string `json:"podIPs,omitempty"`
	// Containers are the containers to disturb, running when the target was
	// chosen. Empty at node level.
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

// InjectionReport is the JSON termination message of an injector: its last words.
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
	// Error says what failed, on which object.
	Error string `json:"error,omitempty"`
	// Left lists what is still on the node, one object each.
	Left []string `json:"left,omitempty"`
	// Effect is what was measured last, with the figures of the end; nil when nothing
	// was injected.
	Effect *Effect `json:"effect,omitempty"`
}

// CleanReport is what the command clean of the injector says about its node. As
// a termination message it is cut to what the kubelet keeps, as standard output
// it is whole.
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
	// More is how many were cut off, those cleaned first.
	More int `json:"more,omitempty"`
	// Error says what kept some journals from being read.
	Error string `json:"error,omitempty"`
}

// LeftInjection is one injection that the command clean could not take off.
//
// +kubebuilder:object:generate=false
type LeftInjection struct {
	Injection string `json:"injection"`
	// Error says what kept it from being cleaned.
	Error string `json:"error"`
	// Objects are what is left of it, one object each.
	Objects []string `json:"objects,omitempty"`
}

// Audit is what the command audit of the injector says about its node. As a
// termination message it is cut to what the kubelet keeps, as standard output
// it is whole.
//
// +kubebuilder:object:generate=false
type Audit struct {
	// Marks are the things that carry a mark of ours. Never nil.
	Marks []Mark `json:"marks"`
	// Disruptions are the UIDs that the marks name, each once, sorted, also
	// those of marks that were cut off. Those with a journal come first.
	Disruptions []types.UID `json:"disruptions,omitempty"`
	// More is how many marks were cut off.
	More int `json:"more,omitempty"`
	// Error says what could not be looked at, so that no mark is no proof.
	Error string `json:"error,omitempty"`
}

// Mark is one thing on a node that an injection has put there.
//
// +kubebuilder:object:generate=false
type Mark struct {
	// Object says what it is and where, in words.
	Object string `json:"object"`
	Kind   Kind   `json:"kind,omitempty"`
	// Disruption is whose it is. Namespace and name are empty when no journal
	// tells them, the UID when the object names none.
	Disruption DisruptionRef `json:"disruption"`
	// Target is the UID of the target; empty when the object names none.
	Target types.UID `json:"target,omitempty"`
}
