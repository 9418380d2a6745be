package traces

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// disruptionOf is the disruption that a workflow is for: its own, or that of a
// notification.
func disruptionOf(workflow string) (ref v1beta1.DisruptionRef, found bool) {
	if rest, ok := strings.CutPrefix(workflow, "notification/"); ok {
		own, _ := cutLast(rest)
		workflow = "disruption/" + own
	}
	return contract.ParseWorkflowID(workflow)
}

func cutLast(path string) (before, after string) {
	i := strings.LastIndex(path, "/")
	return path[:max(i, 0)], path[i+1:]
}

// traceID is the UID of the disruption that the workflow is for. A run of any
// other workflow has a trace of its own.
func traceID(workflow, run string) (id trace.TraceID) {
	if ref, found := disruptionOf(workflow); found {
		raw, err := hex.DecodeString(strings.ReplaceAll(string(ref.UID), "-", ""))
		if err == nil && len(raw) == len(id) && trace.TraceID(raw).IsValid() {
			return trace.TraceID(raw)
		}
		run = ""
	}
	sum := sha256.Sum256([]byte("trace " + workflow + " " + run))
	return trace.TraceID(sum[:len(id)])
}

// runSpan is the span of a run of a workflow: every program computes the same ID.
func runSpan(run string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte("run " + run))
	return trace.SpanID(sum[:len(id)])
}

// below is a context whose next span is a child of this one.
func below(id trace.TraceID, parent trace.SpanID) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: parent, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// fixed are the IDs that the next span of a context has.
type fixed struct {
	trace trace.TraceID
	span  trace.SpanID
}

type fixedKey struct{}

func withIDs(ctx context.Context, ids fixed) context.Context {
	return context.WithValue(ctx, fixedKey{}, ids)
}

// generator takes the IDs of the context, and makes up the missing ones.
type generator struct{}

func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(fixedKey{}).(fixed)
	for !ids.trace.IsValid() {
		_, _ = rand.Read(ids.trace[:])
	}
	return ids.trace, generator{}.NewSpanID(ctx, ids.trace)
}

func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	ids, _ := ctx.Value(fixedKey{}).(fixed)
	for !ids.span.IsValid() {
		_, _ = rand.Read(ids.span[:])
	}
	return ids.span
}

// share samples whole traces: all programs decide alike, from the ID. OpenTelemetry's own
// sampler takes the ID as a random number, which a UID is not: some of its bits are
// fixed.
type share struct {
	ratio float64
	below uint64
}

func newShare(ratio float64) share {
	if ratio >= 1 {
		return share{ratio, math.MaxUint64}
	}
	return share{ratio, uint64(ratio * math.MaxInt64)}
}

func (s share) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	sum := sha256.Sum256(p.TraceID[:])
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if binary.BigEndian.Uint64(sum[:8])>>1 < s.below {
		result.Decision = sdk.RecordAndSample
	}
	return result
}

func (s share) Description() string { return fmt.Sprintf("share of %g", s.ratio) }
