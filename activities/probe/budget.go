package probe

import (
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// maxBuckets bounds how finely a window is counted: a heartbeat carries the buckets.
const maxBuckets = 60

// Spent counts the answers of a budget's window. The zero value has counted none.
type Spent struct {
	// Began is the time of the first answer, or of the first answer after a window without
	// any.
	Began time.Time `json:"began"`
	// First is the number of the first bucket, counted from Began.
	First int64 `json:"first,omitempty"`
	// Buckets are successes and failures, oldest first, at most 60.
	Buckets [][2]int32 `json:"buckets"`
}

// add returns s with one more answer. It does not change s, which others may read.
func (s Spent) add(budget v1beta1.ProbeBudget, result Result, at time.Time) Spent {
	width, most := buckets(budget)
	newest := s.First + int64(len(s.Buckets)) - 1
	last := int64(at.Sub(s.Began) / width)
	if s.Began.IsZero() || last-newest >= most {
		// No answer came for a whole window, so counting starts again.
		s, newest, last = Spent{Began: at}, 0, 0
	}
	last = max(last, newest) // also when the clock was set back
	oldest := max(s.First, last-most+1)
	kept := make([][2]int32, last-oldest+1)
	copy(kept, s.Buckets[min(oldest-s.First, int64(len(s.Buckets))):])
	which := 0
	if result == Failure {
		which = 1
	}
	kept[len(kept)-1][which]++
	s.First, s.Buckets = oldest, kept
	return s
}

// burned is true when more than the budget's share of the last window failed. It must
// be called right after an answer was added. It is false before the first full window:
// with three answers, two failures would burn any budget.
func (s Spent) burned(budget v1beta1.ProbeBudget, at time.Time) bool {
	if at.Sub(s.Began) < budget.Window.Duration {
		return false
	}
	var good, bad int64
	for _, bucket := range s.Buckets {
		good, bad = good+int64(bucket[0]), bad+int64(bucket[1])
	}
	return bad*100 > int64(budget.Percent)*(good+bad)
}

// buckets returns the width of a bucket and how many make a window: at most maxBuckets,
// and none shorter than a second.
func buckets(budget v1beta1.ProbeBudget) (width time.Duration, most int64) {
	width = max(budget.Window.Duration/maxBuckets, time.Second)
	return width, min(int64((budget.Window.Duration+width-1)/width), maxBuckets)
}
