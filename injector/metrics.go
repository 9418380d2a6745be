//go:build linux

package main

import "go.uber.org/zap"

// metricCounter is a number that only grows.
type metricCounter struct {
	Name, Help string
	// Label distinguishes the parts of the number.
	Label string
}

// The counters of an injector.
var (
	countInjected = metricCounter{"squall_injector_injected_total", "Tries to inject that succeeded or failed.", "result"}
	countCleaned  = metricCounter{"squall_injector_cleaned_total", "Ends of injectors that cleaned, or could not.", "result"}
)

// metrics counts results. An injector opens no port, so its counts reach the log or are
// dropped. The zero value drops them.
type metrics struct{ log *zap.Logger }

func newMetrics(sink string, log *zap.Logger) metrics {
	if sink != "log" {
		return metrics{}
	}
	return metrics{log: log}
}

func (m metrics) count(c metricCounter, result string) {
	if m.log != nil {
		m.log.Info("metric", zap.String("name", c.Name), zap.String(c.Label, result))
	}
}
