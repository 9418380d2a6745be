package survival

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/test/world"
)

// collector is an OTLP receiver that keeps what it is sent.
type collector struct {
	mu    sync.Mutex
	spans map[string][]*tracepb.Span // by service
	wrong []string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var sent collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &sent); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Authorization") != "Bearer hush" {
		c.wrong = append(c.wrong, r.URL.Path)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, from := range sent.ResourceSpans {
		service := ""
		for _, a := range from.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range from.ScopeSpans {
			c.spans[service] = append(c.spans[service], scope.Spans...)
		}
	}
	answer, _ := proto.Marshal(&collectorpb.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// of are the spans of d's trace, by service, whose names begin so.
func (c *collector) of(d *v1beta1.Disruption, service, name string) (found []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans[service] {
		if hex.EncodeToString(span.TraceId) == strings.ReplaceAll(string(d.UID), "-", "") && strings.HasPrefix(span.Name, name) {
			found = append(found, span)
		}
	}
	return found
}

// attributes are those of a span that begin with squall., except numbers whose
// value a test cannot know.
func attributes(span *tracepb.Span) map[string]string {
	values := map[string]string{}
	for _, a := range span.Attributes {
		switch {
		case !strings.HasPrefix(a.Key, "squall.") || strings.HasPrefix(a.Key, "squall.result.") && a.Key != "squall.result.targets":
		case a.Value.GetArrayValue() != nil:
			for _, v := range a.Value.GetArrayValue().Values {
				values[a.Key] += v.GetStringValue()
			}
		case a.Value.GetStringValue() != "":
			values[a.Key] = a.Value.GetStringValue()
		default:
			values[a.Key] = string(rune('0' + a.Value.GetIntValue()))
		}
	}
	return values
}

// TestTraces (rule O1): bridge, workflow and activities make one trace, although
// both programs are killed in the middle, and its run is reported once.
func TestTraces(t *testing.T) {
	c := &collector{spans: map[string][]*tracepb.Span{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	settings := []string{"SQUALL_TRACES_ENDPOINT=" + server.URL, "SQUALL_TRACES_PLAIN_TEXT=true", "SQUALL_TRACES_HEADERS=authorization=Bearer hush"}
	w := world.Start(t)
	s := survival{World: w, worker: w.Worker(settings...).Start(), bridge: w.Bridge(settings...).Start()}
	s.Targets(2)
	d := s.Create(s.Disruption("traced", 2))
	s.Injected(d)
	world.Eventually(t, s.Patience, "its beginning is told", func() bool {
		return len(c.of(d, "squall-crdbridge", "StartWorkflow:")) > 0 && len(c.of(d, "squall-worker", "RunActivity:CreateChaosPods")) > 0
	})
	s.worker.Kill()
	s.bridge.Kill()
	s.worker.Start()
	s.bridge.Start()
	s.Must(s.Disruptions.Delete(t.Context(), d.DeepCopy()))
	s.Vanishes(d)
	world.Eventually(t, s.Patience, "its end is told", func() bool { return len(c.of(d, "squall-worker", "RunWorkflow:")) > 0 })

	failed := func(span *tracepb.Span) bool { return span.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR }
	same := func(a, b *tracepb.Span) bool { return slices.Equal(a.SpanId, b.SpanId) } // its end was refused for a signal, and came again
	starts := slices.DeleteFunc(c.of(d, "squall-crdbridge", ""), failed)
	runs := slices.CompactFunc(c.of(d, "squall-worker", "RunWorkflow:"), same)
	if len(starts) != 1 || len(runs) != 1 {
		t.Fatalf("%d starts and %d runs are told, want one of each:\n%v\n%v", len(starts), len(runs), starts, runs)
	}
	start, run := starts[0], runs[0]
	if len(start.ParentSpanId) > 0 || !slices.Equal(run.ParentSpanId, start.SpanId) {
		t.Errorf("parents of start and run are %x and %x, want none and %x", start.ParentSpanId, run.ParentSpanId, start.SpanId)
	}
	want := map[string]string{
		"squall.disruption.name": "traced", "squall.disruption.namespace": s.Shop, "squall.disruption.uid": string(d.UID),
		"squall.disruption.kinds": strings.Join(d.Spec.Kinds().Names(), ""),
	}
	if diff := cmp.Diff(want, attributes(start)); diff != "" {
		t.Errorf("attributes of the start (-want +got):\n%s", diff)
	}
	want["squall.result.targets"] = "2"
	if diff := cmp.Diff(want, attributes(run)); diff != "" {
		t.Errorf("attributes of the run (-want +got):\n%s", diff)
	}
	attempts := c.of(d, "squall-worker", "RunActivity:")
	for _, name := range []string{"Prepare", "SelectTargets", "CreateChaosPods", "CleanChaosPods", "Finish"} {
		if !slices.ContainsFunc(attempts, func(span *tracepb.Span) bool { return span.Name == "RunActivity:"+name }) {
			t.Errorf("nothing is told of %s", name)
		}
	}
	for _, span := range attempts {
		if values := attributes(span); !slices.Equal(span.ParentSpanId, run.SpanId) || values["squall.disruption.uid"] != string(d.UID) || values["squall.attempt"] == "" {
			t.Errorf("%s has the parent %x, want %x; it says %v", span.Name, span.ParentSpanId, run.SpanId, values)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		t.Errorf("requests that a collector refuses: %v", c.wrong)
	}
	if strings.Contains(s.worker.Output()+s.bridge.Output(), "hush") {
		t.Error("a log has the secret")
	}
}

// rule O2: the worker's collector is away, and the bridge's takes what it is sent
// and never answers.
func TestTracesWithoutAReceiver(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	to := func(address string) []string {
		return []string{"SQUALL_TRACES_ENDPOINT=http://" + address, "SQUALL_TRACES_PLAIN_TEXT=true"}
	}
	w := world.Start(t)
	s := survival{World: w, worker: w.Worker(to(temporalserver.FreeAddress(t))...).Start(), bridge: w.Bridge(to(silent.Addr().String())...).Start()}
	s.Targets(2)
	d := s.Create(s.Disruption("untold", 2))
	s.Injected(d)
	s.Must(s.Disruptions.Delete(t.Context(), d.DeepCopy()))
	s.Vanishes(d)
	s.NothingLeft(d)
	if result := s.Completed(d); result.Ending != "deleted" {
		t.Errorf("result = %+v, want deleted", result)
	}
	for _, p := range []*world.Program{s.worker, s.bridge} {
		world.Eventually(t, s.Patience, p.Name+" says so", func() bool { return strings.Contains(p.Output(), "traces are lost") })
	}
}
