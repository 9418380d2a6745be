package main

import (
	"fmt"
	"maps"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	otelmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/activities/metric"
)

// newMetrics returns the metrics handler of Temporal's SDK and the activities, and the page
// that shows the metrics to Prometheus. The activities' counters are on the page from the
// start, as 0, with their help texts and without the SDK's labels.
func newMetrics(logger *zap.Logger, counters []metric.Counter) (client.MetricsHandler, http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("set up metrics: %w", err)
	}
	handler := opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:                otelmetric.NewMeterProvider(otelmetric.WithReader(exporter)).Meter("squall"),
		OnError:              func(err error) { logger.Warn("metric not recorded", zap.Error(err)) },
		UseMonotonicCounters: true,
	})
	own := ownCounters{MetricsHandler: handler, vectors: map[string]vector{}}
	for _, counter := range counters {
		own.vectors[counter.Name] = newVector(registry, counter)
	}
	return own, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

// ownCounters counts the activities' counters itself, and leaves the rest to the SDK's
// handler.
type ownCounters struct {
	client.MetricsHandler
	vectors map[string]vector
	tags    map[string]string
}

// vector is a counter of the activities, with a label if it has one.
type vector struct {
	*prometheus.CounterVec
	label string
}

func newVector(registry prometheus.Registerer, c metric.Counter) vector {
	var labels []string
	if c.Label != "" {
		labels = []string{c.Label}
	}
	v := vector{prometheus.NewCounterVec(prometheus.CounterOpts{Name: c.Name, Help: c.Help}, labels), c.Label}
	if c.Label == "" {
		v.WithLabelValues()
	}
	for _, part := range c.Parts() {
		v.WithLabelValues(part)
	}
	registry.MustRegister(v)
	return v
}

// WithTags is part of the handler. The last value of a tag counts.
func (o ownCounters) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(o.tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, tags)
	return ownCounters{MetricsHandler: o.MetricsHandler.WithTags(tags), vectors: o.vectors, tags: all}
}

// Counter is part of the handler.
func (o ownCounters) Counter(name string) client.MetricsCounter {
	v, own := o.vectors[name]
	switch {
	case !own:
		return o.MetricsHandler.Counter(name)
	case v.label == "":
		return ownCounter{v.WithLabelValues()}
	}
	return ownCounter{v.WithLabelValues(o.tags[v.label])}
}

type ownCounter struct{ prometheus.Counter }

// Inc is part of a counter of the SDK.
func (c ownCounter) Inc(n int64) { c.Add(float64(n)) }
