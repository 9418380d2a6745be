package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EffectState is what an injector measured of its own fault.
//
// +kubebuilder:validation:Enum=Proven;NothingMatchedYet;Ineffective;Lost
type EffectState string

// The states of an effect.
const (
	// EffectProven means that the fault was measured to act.
	EffectProven EffectState = "Proven"
	// EffectNothingMatchedYet means that the fault is in force and nothing occurred on which
	// it could act, such as a packet that a rule matches.
	EffectNothingMatchedYet EffectState = "NothingMatchedYet"
	// EffectIneffective means that the fault is in force and does not act as it should.
	EffectIneffective EffectState = "Ineffective"
	// EffectLost means that another program than the injector removed the fault.
	EffectLost EffectState = "Lost"
)

// Effect is whether a fault acts, and how that is known.
type Effect struct {
	// State is Proven, NothingMatchedYet, Ineffective or Lost.
	State EffectState `json:"state"`
	// Evidence has the figures that were measured when the state became what it is,
	// or when the injector ended. At most 256 bytes.
	Evidence string `json:"evidence,omitempty"`
	// Since is when the state became what it is, by the clock of the node.
	Since metav1.Time `json:"since"`
}

// MessageEffect and MessageFigures are the messages of the log lines in which an injector
// reports its measurements. The lines are JSON; keys are those of EffectLine. The first
// is logged when the state turns, and the worker reads it from there. The second is for
// people: the newest figures, once a minute at most.
const (
	MessageEffect  = "effect"
	MessageFigures = "figures"
)

// EffectLine is such a line.
//
// +kubebuilder:object:generate=false
type EffectLine struct {
	Message  string      `json:"msg"`
	State    EffectState `json:"state"`
	Evidence string      `json:"evidence"`
	Since    metav1.Time `json:"since"`
}
