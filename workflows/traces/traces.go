// Package traces sends an OpenTelemetry collector the history of each disruption. Its
// start, the runs of its workflow and the attempts of its activities are one trace, whose
// ID is the Disruption's UID. All IDs are computed from those of Temporal, so nothing has
// to be carried along: histories do not change, and a program that starts again continues
// the same trace.
//
// Nothing waits for the collector. Spans that it does not take are lost, and logged.
package traces

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/squall-chaos/squall/settings"
)

const (
	// gather is how long spans wait, so that several are sent together.
	gather = 2 * time.Second
	// attempt bounds one request, patience all requests for the same spans. Later spans wait
	// in a queue of 2048; any beyond that are dropped.
	attempt  = 5 * time.Second
	patience = 10 * time.Second
	// farewell is how long an ending program sends what it has left.
	farewell = 2 * time.Second
	// quiet is how long no second message about an unreachable collector is logged.
	quiet = 10 * time.Minute
)

// Tracing makes spans of the calls of a client of Temporal and its workers. A nil Tracing
// makes none.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns nil without an endpoint. It does not check whether a collector listens
// there. service is the name of the program.
func New(service string, s settings.Traces, logger *zap.Logger) (*Tracing, error) {
	if s.Endpoint == "" {
		return nil, nil
	}
	headers, err := s.ReadHeaders()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(s.Endpoint), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithTimeout(attempt), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: attempt, MaxElapsedTime: patience,
		}))
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", s.Endpoint, err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&patient{SpanExporter: exporter, logger: logger, endpoint: s.Endpoint}, sdk.WithBatchTimeout(gather), sdk.WithExportTimeout(patience)),
		sdk.WithIDGenerator(generator{}),
		sdk.WithSampler(newShare(s.Sampling)),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/squall-chaos/squall/workflows/traces")}, nil
}

// Extend makes a client, and every worker that uses it, make spans.
func (t *Tracing) Extend(o *client.Options) {
	if t == nil {
		return
	}
	o.Interceptors = append(o.Interceptors, &spans{tracer: t.tracer})
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(noteStarted))
}

// Close sends what is left, if the collector takes it soon.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // lost spans were logged
}

// spans makes the spans: of starts by a client, of workflows and of activities.
type spans struct {
	interceptor.InterceptorBase
	tracer trace.Tracer
}

// patient logs that spans are lost, once for many of them. It is called by one goroutine
// at a time.
type patient struct {
	sdk.SpanExporter
	logger   *zap.Logger
	endpoint string
	lost     int
	logged   time.Time
}

func (p *patient) ExportSpans(ctx context.Context, ended []sdk.ReadOnlySpan) error {
	err := p.SpanExporter.ExportSpans(ctx, ended)
	if err == nil {
		return nil
	}
	p.lost += len(ended)
	if p.logged.IsZero() || time.Since(p.logged) > quiet {
		p.logged = time.Now()
		p.logger.Warn("traces are lost: see that the collector runs, or set SQUALL_TRACES_ENDPOINT; disruptions go on",
			zap.String("endpoint", p.endpoint), zap.Int("spans", p.lost), zap.Error(err))
		p.lost = 0
	}
	return nil
}
