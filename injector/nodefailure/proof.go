//go:build linux

package nodefailure

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prove is asked before Trigger: afterwards nobody can be.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	return v1beta1.EffectNothingMatchedYet, "the node has not ended yet", nil
}
