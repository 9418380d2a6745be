package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	// unreachedShare is how many of a hundred chosen points may stay without a run
	// that came to them: a write that is only needed when another one was outrun
	// does not come up again at will.
	unreachedShare = 3
	// unreachedFew may stay so however few were chosen: of 79 points three are
	// more than the share already.
	unreachedFew = 4
	// judgedKind is how many points of one sort of disturbance must have been chosen
	// before it counts that none was reached: of a sample's one or two that is chance.
	judgedKind = 5
)

// tried is true when a run came to the point, or differed before it.
func (t *trial) tried() bool { return t.reached || t.wrong != "" }

// unreached is what is wrong with the points to which no run came. A test that reaches too
// few of them proves less than its report claims.
func unreached(trials []*trial) (wrong []string) {
	missed, chosen, tried := 0, map[how]int{}, map[how]int{}
	for _, t := range trials {
		chosen[t.fault.how]++
		if t.tried() {
			tried[t.fault.how]++
		} else {
			missed++
		}
	}
	if most := max(unreachedFew, len(trials)*unreachedShare/100); missed > most {
		wrong = append(wrong, fmt.Sprintf("%d of %d points were not reached, want at most %d", missed, len(trials), most))
	}
	for kind, n := range chosen {
		if tried[kind] == 0 && n >= judgedKind {
			wrong = append(wrong, fmt.Sprintf("none of the %d points %q was reached: that disturbance was not tried at all", n, kind))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func TestUnreached(t *testing.T) {
	points := func(kind how, reached, missed int) (trials []*trial) {
		for i := range reached + missed {
			trials = append(trials, &trial{fault: fault{how: kind}, reached: i < reached})
		}
		return trials
	}
	differs := points(drop, 0, 1)
	differs[0].wrong = "a chaos pod is left"
	for name, c := range map[string]struct {
		trials []*trial
		want   string // empty: nothing is wrong
	}{
		"all were reached":                           {slices.Concat(points(before, 50, 0), points(stale, 1, 0)), ""},
		"three of a hundred were not":                {points(before, 776, 24), ""},
		"more than three of a hundred were not":      {points(before, 775, 25), "25 of 800 points were not reached, want at most 24"},
		"a few of a tenth were not":                  {points(after, 75, 4), ""},
		"more than a few of a tenth were not":        {points(after, 74, 5), "5 of 79 points were not reached, want at most 4"},
		"not one of a kind was, though most were":    {slices.Concat(points(before, 200, 0), points(stale, 0, 5)), `none of the 5 points "stale"`},
		"not one of a kind was, of so few":           {slices.Concat(points(before, 200, 0), points(stale, 0, 4)), ""},
		"a run that differed before it has tried it": {slices.Concat(points(before, 10, 0), differs), ""},
		"nothing was chosen":                         {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(unreached(c.trials), "; "); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
				t.Errorf("unreached = %q, want %q", got, c.want)
			}
		})
	}
}
