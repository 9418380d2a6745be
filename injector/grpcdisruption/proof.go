//go:build linux

package grpcdisruption

import (
	"context"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prove counts the alterations that the application has accepted. Left checks later that
// they are in force: the application then refuses another disruption. The protocol has no
// query for the number of altered calls.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	if i.accepted == 0 {
		return v1beta1.EffectNothingMatchedYet, "no application got an altered answer", nil
	}
	endpoints, alterations := 0, 0
	for _, e := range i.spec().Endpoints {
		endpoints++
		alterations += len(e.Alterations)
	}
	return v1beta1.EffectProven, fmt.Sprintf("the application accepted %d alterations of %d endpoints", alterations, endpoints), nil
}
