package matrix

import (
	"net/http/httptest"
	"slices"
	"testing"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Calls that are the same in two runs must have one name, and other calls other names.
func TestNamesOfWrites(t *testing.T) {
	n := newNames()
	n.know("0b0c-target", "web-0")
	n.know("77aa-disruption", "UID")
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/api/v1/namespaces/chaos/pods",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"chaos-it-1234","labels":{"chaos.squall.dev/disruption-uid":"77aa-disruption","chaos.squall.dev/target-uid":"0b0c-target","chaos.squall.dev/disruption-kind":"cpu-pressure"}}}`,
			"create pods web-0/cpu-pressure"},
		{"DELETE", "/api/v1/namespaces/chaos/pods/chaos-it-1234", `{}`, "delete pods web-0/cpu-pressure"},
		{"PATCH", "/api/v1/namespaces/chaos/pods/chaos-it-1234", `[{"op":"test"}]`, "patch pods web-0/cpu-pressure"},
		{"PATCH", "/api/v1/namespaces/shop/pods/web-0",
			`{"metadata":{"uid":"0b0c-target","labels":{"operating.podopslifecycle.kusionstack.io/chaos-1":"17","operation-type.podopslifecycle.kusionstack.io/chaos-1":"chaos"}}}`,
			"patch pods web-0 +operating +operation-type"},
		{"PATCH", "/api/v1/namespaces/shop/pods/web-0",
			`{"metadata":{"labels":{"podopslifecycle.kusionstack.io/service-available":null,"protected-until.chaos.squall.dev/chaos-1":null},"$deleteFromPrimitiveList/finalizers":["f"]}}`,
			"patch pods web-0 -finalizer -protected-until -service-available"},
		{"PATCH", "/api/v1/namespaces/shop/pods/web-0/status", `{"status":{"conditions":[{"type":"ready","status":"False"}]}}`, "patch pods/status web-0 ready=False"},
		{"POST", "/api/v1/namespaces/chaos/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"squall-77aa-disruption-0"}}`, "create configmaps squall-UID-0"},
		{"DELETE", "/api/v1/namespaces/chaos/configmaps?labelSelector=x", ``, "deletecollection configmaps"},
		{"POST", "/api/v1/namespaces/shop/events", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"web-0.99"},"reason":"Disrupted","involvedObject":{"kind":"Pod","name":"web-0"}}`,
			"create events Disrupted on pod web-0"},
		{"PUT", "/apis/chaos.squall.dev/v1beta1/namespaces/shop/disruptions/it/status",
			`{"apiVersion":"chaos.squall.dev/v1beta1","kind":"Disruption","metadata":{"name":"it","finalizers":["f"]},"status":{"phase":"Holding","injectionStatus":"Injected"}}`,
			"update disruptions/status Holding Injected"},
		{"PUT", "/apis/chaos.squall.dev/v1beta1/namespaces/shop/disruptioncrons/noon/status",
			`{"apiVersion":"chaos.squall.dev/v1beta1","kind":"DisruptionCron","metadata":{"name":"noon","finalizers":["f"]},"status":{"conditions":[{"type":"LastRun","reason":"Began"}]}}`,
			"update disruptioncrons/status LastRun=Began"},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if got := n.write(callOf(r), []byte(c.body)); got != c.want {
			t.Errorf("%s %s is named %q, want %q", c.method, c.path, got, c.want)
		}
	}
}

// The name of an event on a pod that a driver moves has the phase of its operation. Other
// names do not.
func TestNamesOfEvents(t *testing.T) {
	for _, c := range []struct{ labels, want string }{
		{`{"app":"web"}`, "MODIFIED pods web-0 Running"},
		{`{"kusionstack.io/control":"true","podopslifecycle.kusionstack.io/service-available":"17","preparing.podopslifecycle.kusionstack.io/chaos-1":"17"}`,
			"MODIFIED pods web-0 Running preparing service-available not ready"},
	} {
		pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","labels":` + c.labels + `},"status":{"phase":"Running"}}`
		if got := newNames().event("pods", "MODIFIED", []byte(pod)); got != c.want {
			t.Errorf("an event on a pod with labels %s is named %q, want %q", c.labels, got, c.want)
		}
	}
}

func TestNamesOfReads(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/chaos/pods":                              "list",
		"/api/v1/namespaces/chaos/pods/one":                          "get",
		"/api/v1/pods?watch=true":                                    "watch",
		"/apis/chaos.squall.dev/v1beta1/namespaces/shop/disruptions": "list",
	} {
		c := callOf(httptest.NewRequest("GET", path, nil))
		if c.verb != want || c.writes() {
			t.Errorf("GET %s is %+v, want a %s", path, c, want)
		}
	}
}

func TestNamesOfDecisions(t *testing.T) {
	show := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES}
	timer := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_START_TIMER}
	activity := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK, Attributes: &commandpb.Command_ScheduleActivityTaskCommandAttributes{
		ScheduleActivityTaskCommandAttributes: &commandpb.ScheduleActivityTaskCommandAttributes{ActivityType: &commonpb.ActivityType{Name: "Prepare"}}}}
	for want, commands := range map[string][]*commandpb.Command{
		"nothing":          nil,
		"show":             {show},
		"start timer":      {show, timer},
		"schedule Prepare": {timer, activity, show},
		"complete":         {activity, {CommandType: enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION}},
	} {
		if got := decision(commands); got != want {
			t.Errorf("decision = %q, want %q", got, want)
		}
	}
}

// Repeated calls are one point, and both bridges have one name.
func TestPointsThatRepeat(t *testing.T) {
	r := newRecorder(nil)
	for _, name := range []string{"fails AwaitRun", "update leases squall-crdbridge", "patch pods web-0"} {
		for range 2 {
			r.call(role(secondBridge), name)
		}
	}
	want := []string{"bridge fails AwaitRun #1", "bridge update leases squall-crdbridge #1", "bridge patch pods web-0 #1", "bridge patch pods web-0 #2"}
	if !slices.Equal(r.calls, want) {
		t.Errorf("points are %q, want %q", r.calls, want)
	}
}

// Points of a disruption itself are not those of its parent, whatever its name.
func TestPointsOfAParent(t *testing.T) {
	d := &v1beta1.Disruption{}
	d.Name = "disruption-cron-noon"
	r := &run{parent: &v1beta1.DisruptionCron{}, all: []*v1beta1.Disruption{d}}
	for point, want := range map[string]bool{
		"worker completes AwaitRun #1":                                         true,
		"bridge patch disruptioncrons noon #1":                                 true,
		"worker create disruptions without finalizer #1":                       true,
		"worker create events Created on disruption disruption-cron-noon #1":   false,
		"worker sees ADDED configmaps squall-UID of disruption-cron-noon-0 #1": false,
		"worker completes AwaitInjection #1":                                   false,
	} {
		if got := r.counts(fault{before, worker, point}); got != want {
			t.Errorf("%q counts: %t, want %t", point, got, want)
		}
	}
	if pair := (&run{work: work{twoBridges: true}}); pair.counts(fault{before, worker, "x"}) || !pair.counts(fault{before, bridge, "x"}) {
		t.Error("of two bridges the points of the bridge count, and no others")
	}
}

func TestAFaultIsItsOwnFlag(t *testing.T) {
	want := fault{stale, bridge, "worker create pods web-0/cpu-pressure #1"}
	if got, err := parseFault(want.String()); got != want || err != nil {
		t.Errorf("parseFault(%q) = %v, %v", want, got, err)
	}
	for _, text := range []string{"", "before worker", "during worker at worker delete pods x #1"} {
		if got, err := parseFault(text); err == nil {
			t.Errorf("parseFault(%q) = %v, want an error", text, got)
		}
	}
}
