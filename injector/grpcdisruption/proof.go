//go:build linux

package grpcdisruption

import (
	"context"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prove counts what the application has accepted. That it answers so is not asked
// here but when it is looked after: it then refuses to be told anything else. The
// protocol has no question for the calls that were altered.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	if i.told == 0 {
		return v1beta1.EffectNothingMatchedYet, "no application got an altered answer", nil
	}
	endpoints, alterations := 0, 0
	for _, e := range i.spec().Endpoints {
		endpoints++
		alterations += len(e.Alterations)
	}
	return v1beta1.EffectProven, fmt.Sprintf("the application accepted %d alterations of %d endpoints", alterations, endpoints), nil
}
