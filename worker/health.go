package main

import (
	"errors"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"
)

// health answers the kubelet's probes: alive from the start, ready once the
// worker polls.
type health struct {
	server *http.Server
	polls  atomic.Bool
}

func serveHealth(address string, logger *zap.Logger) *health {
	h := &health{}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.polls.Load() {
			http.Error(w, "not connected to Temporal and the cluster yet", http.StatusServiceUnavailable)
		}
	})
	h.server = &http.Server{Addr: address, Handler: mux}
	go func() {
		if err := h.server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("health endpoint ended", zap.Error(err))
		}
	}()
	return h
}

func (h *health) ready() { h.polls.Store(true) }

func (h *health) close() { _ = h.server.Close() }
