package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// NodeFailure crashes the target's node, or at node level the target itself.
// Nothing can take it back but the machine's own restart. No other kind beside it.
type NodeFailure struct {
	// Shutdown powers the node off; otherwise its kernel panics, and most
	// machines then start again. Default false.
	Shutdown bool `json:"shutdown,omitempty"`
}

func (*NodeFailure) validate(*field.Path) field.ErrorList { return nil }
