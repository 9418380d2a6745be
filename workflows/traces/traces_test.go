package traces

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/squall-chaos/squall/settings"
)

func TestTraceOfAWorkflow(t *testing.T) {
	const uid = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	const want = "6ba7b8109dad41d180b400c04fd430c8"
	for _, workflow := range []string{"disruption/shop/half/" + uid, "notification/shop/half/" + uid + "/finished-1"} {
		if got := traceID(workflow, "r1").String(); got != want || traceID(workflow, "r2").String() != want {
			t.Errorf("trace of %s = %s, want %s in each run", workflow, got, want)
		}
	}
	for _, workflow := range []string{"cron/shop/noon/" + uid + "-2026-11-22T13:00:00Z", "squall-sweep-workflow-2026-11-22T13:00:00Z", "", "notification/"} {
		if got := traceID(workflow, "r1"); !got.IsValid() || got.String() == want || got == traceID(workflow, "r2") {
			t.Errorf("trace of %q = %s, want one for each run", workflow, got)
		}
	}
	if odd := traceID("disruption/shop/half/odd", "r1"); !odd.IsValid() || odd != traceID("disruption/shop/half/odd", "r2") {
		t.Errorf("trace of a UID that is none = %s, want the same for all runs", odd)
	}
	if first, again := runSpan("r1"), runSpan("r1"); first == runSpan("r2") || first != again {
		t.Error("the span of a run does not follow from its ID")
	}
}

// UIDs are not random in all of their bits.
func TestShareOfTraces(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	sampled := map[float64]int{}
	for range 2000 {
		var id trace.TraceID
		_, _ = random.Read(id[:])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // as of a UID
		for _, ratio := range []float64{0, 0.1, 0.5, 1} {
			asked := sdk.SamplingParameters{ParentContext: context.Background(), TraceID: id}
			if newShare(ratio).ShouldSample(asked).Decision == sdk.RecordAndSample {
				sampled[ratio]++
			}
		}
	}
	if sampled[0] != 0 || sampled[1] != 2000 || sampled[0.1] < 150 || sampled[0.1] > 250 || sampled[0.5] < 900 || sampled[0.5] > 1100 {
		t.Errorf("of 2000 traces are sampled, by share: %v", sampled)
	}
}

func TestTextsAreLeftOut(t *testing.T) {
	type result struct {
		Left    int      `json:"left,omitempty"`
		Pods    []string `json:"pods"`
		Answer  string   `json:"answer"`
		Stopped bool     `json:"stopped"`
		hidden  int
	}
	got := counts(&result{2, []string{"secret"}, "secret", true, 1})
	if diff := cmp.Diff([]attribute.KeyValue{attribute.Int64("squall.result.left", 2), attribute.Int("squall.result.pods", 1)}, got, cmp.Comparer(func(a, b attribute.KeyValue) bool { return a == b })); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for _, none := range []any{nil, (*result)(nil), "secret", []string{"secret"}} {
		if got := counts(none); len(got) > 0 {
			t.Errorf("counts(%#v) = %v, want none", none, got)
		}
	}
}

type away struct{}

func (away) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return errors.New("away") }
func (away) Shutdown(context.Context) error                        { return nil }

func TestAnUnreachableCollectorIsLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	p := &patient{SpanExporter: away{}, logger: zap.New(core)}
	for range 3 {
		if err := p.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, 2)); err != nil {
			t.Errorf("ExportSpans = %v, want it said and no more", err)
		}
	}
	if logs.Len() != 1 || p.lost != 4 {
		t.Errorf("said %d times, and %d spans were lost since, want once and 4", logs.Len(), p.lost)
	}
}

// rule O2: more spans than there is room for, and a collector that never answers.
func TestNothingWaitsForTheCollector(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	tracing, err := New("test", settings.Traces{Endpoint: "http://" + silent.Addr().String(), PlainText: true, Sampling: 1}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20000 {
			_, span := tracing.tracer.Start(t.Context(), "span")
			span.End()
		}
		tracing.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("whoever makes spans still waits after a minute")
	}
}

func TestOffIsNothing(t *testing.T) {
	off, err := New("squall-worker", settings.Traces{Sampling: 1}, zap.NewNop())
	if off != nil || err != nil {
		t.Fatalf("New without an endpoint = %v, %v, want nothing", off, err)
	}
	off.Extend(nil)
	off.Close()
}
