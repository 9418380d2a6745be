package disruption

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// choice is one moment at which a trial could have continued in several ways; 0 is the
// quiet way.
type choice struct {
	what    string
	options []string
	taken   int
}

// deviations are the ways that were taken where it was not the quiet one, by the number
// of the choice. They are all that is needed to repeat a trial.
type deviations map[int]int

// faults makes every choice of a trial, and records them.
type faults struct {
	forced deviations
	// random makes the choices beyond the forced ones; nil makes them quiet.
	random *rand.Rand
	// burst is where troubles come together: from this choice on six of twelve are not
	// quiet; of all others it is one of fifty.
	burst int
	made  []choice
}

// most is how many choices a trial may make: later choices are quiet, so that every trial
// comes to an end.
const most = 500

func (c *faults) pick(what string, options []string) int {
	number, taken := len(c.made), 0
	if number >= most || len(options) < 2 {
		return 0
	}
	if way, forced := c.forced[number]; forced {
		taken = min(way, len(options)-1)
	} else if c.random != nil && c.troubled(number) {
		taken = 1 + c.random.IntN(len(options)-1)
	}
	c.made = append(c.made, choice{what, options, taken})
	return taken
}

func (c *faults) troubled(number int) bool {
	if number >= c.burst && number < c.burst+12 {
		return c.random.IntN(2) == 0
	}
	return c.random.IntN(50) == 0
}

// deviations are those of the choices made.
func (c *faults) deviations() deviations {
	found := deviations{}
	for number, one := range c.made {
		if one.taken != 0 {
			found[number] = one.taken
		}
	}
	return found
}

// list describes what was not quiet, for a person.
func (c *faults) list() string {
	var lines []string
	for number, one := range c.made {
		if one.taken != 0 {
			lines = append(lines, fmt.Sprintf("  %3d %s: %s", number, one.what, one.options[one.taken]))
		}
	}
	return strings.Join(lines, "\n")
}

// String is the form that parseDeviations reads: "3=1,17=4".
func (d deviations) String() string {
	var all []string
	for _, number := range slices.Sorted(maps.Keys(d)) {
		all = append(all, fmt.Sprintf("%d=%d", number, d[number]))
	}
	return strings.Join(all, ",")
}

func parseDeviations(text string) (deviations, error) {
	d := deviations{}
	if text == "" {
		return d, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		number, way, _ := strings.Cut(one, "=")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("%q is not number=way: %w", one, err)
		}
		if d[n], err = strconv.Atoi(way); err != nil {
			return nil, fmt.Errorf("%q is not number=way: %w", one, err)
		}
	}
	return d, nil
}

// with is d, and one more.
func (d deviations) with(number, way int) deviations {
	more := maps.Clone(d)
	if more == nil {
		more = deviations{}
	}
	more[number] = way
	return more
}

// neighbours are all trials that differ from this one in one more choice, made after its
// last deviation: so that every set of deviations comes up once.
func (c *faults) neighbours() (all []deviations) {
	last := -1
	for number := range c.forced {
		last = max(last, number)
	}
	for number := last + 1; number < len(c.made); number++ {
		for way := 1; way < len(c.made[number].options); way++ {
			all = append(all, c.forced.with(number, way))
		}
	}
	return all
}

// shrunk leaves out every deviation without which a trial still fails.
func shrunk(d deviations, fails func(deviations) bool) deviations {
	for again := true; again; {
		again = false
		for _, number := range slices.Sorted(maps.Keys(d)) {
			less := maps.Clone(d)
			delete(less, number)
			if fails(less) {
				d, again = less, true
			}
		}
	}
	return d
}
