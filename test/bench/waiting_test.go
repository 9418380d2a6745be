package bench

import (
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

// waiting measures what n disruptions of one target cost while nothing happens.
func (b bench) waiting(n int, sample time.Duration) {
	b.Helper()
	b.Targets(n + n/5 + 10)
	b.fresh()
	logf("%s disruptions of one target begin to wait", thousands(int64(n)))
	began := time.Now()
	all := b.hundreds(n)
	begun := time.Since(began)
	before, events := b.Meter.Settled(b), b.events(all)
	clock := world.StartClock()
	var bridge, worker int64
	logf("all wait; they are looked at for %s", sample)
	for over := time.After(sample); over != nil; {
		select {
		case <-over:
			over = nil
		case <-time.After(min(sample/2, time.Second)):
			now, _ := b.bridge.Memory()
			bridge = max(bridge, now)
			now, _ = b.worker.Memory()
			worker = max(worker, now)
		}
	}
	waited, made := clock.Stop(), b.Meter.Read(b).Since(before)
	grown := b.events(all) - events
	period := b.period(all[0])
	lookEvents, lookCalls := b.look(all[0])
	logf("all are deleted")
	began = time.Now()
	b.Each(n, 100, func(i int) error { return b.Disruptions.Delete(b.Context(), all[i]) })
	for _, d := range all {
		b.Vanishes(d)
	}
	hours := sample.Hours() * float64(n) // of waiting, all together
	number := thousands(int64(n))
	publish(b, section{
		name: "waiting",
		lines: []line{
			{what: fmt.Sprintf("bridge + worker with %s waiting disruptions", number), value: float64(bridge+worker) / 1e6, most: 400, below: true, unit: "MB"},
			{what: "API writes an hour of one that waits, sampled", value: float64(made.Work().Writes().Total()) / hours, most: 0},
			{what: "API writes when its timer lets it look", value: float64(lookCalls.Work().Writes().Total()), most: 0},
			{what: "history events an hour, sampled", value: float64(grown) / hours, most: 4},
			{what: "history events an hour, of its timer", value: float64(lookEvents) / period.Hours(), most: 4},
		},
		notes: []string{
			fmt.Sprintf("The bridge held %s, the worker %s. In %g s of waiting all %s together made %d API calls and %d history events, and the bridge %d calls for its lease; the bridge used %s and the worker %s processor seconds.",
				megabytes(bridge), megabytes(worker), sample.Seconds(), number, made.Work().Total(), grown, made.Total()-made.Work().Total(),
				processor(waited.CPU["crdbridge"]), processor(waited.CPU["worker"])),
			fmt.Sprintf("The workflow's timer lets it look every %g hours; a look costs %d history events and %d API calls.", period.Hours(), lookEvents, lookCalls.Work().Total()),
			fmt.Sprintf("To begin them, a hundred at a time, took %s; to end them all at once %s.", took(begun), took(time.Since(began))),
			b.where(),
		},
	})
}

// hundreds begins n disruptions of one target, a hundred at a time.
func (b bench) hundreds(n int) (all []*v1beta1.Disruption) {
	b.Helper()
	for len(all) < n {
		some := make([]*v1beta1.Disruption, min(100, n-len(all)))
		for i := range some {
			some[i] = b.disruption(1)
			some[i].Spec.Duration = &v1beta1.Duration{Duration: 100 * time.Hour}
		}
		b.Each(len(some), len(some), func(i int) error { return b.Disruptions.Create(b.Context(), some[i]) })
		for _, d := range some {
			b.Injected(d)
		}
		all = append(all, some...)
		logf("%s of %s wait", thousands(int64(len(all))), thousands(int64(n)))
	}
	return all
}

// events are those in the histories of all.
func (b bench) events(all []*v1beta1.Disruption) (n int64) {
	b.Helper()
	for _, d := range all {
		events, _ := b.Length(d)
		n += events
	}
	return n
}

// period is how long the workflow of d, which waits, sleeps before it looks
// again: the timer that runs and is not that of the disruption's end.
func (b bench) period(d *v1beta1.Disruption) time.Duration {
	b.Helper()
	running := map[int64]time.Duration{}
	for _, event := range b.History(d).GetEvents() {
		switch event.GetEventType() {
		case enumspb.EVENT_TYPE_TIMER_STARTED:
			if strings.HasPrefix(summary(event), "look again") {
				running[event.GetEventId()] = event.GetTimerStartedEventAttributes().GetStartToFireTimeout().AsDuration()
			}
		case enumspb.EVENT_TYPE_TIMER_CANCELED:
			delete(running, event.GetTimerCanceledEventAttributes().GetStartedEventId())
		case enumspb.EVENT_TYPE_TIMER_FIRED:
			delete(running, event.GetTimerFiredEventAttributes().GetStartedEventId())
		}
	}
	for _, period := range running {
		return period
	}
	b.Fatalf("%s waits without a timer to look again", d.Name)
	return 0
}

func summary(event *historypb.HistoryEvent) (text string) {
	if err := converter.GetDefaultDataConverter().FromPayload(event.GetUserMetadata().GetSummary(), &text); err != nil {
		return ""
	}
	return text
}

// look makes the workflow of d look again, as its timer would, and returns the
// cost. The bridge's signal wakes the workflow, which is one event more than the
// timer.
func (b bench) look(d *v1beta1.Disruption) (events int64, made world.Calls) {
	b.Helper()
	before := b.Meter.Settled(b)
	first, _ := b.Length(d)
	b.Must(b.Workflows.SignalWorkflow(b.Context(), world.WorkflowOf(d), "", contract.SignalObserved, contract.Observation{Hash: "bench"}))
	world.Eventually(b, b.Patience, d.Name+" looks", func() bool {
		history := b.Workflows.GetWorkflowHistory(b.Context(), world.WorkflowOf(d), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			event, err := history.Next()
			b.Must(err)
			// The workflow looks within one task.
			if event.GetEventId() > first && event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				return true
			}
		}
		return false
	})
	made = b.Meter.Settled(b).Since(before)
	last, _ := b.Length(d)
	return last - first, made
}
