package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The client measures its upstream: a third of the answers late, a third failed.
func TestLoadMeasuresTheUpstream(t *testing.T) {
	var asked atomic.Int64
	cart := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) % 3 {
		case 0:
			time.Sleep(100 * time.Millisecond)
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer cart.Close()
	front := httptest.NewServer(handler(cart.URL))
	defer front.Close()
	ctx, cancel := context.WithCancel(t.Context())
	log, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Load(ctx, front.URL, out) }()
	seconds, err := read(log, 3)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = log.Close() // Load may still print a second
	if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	p := Sum(seconds)
	if share := float64(p.Errors) / float64(p.Requests); p.Requests < 40 || share < 0.25 || share > 0.42 {
		t.Errorf("%d of %d requests failed, want a third of 60", p.Errors, p.Requests)
	}
	if p.Slow < 100*time.Millisecond || p.Slow > time.Second {
		t.Errorf("95th percentile %s, want 100 ms or a little more", p.Slow)
	}
}

func TestReadyDoesNotAskTheUpstream(t *testing.T) {
	answer := httptest.NewRecorder()
	handler("http://127.0.0.1:1").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/ready", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("/ready is %d without an upstream, want 200", answer.Code)
	}
	answer = httptest.NewRecorder()
	handler("http://127.0.0.1:1").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if answer.Code != http.StatusBadGateway {
		t.Errorf("/ is %d without an upstream, want 502", answer.Code)
	}
}

func TestSum(t *testing.T) {
	seconds := []Second{{Requests: 3, Errors: 1, Ms: []float64{1, 4}}, {Requests: 2, Ms: []float64{2, 300}}}
	want := Phase{Requests: 5, Errors: 1, Median: 2 * time.Millisecond, Slow: 300 * time.Millisecond}
	if diff := cmp.Diff(want, Sum(seconds)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Phase{}, Sum(nil)); diff != "" {
		t.Errorf("of no second (-want +got):\n%s", diff)
	}
}

func TestALogThatEndsIsAnError(t *testing.T) {
	for log, want := range map[string]string{`{"requests":20}`: "after 1 of 2 seconds: the log of the client ended", "panic: x\n": `printed "panic: x"`} {
		if _, err := read(strings.NewReader(log), 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", log, err, want)
		}
	}
}

func TestCLIImage(t *testing.T) {
	for worker, want := range map[string]string{
		"squall.local/squall:dev":            "squall.local/cli:dev",
		"registry.example:5000/a/squall:v1":  "registry.example:5000/a/cli:v1",
		"registry.example/worker:v1":         "",
		"squall:v1":                          "",
		"registry.example/squall@sha256:123": "",
	} {
		if got := CLIImage(worker); got != want {
			t.Errorf("beside %s: %q, want %q", worker, got, want)
		}
	}
}
