package traces

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"google.golang.org/grpc"
)

// header is where Temporal's SDKs, of all languages, look for the span that started
// a workflow.
const header = "_tracer-data"

// InterceptClient is called once for each client.
func (s *spans) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &starts{interceptor.ClientOutboundInterceptorBase{Next: next}, s.tracer}
}

type starts struct {
	interceptor.ClientOutboundInterceptorBase
	tracer trace.Tracer
}

// ExecuteWorkflow makes a span of a start. If the workflow exists already, there is none.
func (s *starts) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	if _, found := disruptionOf(in.Options.ID); !found {
		return s.Next.ExecuteWorkflow(ctx, in)
	}
	root := withIDs(context.Background(), fixed{trace: traceID(in.Options.ID, "")})
	_, span := s.tracer.Start(root, "StartWorkflow:"+in.WorkflowType, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(about(in.Options.ID, ""), kinds(in.Options.TypedSearchAttributes)...)...))
	if !span.IsRecording() {
		return s.Next.ExecuteWorkflow(ctx, in)
	}
	write(interceptor.Header(ctx), span)
	started := false
	run, err := s.Next.ExecuteWorkflow(context.WithValue(ctx, startedKey{}, &started), in)
	if _, there := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); there || err == nil && !started {
		return run, err // a span that never ends is never sent
	}
	failed(span, err)
	span.End()
	return run, err
}

type startedKey struct{}

// noteStarted keeps a field of Temporal's answer that the SDK does not return: whether
// the call started anything.
func noteStarted(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := call(ctx, method, request, reply, connection, options...)
	answer, is := reply.(*workflowservice.StartWorkflowExecutionResponse)
	if started, asked := ctx.Value(startedKey{}).(*bool); asked && is && err == nil {
		*started = answer.GetStarted()
	}
	return err
}

// write adds the span to the header of a workflow; without room for it the workflow's
// span has no parent.
func write(fields map[string]*common.Payload, span trace.Span) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	payload, err := converter.GetDefaultDataConverter().ToPayload(map[string]string(carrier))
	if err == nil && fields != nil {
		fields[header] = payload
	}
}

// read is the span that started a workflow, if the header has one of the same trace.
func read(fields map[string]*common.Payload, id trace.TraceID) (parent trace.SpanID) {
	carrier := map[string]string{}
	if converter.GetDefaultDataConverter().FromPayload(fields[header], &carrier) != nil {
		return parent
	}
	starter := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(carrier)))
	if starter.TraceID() != id {
		return parent
	}
	return starter.SpanID()
}
