//go:build linux

package nodefailure

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prove runs before Trigger: after it nothing can run.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	return v1beta1.EffectNothingMatchedYet, "the node has not ended yet", nil
}
