//go:build linux

// Package dump reads lists of the kernel that change while they are read.
package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// tries is how often a list is requested.
const tries = 10

// Whole repeats the request while the kernel reports a change during the read
// (NLM_F_DUMP_INTR): such a list may be incomplete. After ten tries the error is
// netlink.ErrDumpInterrupted.
func Whole[T any](ask func() (T, error)) (answer T, err error) {
	for range tries {
		if answer, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return answer, err
}
