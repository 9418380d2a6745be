package main

import (
	"net/http"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/workflows/traces"
)

// telemetry is what the worker tells of itself: a page of metrics, and traces if
// somebody wants them.
type telemetry struct {
	page    http.Handler
	metrics client.MetricsHandler
	tracing *traces.Tracing
}

func newTelemetry(c Config, logger *zap.Logger) (told telemetry, err error) {
	if told.metrics, told.page, err = newMetrics(logger, c.counters()); err != nil {
		return told, err
	}
	told.tracing, err = traces.New(c.account(), c.Traces, logger)
	return told, err
}

// extend has a client of Temporal tell what it does.
func (t telemetry) extend(o *client.Options) {
	o.MetricsHandler = t.metrics
	t.tracing.Extend(o)
}
