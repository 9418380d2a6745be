//go:build linux

package containerfailure

import (
	"context"
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prove names the processes that Inject has seen end.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	if len(i.ended) == 0 {
		return v1beta1.EffectNothingMatchedYet, "no process was ended", nil
	}
	var names []string
	for _, c := range i.ended {
		names = append(names, fmt.Sprintf("process %d of container %s", c.PID, c.Name))
	}
	return v1beta1.EffectProven, "ended: " + strings.Join(names, ", "), nil
}
