package probe

import (
	"slices"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestBudget(t *testing.T) {
	const s = time.Second
	good := func(n int, every time.Duration) []answered { return repeat(Success, n, every) }
	bad := func(n int, every time.Duration) []answered { return repeat(Failure, n, every) }
	for _, c := range []struct {
		name    string
		percent int32
		window  time.Duration
		answers [][]answered
		// burnedAfter is the number of the answer that burned it; 0 means never.
		burnedAfter int
	}{
		{"all is well", 5, 60 * s, [][]answered{good(1000, s)}, 0},
		{"before the first full window nothing is judged", 5, 60 * s, [][]answered{bad(60, s)}, 0},
		{"with the first full window it is", 5, 60 * s, [][]answered{bad(61, s)}, 61},
		{"exactly the share is within the budget", 5, 60 * s, [][]answered{good(117, s), bad(3, s)}, 0},
		{"one more is not", 5, 60 * s, [][]answered{good(117, s), bad(4, s)}, 121},
		{"what failed before the window is forgotten", 5, 60 * s, [][]answered{good(117, s), bad(3, s), good(60, s), bad(3, s), good(60, s)}, 0},
		{"what failed within it is not", 5, 60 * s, [][]answered{good(117, s), bad(2, s), good(10, s), bad(2, s)}, 131},
		{"a window of less than sixty seconds", 50, 10 * s, [][]answered{good(20, s), bad(5, s), bad(1, s)}, 26},
		{"answers rarer than buckets", 20, 600 * s, [][]answered{good(12, 60*s), bad(2, 60*s), bad(1, 60*s)}, 15},
		{"after a window without answers nothing is judged at first", 20, 60 * s, [][]answered{good(120, s), bad(1, time.Hour), bad(59, s)}, 0},
		{"until the next full one", 20, 60 * s, [][]answered{good(120, s), bad(1, time.Hour), bad(60, s)}, 181},
	} {
		t.Run(c.name, func(t *testing.T) {
			budget := v1beta1.ProbeBudget{Percent: v1beta1.PercentNumber(c.percent), Window: v1beta1.Duration{Duration: c.window}}
			var spent Spent
			at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
			burned := 0
			for i, answer := range slices.Concat(c.answers...) {
				if i > 0 {
					at = at.Add(answer.after)
				}
				before := slices.Clone(spent.Buckets)
				next := spent.add(budget, answer.result, at)
				if !slices.Equal(before, spent.Buckets) {
					t.Fatalf("answer %d: add changes what it was given", i+1)
				}
				spent = next
				if len(spent.Buckets) > maxBuckets {
					t.Fatalf("answer %d: %d buckets, at most %d", i+1, len(spent.Buckets), maxBuckets)
				}
				if burned == 0 && spent.burned(budget, at) {
					burned = i + 1
				}
			}
			if burned != c.burnedAfter {
				t.Errorf("burned after answer %d, want %d", burned, c.burnedAfter)
			}
		})
	}
}

func TestBudgetWhenTheClockIsSetBack(t *testing.T) {
	budget := v1beta1.ProbeBudget{Percent: 50, Window: v1beta1.Duration{Duration: time.Minute}}
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	spent := Spent{}.add(budget, Success, at).add(budget, Success, at.Add(50*time.Second)).add(budget, Failure, at.Add(-time.Hour))
	if last := spent.Buckets[len(spent.Buckets)-1]; last != [2]int32{1, 1} {
		t.Errorf("the last bucket is %v, want the answer in it", last)
	}
}

// answered is an answer and the time since the one before.
type answered struct {
	result Result
	after  time.Duration
}

func repeat(result Result, n int, every time.Duration) []answered {
	return slices.Repeat([]answered{{result, every}}, n)
}
