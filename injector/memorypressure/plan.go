//go:build linux

package memorypressure

import (
	"fmt"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// guardPercent of every limit stays free: with less, a target that asks for
	// more would have the kernel kill processes, and the whole container with them.
	guardPercent = 5
	// maxChunk is filled between two looks at what is in use.
	maxChunk = 32 << 20
	pageSize = 4 << 10
)

// plan is what one hog is told: which share of the limit is to be in use, and
// over which time that share is reached.
type plan struct {
	percent int
	ramp    time.Duration
}

// argument writes plan and cgroup directory for a hog, and parseArgument reads it.
func (p plan) argument(dir string) string { return fmt.Sprintf("%d%% %s %s", p.percent, p.ramp, dir) }

func parseArgument(text string) (p plan, dir string, err error) {
	words := strings.SplitN(text, " ", 3)
	if len(words) != 3 {
		return plan{}, "", fmt.Errorf("%q: want a percentage, a duration and a cgroup", text)
	}
	if p.percent, err = (v1beta1.Percentage{Text: words[0]}).Value(); err != nil {
		return plan{}, "", err
	}
	if p.ramp, err = time.ParseDuration(words[1]); err != nil {
		return plan{}, "", err
	}
	return p, words[2], nil
}

// level is one bound on the memory of a process: a cgroup with a limit, or the
// node. What is in use is without what the kernel would take back first.
type level struct {
	name        string // the cgroup's directory; empty for the node
	limit, used int64  // bytes
}

// room is how much may be added before too little is free; negative is how much
// has to go.
func (l level) room() int64 { return l.ceiling() - l.used }

// ceiling is the most that may be in use.
func (l level) ceiling() int64 { return share(l.limit, 100-guardPercent) }

// share is a part of a limit. A node has fewer bytes than would overflow.
func share(limit int64, percent int) int64 { return limit * int64(percent) / 100 }

// binding is the level with the least limit: that limit is the one of which
// percentages are. The first of equals counts.
func binding(levels []level) level {
	least := levels[0]
	for _, l := range levels[1:] {
		if l.limit < least.limit {
			least = l
		}
	}
	return least
}

// roomOf is what all levels together leave.
func roomOf(levels []level) int64 {
	room := levels[0].room()
	for _, l := range levels[1:] {
		room = min(room, l.room())
	}
	return room
}

// goal is what is to be in use, the target's own use included, so long after the
// beginning; start is what was in use then.
func (p plan) goal(limit, start int64, elapsed time.Duration) int64 {
	full := share(limit, p.percent)
	if elapsed >= p.ramp || start >= full {
		return full
	}
	return start + int64(float64(full-start)*(float64(elapsed)/float64(p.ramp)))
}

// slack is by how much the goal may be exceeded without anything being let go:
// the kernel counts in batches.
func slack(limit int64) int64 { return max(limit/200, min(limit/50, 512<<10)) }

// change is by how much a hog that holds so many bytes has to change them now, in
// whole pages and at most one chunk up.
func change(held, goal int64, levels []level) int64 {
	bound := binding(levels)
	gap := goal - bound.used
	if gap < 0 && -gap <= slack(bound.limit) {
		gap = 0
	}
	by := min(gap, roomOf(levels), chunk(bound.limit))
	if by < 0 {
		by -= pageSize - 1 // away from zero: what has to go goes
	}
	return max(by/pageSize*pageSize, -held)
}

// chunk is small enough for the target not to be overtaken between two looks.
func chunk(limit int64) int64 { return max(min(limit/100, maxChunk), pageSize) }

// notes tell what is not as asked for at the beginning, in sentences about the
// target, which people call by name and which is in the cgroup own.
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
