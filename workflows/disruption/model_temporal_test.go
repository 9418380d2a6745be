package disruption

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/status"
	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// playedTemporal stands between the workflow and the test environment. It plays
// Temporal's server and the workers that carry out activities: attempts, time-outs,
// retries, cancellation, according to the options of the workflow. All of it runs on the
// workflow's own dispatcher in skipped time, so that only the trial's choices decide what
// happens, and in which order.
type playedTemporal struct {
	interceptor.WorkerInterceptorBase
	interceptor.WorkflowInboundInterceptorBase
	interceptor.WorkflowOutboundInterceptorBase
	c *cluster
}

func (p *playedTemporal) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	p.WorkflowInboundInterceptorBase.Next = next
	return p
}

func (p *playedTemporal) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	p.WorkflowOutboundInterceptorBase.Next = outbound
	return p.WorkflowInboundInterceptorBase.Next.Init(p)
}

var errTerminated = errors.New("terminated")

// ExecuteWorkflow runs the workflow until it ends or is terminated, and beside it the
// cluster.
func (p *playedTemporal) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (result any, err error) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	p.c.time = free
	over := false
	workflow.Go(free, p.c.live)
	workflow.Go(free, func(free workflow.Context) {
		ctx.Done().Receive(free, nil)
		p.c.endedBy = "the cancellation"
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		result, err = p.WorkflowInboundInterceptorBase.Next.ExecuteWorkflow(ctx, in)
		over = true
	})
	if waited := workflow.Await(free, func() bool { return over || p.c.terminated }); waited != nil {
		return nil, waited
	}
	if !over {
		return nil, errTerminated
	}
	return result, err
}

// HandleSignal notes that a signal has reached the workflow.
func (p *playedTemporal) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	if in.SignalName == contract.SignalEnd {
		p.c.endedBy = "the end"
	}
	if in.SignalName == contract.SignalProbe && p.c.lostBy(in.Arg) {
		p.c.endedBy = "the lost probe"
	}
	return p.WorkflowInboundInterceptorBase.Next.HandleSignal(ctx, in)
}

func (p *playedTemporal) UpsertTypedSearchAttributes(ctx workflow.Context, attributes ...temporal.SearchAttributeUpdate) error {
	all := temporal.NewSearchAttributes(attributes...)
	p.c.stuckShown, _ = all.GetBool(start.AttributeStuck)
	return p.WorkflowOutboundInterceptorBase.Next.UpsertTypedSearchAttributes(ctx, attributes...)
}

func (p *playedTemporal) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	options := workflow.GetActivityOptions(ctx)
	p.c.heartbeats[name] = append(p.c.heartbeats[name], options.HeartbeatTimeout)
	p.c.bug.changeOptions(name, &options)
	in := p.c.bug.changeIn(args[0])
	answer := func(value any, err error) {
		if !future.IsReady() {
			set.Set(p.c.bug.changeOut(value, err))
		}
	}
	p.c.asked(name, in)
	workflow.Go(ctx, func(ctx workflow.Context) {
		free, _ := workflow.NewDisconnectedContext(ctx)
		answer(p.perform(ctx, free, options, name, in))
	})
	if !options.WaitForCancellation {
		workflow.Go(ctx, func(ctx workflow.Context) {
			free, _ := workflow.NewDisconnectedContext(ctx)
			ctx.Done().Receive(free, nil)
			answer(nil, temporal.NewCanceledError())
		})
	}
	return future
}

// ExecuteLocalActivity is one attempt within the workflow's own task. If its worker dies,
// the task is lost too: Temporal gives it to another worker after 10 s.
func (p *playedTemporal) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	in := p.c.bug.changeIn(args[0])
	p.c.asked(name, in)
	for {
		try := &attempt{c: p.c, ctx: ctx, free: ctx, n: 1}
		value, err := try.carryOut(name, in)
		switch {
		case try.hung > 0:
			p.c.sleep(ctx, workflow.GetLocalActivityOptions(ctx).ScheduleToCloseTimeout)
			err = temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, err)
		case temporal.IsTimeoutError(err):
			p.c.sleep(ctx, 10*time.Second)
			continue
		}
		set.Set(p.c.bug.changeOut(value, err))
		return future
	}
}

// perform is one activity with all its attempts.
func (p *playedTemporal) perform(ctx, free workflow.Context, o workflow.ActivityOptions, name string, arg any) (any, error) {
	began, silent := workflow.Now(free), o.StartToCloseTimeout
	if o.HeartbeatTimeout > 0 {
		silent = o.HeartbeatTimeout
	}
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return nil, temporal.NewCanceledError()
		}
		try := &attempt{c: p.c, ctx: ctx, free: free, n: n, learns: o.HeartbeatTimeout > 0}
		value, err := try.carryOut(name, arg)
		if err == nil || temporal.IsCanceledError(err) {
			return value, err
		}
		if temporal.IsTimeoutError(err) {
			p.c.sleep(free, silent)
		}
		if n == int(o.RetryPolicy.MaximumAttempts) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, temporal.NewCanceledError() // a cancelled activity is not retried
		}
		wait := backOff(o.RetryPolicy, n)
		if all := o.ScheduleToCloseTimeout; all > 0 && workflow.Now(free).Add(wait).Sub(began) >= all {
			return nil, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, err)
		}
		if workflow.Sleep(ctx, wait) != nil {
			return nil, temporal.NewCanceledError()
		}
	}
}

func backOff(policy *temporal.RetryPolicy, n int) time.Duration {
	wait := policy.InitialInterval.Seconds() * math.Pow(policy.BackoffCoefficient, float64(n-1))
	return time.Duration(min(wait, policy.MaximumInterval.Seconds()) * float64(time.Second))
}

// attempt is one attempt of one activity by some worker.
type attempt struct {
	c *cluster
	// ctx is cancelled with the activity; free never is.
	ctx, free workflow.Context
	n         int
	// learns is true for an activity that learns of its cancellation.
	learns bool
	// hung is how long after its time-out the rest of it will be done; 0: it does not hang.
	hung time.Duration
}

// stopped is how an attempt ends before its time.
type stopped struct{ error }

var (
	errCall = temporal.NewApplicationError("the API server did not answer", "Unavailable")
	errGone = temporal.NewHeartbeatTimeoutError()
)

// carryOut does what the activity does, until it stops.
func (a *attempt) carryOut(name string, arg any) (value any, err error) {
	defer func() {
		switch stop := recover().(type) {
		case nil:
		case stopped:
			value, err = nil, stop.error
		default:
			panic(stop)
		}
	}()
	a.reach()
	if value, err = a.c.performActivity(a, name, arg); err != nil {
		return nil, err
	}
	if a.hung > 0 || a.c.faultPoint(a.free, "the answer of "+name, "is lost") == 1 {
		return nil, errGone
	}
	return value, nil
}

// reach stops an attempt that cannot reach the API server.
func (a *attempt) reach() {
	if workflow.Now(a.free).Before(a.c.awayUntil) {
		panic(stopped{errCall})
	}
}

// write is one call that changes something in the cluster, and the moment at which it may
// fail. late is true when a worker does it after its activity has timed out.
func (a *attempt) write(what string, do func(late bool)) {
	if a.hung == 0 {
		switch a.c.faultPoint(a.free, what, "the call fails", "the worker dies before it",
			"the worker hangs, and goes on as soon as it is given up", "the worker hangs, and goes on 4 minutes later") {
		case 1:
			panic(stopped{errCall})
		case 2:
			panic(stopped{errGone})
		case 3:
			a.hung = 16 * time.Second
		case 4:
			a.hung = 4 * time.Minute
		}
	}
	if a.hung > 0 {
		a.c.late = append(a.c.late, lateWrite{workflow.Now(a.free).Add(a.hung), what, do})
		return
	}
	a.reach()
	if a.ctx.Err() != nil && a.learns && a.c.stopsAtOnce != (a.c.pick("cancelled before: "+what, "the worker does as the others", "it does not") == 1) {
		panic(stopped{temporal.NewCanceledError()})
	}
	do(false)
	a.c.pass()
}

// wait lets time pass within an attempt.
func (a *attempt) wait(t time.Duration) {
	if a.hung > 0 {
		panic(stopped{errGone})
	}
	a.c.sleep(a.free, t)
	a.reach()
	if a.ctx.Err() != nil && a.learns {
		panic(stopped{temporal.NewCanceledError()})
	}
}

// performActivity is what an activity does.
func (c *cluster) performActivity(a *attempt, name string, arg any) (any, error) {
	switch name {
	case "Prepare":
		return c.prepare(a), nil
	case "SelectTargets":
		return c.choose(a, arg.(choose.Input)), nil
	case "CreateChaosPods":
		return c.createAll(a, arg.(inject.CreateInput)), nil
	case "AwaitInjection":
		return c.awaitInjection(a), nil
	case "CleanChaosPods":
		return c.clean(a, arg.(clean.Input)), nil
	case "VerifyNodes":
		return c.verify(a, arg.(verify.Input)), nil
	case "OperateTargets":
		return c.operate(a, arg.(operate.Input)), nil
	case "EndOperations":
		return c.endOperations(a, arg.(operate.EndInput)), nil
	case "ReportPhase":
		return nil, c.report(a, arg.(status.Report))
	case "AskProbes":
		return c.askProbes(a, arg.(probing.Input)), nil
	case "WarnSpecChanged", "ReportSteadyState":
		a.write(name, func(bool) {})
		return nil, nil
	case "WasInjected":
		return false, nil
	case "Finish":
		return c.finish(a, arg.(status.FinishInput)), nil
	}
	return nil, fmt.Errorf("the model knows no activity %s", name)
}
