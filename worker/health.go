package main

import (
	"errors"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"
)

// health answers the kubelet's probes: alive from the start, ready once the
// worker polls. Beside it Prometheus finds the metrics.
type health struct {
	servers []*http.Server
	polls   atomic.Bool
}

func serveHealth(c Config, metrics http.Handler, logger *zap.Logger) *health {
	h := &health{}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.polls.Load() {
			http.Error(w, "not connected to Temporal and the cluster yet", http.StatusServiceUnavailable)
		}
	})
	h.serve(c.HealthAddress, mux, logger)
	page := http.NewServeMux()
	page.Handle("/metrics", metrics)
	h.serve(c.MetricsAddress, page, logger)
	return h
}

// serve answers at address; at "0" nowhere.
func (h *health) serve(address string, handler http.Handler, logger *zap.Logger) {
	if address == "0" {
		return
	}
	server := &http.Server{Addr: address, Handler: handler}
	h.servers = append(h.servers, server)
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("endpoint ended", zap.String("address", address), zap.Error(err))
		}
	}()
}

func (h *health) ready() { h.polls.Store(true) }

func (h *health) close() {
	for _, server := range h.servers {
		_ = server.Close()
	}
}
