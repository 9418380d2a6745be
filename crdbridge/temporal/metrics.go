package temporal

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter is a number that only grows.
type Counter struct {
	Name, Help string
	// Label distinguishes the parts of the number; empty: there is one part.
	Label string
}

// The counters of the bridge, beside those of controller-runtime.
var (
	Signals = Counter{"squall_signals_total", "Signals sent to workflows.", "signal"}
	Starts  = Counter{"squall_workflow_starts_total",
		"Requests to Temporal to start a workflow. A request that finds the workflow running changes nothing and counts too.", ""}
)

// Counters returns all counters.
func Counters() []Counter { return []Counter{Signals, Starts} }

type counters struct {
	signals, starts *prometheus.CounterVec
}

func newCounters(registry prometheus.Registerer) (counters, error) {
	c := counters{signals: Signals.vector(), starts: Starts.vector()}
	return c, errors.Join(registry.Register(c.signals), registry.Register(c.starts))
}

func (c Counter) vector() *prometheus.CounterVec {
	var labels []string
	if c.Label != "" {
		labels = []string{c.Label}
	}
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: c.Name, Help: c.Help}, labels)
	if c.Label == "" {
		vector.WithLabelValues() // shown from the start, as 0
	}
	return vector
}
