package workflows

import (
	"time"

	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The waits of package disruption that take too long for a stage: until it looks though
// nothing was observed, and before the last cleaner. A stage waits hurry and lastPause
// instead. No timer of a workflow is as long.
const (
	lookPeriod   = 6 * time.Hour
	cleanerPause = 10 * time.Second
	hurry        = 700 * time.Millisecond
	lastPause    = 300 * time.Millisecond
)

// beat is how often a worker that is not silent sends a heartbeat.
const beat = 200 * time.Millisecond

// signalStart begins the injection of a stage that waits for it. It replaces the timer
// startTimer.
const (
	signalStart = "start"
	startTimer  = "spec.triggers.createPods"
)

// hurried shortens the waits that take too long for a test. The commands of the workflow
// stay the same, and so does their order; only the times in them differ.
type hurried struct {
	interceptor.WorkerInterceptorBase
	s *stage
}

func (h *hurried) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &hurriedWorkflow{interceptor.WorkflowInboundInterceptorBase{Next: next}, h.s}
}

type hurriedWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	s *stage
}

func (h *hurriedWorkflow) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return h.Next.Init(&hurriedCommands{interceptor.WorkflowOutboundInterceptorBase{Next: out}, h.s})
}

type hurriedCommands struct {
	interceptor.WorkflowOutboundInterceptorBase
	s *stage
}

// AwaitWithOptions shortens the first six hours of a stage, if the stage wants that, and
// each pause before the last cleaner.
func (h *hurriedCommands) AwaitWithOptions(ctx workflow.Context, options workflow.AwaitOptions, condition func() bool) (bool, error) {
	switch {
	case options.Timeout == lookPeriod && h.s.hoursPass.CompareAndSwap(true, false):
		options.Timeout = hurry
	case options.Timeout == cleanerPause:
		options.Timeout = lastPause
	}
	return h.Next.AwaitWithOptions(ctx, options, condition)
}

// NewTimerWithOptions makes a stage that wants it wait for signalStart instead of the
// time of its injection.
func (h *hurriedCommands) NewTimerWithOptions(ctx workflow.Context, d time.Duration, options workflow.TimerOptions) workflow.Future {
	if !h.s.startHeld.Load() || options.Summary != startTimer {
		return h.Next.NewTimerWithOptions(ctx, d, options)
	}
	begins, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		workflow.GetSignalChannel(ctx, signalStart).Receive(ctx, nil)
		set.Set(nil, nil)
	})
	return begins
}

// unhurried gives a timer of a history the time that the workflow asks for.
func unhurried(event *history.HistoryEvent) {
	started := event.GetTimerStartedEventAttributes()
	asked := map[time.Duration]time.Duration{hurry: lookPeriod, lastPause: cleanerPause}
	if asked, shorter := asked[started.GetStartToFireTimeout().AsDuration()]; started != nil && shorter {
		started.StartToFireTimeout = durationpb.New(asked)
	}
}
