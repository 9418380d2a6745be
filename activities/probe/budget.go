package probe

import (
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// maxBuckets is how finely a window is counted at most: a heartbeat carries them.
const maxBuckets = 60

// Spent counts the answers of a budget's window. The zero value has counted none.
type Spent struct {
	// Began is the time of the first answer, or of the first after a window
	// without any.
	Began time.Time `json:"began"`
	// First is the number of the first bucket, counted from Began.
	First int64 `json:"first,omitempty"`
	// Buckets are successes and failures, oldest first, at most 60.
	Buckets [][2]int32 `json:"buckets"`
}

// add counts an answer. It leaves s as it is, which others may read.
func (s Spent) add(budget v1beta1.ProbeBudget, result Result, at time.Time) Spent {
	width, most := buckets(budget)
	newest := s.First + int64(len(s.Buckets)) - 1
	last := int64(at.Sub(s.Began) / width)
	if s.Began.IsZero() || last-newest >= most {
		// Nobody asked for a window: what comes now is all that is known.
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

// burned is true when more than the budget's share of the last window failed. It
// is judged right after an answer was added, and from the first full window on:
// before, two failures of three would burn any budget.
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

// buckets are how long each is and how many make a window: as many as there may
// be, and none shorter than a second.
func buckets(budget v1beta1.ProbeBudget) (width time.Duration, most int64) {
	width = max(budget.Window.Duration/maxBuckets, time.Second)
	return width, min(int64((budget.Window.Duration+width-1)/width), maxBuckets)
}
