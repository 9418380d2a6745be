//go:build linux

package memorypressure

import (
	"strings"
	"testing"
	"time"
)

const mib = 1 << 20

func TestArgumentIsReadAsItWasWritten(t *testing.T) {
	want, wantDir := plan{percent: 76, ramp: 90 * time.Second}, "/sys/fs/cgroup/memory/a b/c"
	got, dir, err := parseArgument(want.argument(wantDir))
	if err != nil || got != want || dir != wantDir {
		t.Errorf("parseArgument(%q) = %+v, %q, %v", want.argument(wantDir), got, dir, err)
	}
	for _, text := range []string{"", "76%", "76% 1m", "0% 1m /a", "76% soon /a"} {
		if _, _, err := parseArgument(text); err == nil {
			t.Errorf("parseArgument(%q) = nil, want an error", text)
		}
	}
}

func TestGoal(t *testing.T) {
	for _, test := range []struct {
		name        string
		percent     int
		ramp        time.Duration
		start       int64
		elapsed     time.Duration
		want        int64
		closeEnough int64
	}{
		{"at once", 50, 0, 10 * mib, 0, 50 * mib, 0},
		{"a ramp begins where the target is", 50, 10 * time.Second, 10 * mib, 0, 10 * mib, 0},
		{"a quarter of a ramp", 50, 10 * time.Second, 10 * mib, 2500 * time.Millisecond, 20 * mib, 1},
		{"half of a ramp", 50, 10 * time.Second, 10 * mib, 5 * time.Second, 30 * mib, 1},
		{"the end of a ramp", 50, 10 * time.Second, 10 * mib, 10 * time.Second, 50 * mib, 0},
		{"long after it", 50, 10 * time.Second, 10 * mib, time.Hour, 50 * mib, 0},
		{"a target that uses more at the beginning", 50, 10 * time.Second, 60 * mib, time.Second, 50 * mib, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := plan{test.percent, test.ramp}.goal(100*mib, test.start, test.elapsed)
			if got < test.want-test.closeEnough || got > test.want+test.closeEnough {
				t.Errorf("goal = %d, want %d", got, test.want)
			}
		})
	}
}

func TestChange(t *testing.T) {
	const limit = 1000 * mib
	own := func(used int64) level { return level{"/own", limit, used} }
	above := func(used int64) level { return level{"/above", 2 * limit, used} }
	for _, test := range []struct {
		name       string
		held, goal int64
		levels     []level
		want       int64
	}{
		{"what is missing is added in chunks", 0, 500 * mib, []level{own(100 * mib)}, 10 * mib},
		{"the last bit", 0, 500 * mib, []level{own(500*mib - 3*pageSize)}, 3 * pageSize},
		{"less than a page is nothing", 0, 500 * mib, []level{own(500*mib - pageSize/2)}, 0},
		{"the target grows: as much is let go", 300 * mib, 500 * mib, []level{own(600 * mib)}, -100 * mib},
		{"more than is held cannot be let go", 30 * mib, 500 * mib, []level{own(600 * mib)}, -30 * mib},
		{"nothing is held and the target uses too much", 0, 500 * mib, []level{own(900 * mib)}, 0},
		{"a little too much stays", 300 * mib, 500 * mib, []level{own(502 * mib)}, 0},
		{"all of the limit was asked for: a twentieth stays free", 300 * mib, limit, []level{own(950 * mib)}, 0},
		{"less than a twentieth is free: what is too much goes", 300 * mib, limit, []level{own(951 * mib)}, -1 * mib},
		{"a cgroup above has no room", 300 * mib, 500 * mib, []level{own(400 * mib), above(1900 * mib)}, 0},
		{"a cgroup above runs out", 300 * mib, 500 * mib, []level{own(500 * mib), above(1950 * mib)}, -50 * mib},
		{"half a page too much is a page", 300 * mib, limit, []level{own(950*mib + pageSize/2)}, -pageSize},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := change(test.held, test.goal, test.levels); got != test.want {
				t.Errorf("change = %d, want %d", got, test.want)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	own, node := level{"/own", 1000 * mib, 100 * mib}, level{"", 64000 * mib, 8000 * mib}
	full := own
	full.used = 800 * mib
	tight := level{"/pod", 1200 * mib, 1000 * mib}
	for _, test := range []struct {
		name    string
		percent int
		node    bool
		levels  []level
		want    []string // one for each note
	}{
		{"as asked for", 50, false, []level{own, node}, nil},
		{"more than may be held", 100, false, []level{own, node}, []string{"100% was asked for and 95% is held"}},
		{"the target uses more", 50, false, []level{full, node}, []string{"800.0 MiB of 1000.0 MiB are in use already, which is not less than the 50% asked for"}},
		{"no limit but the node's", 50, false, []level{node}, []string{"no memory limit of its own that counts: 50% is of the 62.5 GiB of the node"}},
		{"the limit of a cgroup above", 90, false, []level{tight, node}, []string{"90% is of the 1.2 GiB of cgroup /pod"}},
		{"the node itself", 50, true, []level{node}, nil},
		{"a cgroup above has less to spare", 50, false, []level{own, tight, node}, []string{"400.0 MiB are missing and 140.0 MiB can be added"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := plan{percent: test.percent}.notes("container cart", "/own", test.node, test.levels)
			if len(got) != len(test.want) {
				t.Fatalf("notes = %q, want %d of them", got, len(test.want))
			}
			for n, note := range got {
				if !strings.Contains(note, test.want[n]) || !strings.HasPrefix(note, "container cart") {
					t.Errorf("note %q, want it to say %q of the container", note, test.want[n])
				}
			}
		})
	}
}
