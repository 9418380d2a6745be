package activities

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// firstFailureGap is the least time between two events of a probe that tell
	// that some target begins to fail, failureGap between two of one that goes on.
	firstFailureGap = 30 * time.Second
	failureGap      = 5 * time.Minute
	// waitingFailures are kept for an API server that is slow; more are dropped.
	waitingFailures = 16
)

// failureEvents chooses which failures are told as events (rule P21).
type failureEvents struct {
	told    map[string]time.Time
	failing map[probe.Key]bool
}

// worth is true for the first failure or error of a run, and for some after it.
func (f *failureEvents) worth(tick probe.Tick, now time.Time) bool {
	if tick.Answer.Err == nil && tick.Answer.Result != probe.Failure {
		delete(f.failing, tick.Key)
		return false
	}
	gap := firstFailureGap
	if f.failing[tick.Key] {
		gap = failureGap
	}
	f.failing[tick.Key] = true
	if last, told := f.told[tick.Probe]; told && now.Sub(last) < gap {
		return false
	}
	f.told[tick.Probe] = now
	return true
}

// hearAnswers counts answers, and tells failures as events. stop waits for those that
// are under way.
func hearAnswers(ctx context.Context, phase v1beta1.ProbePhase, who asked) (heard func(probe.Tick), stop func()) {
	failures := make(chan string, waitingFailures)
	var telling sync.WaitGroup
	telling.Go(func() {
		for message := range failures {
			who.warn(context.WithoutCancel(ctx), "ProbeFailed", message, message+time.Now().String())
		}
	})
	var mu sync.Mutex
	chosen, over := failureEvents{map[string]time.Time{}, map[probe.Key]bool{}}, false
	heard = func(tick probe.Tick) {
		metric.ProbeAnswers.Add(ctx, 1, outcomeOf(tick.Answer))
		if tick.Answer.Waited {
			metric.ProbeWaits.Add(ctx, 1, "")
		}
		mu.Lock()
		defer mu.Unlock()
		if over || !chosen.worth(tick, time.Now()) {
			return
		}
		message := fmt.Sprintf("probe %s, phase %s%s: %s", tick.Probe, phase, who.words(tick.Key), tick.Answer.Text)
		select {
		case failures <- message:
		default:
			activity.GetLogger(ctx).Warn("event not recorded", "reason", "ProbeFailed", "message", message)
		}
	}
	return heard, func() {
		mu.Lock()
		over = true
		close(failures)
		mu.Unlock()
		telling.Wait()
	}
}

func outcomeOf(answer probe.Answer) string {
	switch {
	case answer.Err != nil:
		return "error"
	case answer.Result == probe.Failure:
		return "failure"
	}
	return "success"
}
