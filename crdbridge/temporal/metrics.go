package temporal

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are the bridge's own metrics, beside controller-runtime's.
type counters struct {
	signals *prometheus.CounterVec
	starts  prometheus.Counter
}

func newCounters(registry prometheus.Registerer) (counters, error) {
	c := counters{
		signals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "squall_signals_total", Help: "Signals sent to workflows, by name.",
		}, []string{"signal"}),
		starts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "squall_workflow_starts_total",
			Help: "Starts asked of Temporal. One that finds the workflow running changes nothing and is counted too.",
		}),
	}
	return c, errors.Join(registry.Register(c.signals), registry.Register(c.starts))
}
