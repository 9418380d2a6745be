package main

import (
	"net/http"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/workflows/traces"
)

// telemetry has the worker's page of metrics, and its traces if they are configured.
type telemetry struct {
	page    http.Handler
	metrics client.MetricsHandler
	tracing *traces.Tracing
}

func newTelemetry(c Config, logger *zap.Logger) (t telemetry, err error) {
	if t.metrics, t.page, err = newMetrics(logger, c.counters()); err != nil {
		return t, err
	}
	t.tracing, err = traces.New(c.account(), c.Traces, logger)
	return t, err
}

// extend adds metrics and traces to the options of a Temporal client.
func (t telemetry) extend(o *client.Options) {
	o.MetricsHandler = t.metrics
	t.tracing.Extend(o)
}
