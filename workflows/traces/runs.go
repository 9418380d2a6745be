package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// InterceptWorkflow is called for each workflow that is run, or replayed.
func (s *spans) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &runs{interceptor.WorkflowInboundInterceptorBase{Next: next}, s.tracer}
}

type runs struct {
	interceptor.WorkflowInboundInterceptorBase
	tracer trace.Tracer
}

// ExecuteWorkflow makes the span of a run when it ends, and not before. A run that is
// replayed, because its worker stopped or a person reads it, still has one span.
func (r *runs) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := r.Next.ExecuteWorkflow(ctx, in)
	if workflow.IsReplaying(ctx) {
		return result, err
	}
	info := workflow.GetInfo(ctx)
	id := info.WorkflowExecution.ID
	own := fixed{trace: traceID(id, info.WorkflowExecution.RunID), span: runSpan(info.WorkflowExecution.RunID)}
	above := context.Background()
	if parent := parentOf(ctx, info, own.trace); parent.IsValid() {
		above = below(own.trace, parent)
	}
	_, span := r.tracer.Start(withIDs(above, own), "RunWorkflow:"+info.WorkflowType.Name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(info.WorkflowStartTime), trace.WithAttributes(about(id, info.WorkflowExecution.RunID)...))
	// No workflow reads the attributes of a span, so nothing depends on how they are made.
	span.SetAttributes(kinds(workflow.GetTypedSearchAttributes(ctx))...) //workflowcheck:ignore
	span.SetAttributes(counts(result)...)                                //workflowcheck:ignore
	failed(span, err)                                                    //workflowcheck:ignore
	span.End(trace.WithTimestamp(workflow.Now(ctx)))
	return result, err
}

// parentOf is the span of the run before this one, of the workflow that began it, or of
// the program that began it.
func parentOf(ctx workflow.Context, info *workflow.Info, id trace.TraceID) trace.SpanID {
	if before := info.ContinuedExecutionRunID; before != "" {
		if traceID(info.WorkflowExecution.ID, before) != id {
			return trace.SpanID{}
		}
		return runSpan(before)
	}
	if began := info.ParentWorkflowExecution; began != nil && traceID(began.ID, began.RunID) == id {
		return runSpan(began.RunID)
	}
	return read(interceptor.WorkflowHeader(ctx), id)
}

// InterceptActivity is called for each attempt at an activity.
func (s *spans) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &attempts{interceptor.ActivityInboundInterceptorBase{Next: next}, s.tracer}
}

type attempts struct {
	interceptor.ActivityInboundInterceptorBase
	tracer trace.Tracer
}

// ExecuteActivity makes a span of an attempt. An attempt that waits by failing has none.
func (a *attempts) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	id, run := info.WorkflowExecution.ID, info.WorkflowExecution.RunID
	_, span := a.tracer.Start(below(traceID(id, run), runSpan(run)), "RunActivity:"+info.ActivityType.Name,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(about(id, run)...),
		trace.WithAttributes(attribute.String("temporalActivityID", info.ActivityID), attribute.Int("squall.attempt", int(info.Attempt))))
	result, err := a.Next.ExecuteActivity(ctx, in)
	if waits(err) {
		return result, err // a span that never ends is never sent
	}
	span.SetAttributes(counts(result)...)
	failed(span, err)
	span.End()
	return result, err
}
