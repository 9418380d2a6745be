//go:build linux

package containerfailure

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// effect is the effect of a signal, or the reason that it has none.
type effect string

const (
	slow    effect = "it handles SIGTERM and has not ended yet"
	ignores effect = "it ignored SIGTERM: the process set it to be ignored; only forced (SIGKILL) ends it"
	blocks  effect = "it ignored SIGTERM: the process blocks it; only forced (SIGKILL) ends it"
	unheard effect = "it ignored SIGTERM: the first process of a container gets only signals that it handles; set forced (SIGKILL)"
	stuck   effect = "SIGKILL is pending: it is frozen, or waits in the kernel for a device"
)

// masks are the signals a process treats specially, bit n-1 for signal n.
type masks struct{ caught, ignored, blocked uint64 }

// effectOf returns the effect of SIGTERM, or of SIGKILL when forced.
func effectOf(m masks, forced bool) effect {
	const term = 1 << (unix.SIGTERM - 1)
	switch {
	case forced:
		return stuck
	case m.blocked&term != 0:
		return blocks
	case m.ignored&term != 0:
		return ignores
	case m.caught&term != 0:
		return slow
	}
	return unheard
}

// whyUnaffected reads how the process treats its signal. It returns target.ErrGone,
// wrapped, if the process has ended.
func (p firstProcess) whyUnaffected(forced bool) (effect, error) {
	var m masks
	for field, mask := range map[string]*uint64{"SigCgt": &m.caught, "SigIgn": &m.ignored, "SigBlk": &m.blocked} {
		text, err := p.Status(field)
		if err != nil {
			return "", fmt.Errorf("look at process %d of container %s: %w", p.PID, p.Name, err)
		}
		if *mask, err = strconv.ParseUint(text, 16, 64); err != nil {
			return "", fmt.Errorf("look at process %d of container %s: %s: %w", p.PID, p.Name, field, err)
		}
	}
	return effectOf(m, forced), p.Check()
}
