package steadystate

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
	// firstFailureGap is the least time between two events that a probe begins to fail.
	// Each target of the probe can cause one.
	firstFailureGap = 30 * time.Second
	// failureGap is the least time between an event and the next one for a run of failures.
	failureGap = 5 * time.Minute
	// waitingFailures is the number of events that wait for a slow API server. More are
	// only logged.
	waitingFailures = 16
)

// failureEvents chooses the failures that become events (rule P21).
type failureEvents struct {
	// recorded has the time of the last event, by probe name.
	recorded map[string]time.Time
	failing  map[probe.Key]bool
}

// worth is true for the first failure or error of a run, and for some of the later ones.
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
	if last, found := f.recorded[tick.Probe]; found && now.Sub(last) < gap {
		return false
	}
	f.recorded[tick.Probe] = now
	return true
}

// recordAnswers returns received, which counts answers and records failures as events, and
// stop, which waits for the events that are under way.
func recordAnswers(ctx context.Context, phase v1beta1.ProbePhase, of Asked) (received func(probe.Tick), stop func()) {
	failures := make(chan string, waitingFailures)
	var recording sync.WaitGroup
	recording.Go(func() {
		for message := range failures {
			of.warn(context.WithoutCancel(ctx), "ProbeFailed", message, message+time.Now().String())
		}
	})
	var mu sync.Mutex
	chosen, over := failureEvents{map[string]time.Time{}, map[probe.Key]bool{}}, false
	received = func(tick probe.Tick) {
		metric.ProbeAnswers.Add(ctx, 1, outcomeOf(tick.Answer))
		if tick.Answer.Waited {
			metric.ProbeWaits.Add(ctx, 1, "")
		}
		mu.Lock()
		defer mu.Unlock()
		if over || !chosen.worth(tick, time.Now()) {
			return
		}
		message := fmt.Sprintf("probe %s, phase %s%s: %s", tick.Probe, phase, of.describe(tick.Key), tick.Answer.Text)
		select {
		case failures <- message:
		default:
			activity.GetLogger(ctx).Warn("event not recorded", "reason", "ProbeFailed", "message", message)
		}
	}
	return received, func() {
		mu.Lock()
		over = true
		close(failures)
		mu.Unlock()
		recording.Wait()
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
