package main

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// health answers the kubelet's probes: alive from the start, ready once the worker polls. A
// second server has the metrics for Prometheus.
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
	page.Handle("/metrics", c.Metrics.Page(metrics))
	h.serve(c.Metrics.MetricsAddress, page, logger)
	return h
}

// serve serves handler at address; at "0" it does nothing.
func (h *health) serve(address string, handler http.Handler, logger *zap.Logger) {
	if address == "0" {
		return
	}
	server := newServer(address, handler)
	h.servers = append(h.servers, server)
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("endpoint ended", zap.String("address", address), zap.Error(err))
		}
	}()
}

// newServer is a server to which every pod of the cluster can connect. Its timeouts end
// connections of slow clients. The kubelet and Prometheus need milliseconds.
func newServer(address string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: address, Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
}

func (h *health) ready() { h.polls.Store(true) }

func (h *health) close() {
	for _, server := range h.servers {
		_ = server.Close()
	}
}
