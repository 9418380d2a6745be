//go:build linux

// Package dump reads lists of the kernel that change while they are read.
package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// tries is how often a list is asked for.
const tries = 10

// Whole asks again while the kernel says that the list changed as it was read
// (NLM_F_DUMP_INTR): what it gave then may miss something. After ten tries the
// error is netlink.ErrDumpInterrupted.
func Whole[T any](ask func() (T, error)) (answer T, err error) {
	for range tries {
		if answer, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return answer, err
}
