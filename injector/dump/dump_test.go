//go:build linux

package dump_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/injector/dump"
)

func TestWhole(t *testing.T) {
	for interrupted, want := range map[int]error{0: nil, 9: nil, 10: netlink.ErrDumpInterrupted} {
		asked := 0
		answer, err := dump.Whole(func() (string, error) {
			if asked++; asked <= interrupted {
				return "a part", fmt.Errorf("list links: %w", netlink.ErrDumpInterrupted)
			}
			return "all", nil
		})
		if !errors.Is(err, want) || err == nil && answer != "all" {
			t.Errorf("interrupted %d times: %q, %v; want error %v", interrupted, answer, err, want)
		}
	}
	asked, refused := 0, errors.New("not permitted")
	if _, err := dump.Whole(func() (int, error) { asked++; return 0, refused }); err != refused || asked != 1 {
		t.Errorf("asked %d times for what is refused: %v", asked, err)
	}
}
