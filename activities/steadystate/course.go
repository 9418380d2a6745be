package steadystate

import (
	"slices"
	"time"

	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	// mostPoints bounds the points of a course.
	mostPoints = 240
	// mostBytes bounds all courses of a phase as JSON.
	mostBytes = 64 << 10
)

// GroupControl is the Group of a course of the control group.
const GroupControl = "control"

// Course counts the answers to a probe over a phase: those of the targets, of the one
// place that scope Once asks, or of the control group.
type Course struct {
	Probe string `json:"probe"`
	// Group is empty, or GroupControl.
	Group string `json:"group,omitempty"`
	// Seconds is the width of a point: 1, doubled whenever there would be more than
	// mostPoints points.
	Seconds int64 `json:"seconds,omitempty"`
	// Points are successes, failures and questions that could not be asked, from the
	// beginning of the phase.
	Points [][3]int32 `json:"points,omitempty"`
}

// add counts an answer at a time since the beginning of the phase.
func (c *Course) add(at time.Duration, result probe.Result) {
	c.Seconds = max(c.Seconds, 1)
	second := max(int64(at/time.Second), 0)
	for second/c.Seconds >= mostPoints {
		c.halve()
	}
	index := int(second / c.Seconds)
	for len(c.Points) <= index {
		c.Points = append(c.Points, [3]int32{})
	}
	which := 2
	switch result {
	case probe.Success:
		which = 0
	case probe.Failure:
		which = 1
	}
	c.Points[index][which]++
}

// halve merges each two points into one.
func (c *Course) halve() {
	c.Seconds *= 2
	var half [][3]int32
	for i, point := range c.Points {
		if i%2 == 0 {
			half = append(half, [3]int32{})
		}
		for which, count := range point {
			half[len(half)-1][which] += count
		}
	}
	c.Points = half
}

func (c *Course) clone() Course {
	return Course{c.Probe, c.Group, c.Seconds, slices.Clone(c.Points)}
}

// answers sums up the answers that had a result.
func (c *Course) answers() (sum contract.Answers) {
	for _, point := range c.Points {
		sum = sum.Plus(contract.Answers{Successes: int64(point[0]), Failures: int64(point[1])})
	}
	return sum
}

// size is an upper estimate of the length as JSON.
func (c *Course) size() int {
	size := len(c.Probe) + 64
	for _, point := range c.Points {
		size += 5
		for _, count := range point {
			size++
			for ; count > 9; count /= 10 {
				size++
			}
		}
	}
	return size
}

// fit makes the courses coarser, the longest first, until all of them have at most most
// bytes.
func fit(courses []Course, most int) []Course {
	for {
		sum, longest := 0, -1
		for i := range courses {
			sum += courses[i].size()
			if len(courses[i].Points) > 1 && (longest < 0 || courses[i].size() > courses[longest].size()) {
				longest = i
			}
		}
		if sum <= most || longest < 0 {
			return courses
		}
		courses[longest].halve()
	}
}
