package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.uber.org/zap"
)

// newMetrics returns what Temporal's SDK and the activities count with, and
// the page that shows it to Prometheus.
func newMetrics(logger *zap.Logger) (client.MetricsHandler, http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("set up metrics: %w", err)
	}
	handler := opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:                metric.NewMeterProvider(metric.WithReader(exporter)).Meter("squall"),
		OnError:              func(err error) { logger.Warn("metric not recorded", zap.Error(err)) },
		UseMonotonicCounters: true,
	})
	return handler, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
