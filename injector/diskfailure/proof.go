//go:build linux

package diskfailure

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// denials has how many opens each listener has denied.
type denials struct {
	mu sync.Mutex
	by map[string]uint64 // by the name of the job
}

// note records a line of a listener: how many it has denied so far.
func (d *denials) note(name, line string) {
	count, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return // the first line
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by[name] = count
}

func (d *denials) sum() (count uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.by {
		count += n
	}
	return count
}

// Prove counts the opens that listeners denied since Inject. Nothing counts opens under
// mounts: only the presence of the mounts can be checked.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	if i.covers > 0 {
		covered, err := i.covered()
		if err != nil {
			return "", "", err
		}
		return v1beta1.EffectProven, fmt.Sprintf("%d mounts over paths, under which every open fails", len(covered)), nil
	}
	if n := i.denied.sum(); n > 0 {
		return v1beta1.EffectProven, fmt.Sprintf("%d opens failed", n), nil
	}
	return v1beta1.EffectNothingMatchedYet, "no open has failed yet", nil
}
