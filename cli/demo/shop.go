// Package demo is squall demo: the command and the shop that it disrupts, with the programs
// of its pods, its objects in the cluster, and the measurements of its client.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// callTimeout is how long a request may take before it counts as failed.
	callTimeout = 2 * time.Second
	// requestsPerSecond is the rate of the client.
	requestsPerSecond = 20
)

// Serve answers HTTP requests on address until ctx ends. With an upstream URL, each answer
// waits for one of the upstream, and is 502 without. /ready answers at once.
func Serve(ctx context.Context, address, upstream string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(upstream), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(upstream string) http.Handler {
	client := &http.Client{Timeout: callTimeout}
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if upstream == "" {
			_, _ = io.WriteString(w, "ok\n")
			return
		}
		if err := get(r.Context(), client, upstream); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// get is an error unless the answer is 200 and read to its end.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// Second is what the client measured in a second. Durations are in milliseconds.
type Second struct {
	Requests  int       `json:"requests"`
	Errors    int       `json:"errors"`
	MedianMs  float64   `json:"medianMs"`
	SlowestMs float64   `json:"slowestMs"`
	Ms        []float64 `json:"ms"` // of the requests that succeeded
}

// Load sends requests to url until ctx ends, and prints a Second as a line of JSON after
// each second. Each request is a connection of its own, so that all pods behind a Service
// are asked.
func Load(ctx context.Context, url string, out io.Writer) error {
	client := &http.Client{Timeout: callTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	var mutex sync.Mutex
	var now Second
	next := time.NewTicker(time.Second / requestsPerSecond)
	defer next.Stop()
	for sent := 1; ; sent++ {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		go func() {
			began := time.Now()
			err := get(ctx, client, url)
			took := float64(time.Since(began).Microseconds()) / 1000
			mutex.Lock()
			defer mutex.Unlock()
			now.Requests++
			if err != nil {
				now.Errors++
				return
			}
			now.Ms = append(now.Ms, took)
		}()
		if sent%requestsPerSecond > 0 {
			continue
		}
		mutex.Lock()
		done := now
		now = Second{}
		mutex.Unlock()
		done.MedianMs, done.SlowestMs = percentile(done.Ms, 50), percentile(done.Ms, 100)
		if err := json.NewEncoder(out).Encode(done); err != nil {
			return err
		}
	}
}

// Phase is what the client measured in some seconds.
type Phase struct {
	Requests, Errors int
	// Median and Slow, the 95th percentile, are of the requests that succeeded.
	Median, Slow time.Duration
}

// Sum is the Phase of some seconds.
func Sum(seconds []Second) (p Phase) {
	var all []float64
	for _, s := range seconds {
		p.Requests += s.Requests
		p.Errors += s.Errors
		all = append(all, s.Ms...)
	}
	p.Median, p.Slow = milliseconds(percentile(all, 50)), milliseconds(percentile(all, 95))
	return p
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// percentile is the smallest value that p percent of all do not exceed; 0 of none.
func percentile(all []float64, p int) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
