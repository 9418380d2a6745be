//go:build linux

package dnsdisruption

import (
	"context"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prove counts the questions that a record answered falsely or dropped, and those passed
// on.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	var falsified, passed uint64
	for _, r := range i.active {
		f, p := r.responder.Answered()
		falsified, passed = falsified+f, passed+p
	}
	evidence := fmt.Sprintf("%d queries answered by the records, %d passed on", falsified, passed)
	if falsified > 0 {
		return v1beta1.EffectProven, evidence, nil
	}
	return v1beta1.EffectNothingMatchedYet, evidence, nil
}
