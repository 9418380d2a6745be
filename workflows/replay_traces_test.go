package workflows

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/traces"
)

// Traces change nothing of a workflow: every recorded history replays with them switched
// on, with and without the header of the program that traced its start, and with that
// header where they are off. A replay sends no spans.
func TestReplayWithTraces(t *testing.T) {
	var exported atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { exported.Add(1) }))
	t.Cleanup(collector.Close)
	tracing, err := traces.New("test", settings.Traces{Endpoint: collector.URL, PlainText: true, Sampling: 1}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	var options client.Options
	tracing.Extend(&options)
	traced := []interceptor.WorkerInterceptor{options.Interceptors[0].(interceptor.WorkerInterceptor)}
	header, err := converter.GetDefaultDataConverter().ToPayload(map[string]string{"traceparent": "00-6ba7b8109dad41d180b400c04fd430c8-00f067aa0ba902b7-01"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, file := range files {
		all := readHistory(t, file)
		replay := func(with ...interceptor.WorkerInterceptor) {
			t.Helper()
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: with})
			if err != nil {
				t.Fatal(err)
			}
			registerAll(replayer)
			if err := replayer.ReplayWorkflowHistory(nil, all); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		replay(traced...)
		all.Events[0].GetWorkflowExecutionStartedEventAttributes().Header = &common.Header{Fields: map[string]*common.Payload{"_tracer-data": header}}
		replay(traced...)
		replay()
	}
	tracing.Close()
	if exported.Load() > 0 {
		t.Errorf("replays were exported %d times, want never", exported.Load())
	}
}
