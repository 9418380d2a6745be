//go:build linux

package memorypressure

import (
	"fmt"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// guardPercent of every limit stays free. With less, a target that allocates more would
	// have the kernel kill processes, and the whole container with them.
	guardPercent = 5
	// maxChunk is filled between two reads of the use, in bytes.
	maxChunk = 32 << 20
	pageSize = 4 << 10
)

// plan is the task of one hog: the share of the limit to fill, and the time over which to
// reach it.
type plan struct {
	percent int
	ramp    time.Duration
}

// argument writes plan and cgroup directory for a hog, and parseArgument reads it.
func (p plan) argument(dir string) string { return fmt.Sprintf("%d%% %s %s", p.percent, p.ramp, dir) }

func parseArgument(text string) (p plan, dir string, err error) {
	fields := strings.SplitN(text, " ", 3)
	if len(fields) != 3 {
		return plan{}, "", fmt.Errorf("%q: want a percentage, a duration and a cgroup", text)
	}
	if p.percent, err = (v1beta1.Percentage{Text: fields[0]}).Value(); err != nil {
		return plan{}, "", err
	}
	if p.ramp, err = time.ParseDuration(fields[1]); err != nil {
		return plan{}, "", err
	}
	return p, fields[2], nil
}

// level is one bound on the memory of a process: a cgroup with a limit, or the node. used
// excludes memory that the kernel would free first.
type level struct {
	name        string // the cgroup's directory; empty for the node
	limit, used int64  // bytes
}

// room is how much may be added before too little is free. A negative value is how much
// must be released.
func (l level) room() int64 { return l.ceiling() - l.used }

// ceiling is the largest use allowed.
func (l level) ceiling() int64 { return share(l.limit, 100-guardPercent) }

// share is a part of a limit. A node has fewer bytes than would overflow.
func share(limit int64, percent int) int64 { return limit * int64(percent) / 100 }

// binding returns the level with the lowest limit, to which percentages refer. The first of
// equals counts.
func binding(levels []level) level {
	least := levels[0]
	for _, l := range levels[1:] {
		if l.limit < least.limit {
			least = l
		}
	}
	return least
}

// roomOf returns the room that all levels together leave.
func roomOf(levels []level) int64 {
	room := levels[0].room()
	for _, l := range levels[1:] {
		room = min(room, l.room())
	}
	return room
}

// goal is the wanted use this long after the beginning, the target's own use included.
// start is the use at the beginning.
func (p plan) goal(limit, start int64, elapsed time.Duration) int64 {
	full := share(limit, p.percent)
	if elapsed >= p.ramp || start >= full {
		return full
	}
	return start + int64(float64(full-start)*(float64(elapsed)/float64(p.ramp)))
}

// slack is by how much the use may exceed the goal before memory is released: the kernel
// counts in batches.
func slack(limit int64) int64 { return max(limit/200, min(limit/50, 512<<10)) }

// change returns by how much a hog that holds this many bytes must change them now, in
// whole pages and at most one chunk up.
func change(held, goal int64, levels []level) int64 {
	bound := binding(levels)
	gap := goal - bound.used
	if gap < 0 && -gap <= slack(bound.limit) {
		gap = 0
	}
	by := min(gap, roomOf(levels), chunk(bound.limit))
	if by < 0 {
		by -= pageSize - 1 // away from zero: all of the excess is released
	}
	return max(by/pageSize*pageSize, -held)
}

// chunk is so small that the hog cannot take the target's room between two reads of the
// use.
func chunk(limit int64) int64 { return max(min(limit/100, maxChunk), pageSize) }

// notes describes the differences from the parameters at the beginning, in sentences about
// the target with this name, in the cgroup own.
func (p plan) notes(name, own string, node bool, levels []level) []string {
	var notes []string
	bound := binding(levels)
	if !node && bound.name != own {
		where := "cgroup " + bound.name
		if bound.name == "" {
			where = "the node"
		}
		notes = append(notes, fmt.Sprintf("%s has no memory limit of its own that counts: %d%% is of the %s of %s, with all that is in use there",
			name, p.percent, size(bound.limit), where))
	}
	full := share(bound.limit, p.percent)
	missing, room := full-bound.used, roomOf(levels)
	switch {
	case missing <= 0:
		return append(notes, fmt.Sprintf("%s: %s of %s are in use already, which is not less than the %d%% asked for; nothing is added as long as that is so",
			name, size(bound.used), size(bound.limit), p.percent))
	case full > bound.ceiling():
		notes = append(notes, fmt.Sprintf("%s: %d%% was asked for and %d%% is held, because with less than %d%% free the kernel could end the container",
			name, p.percent, 100-guardPercent, guardPercent))
		missing = bound.room()
	}
	if room < missing {
		notes = append(notes, fmt.Sprintf("%s: %s are missing and %s can be added; a parent cgroup or the node has no more. The rest follows when there is more",
			name, size(missing), size(max(room, 0))))
	}
	return notes
}

// size writes bytes for people.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
