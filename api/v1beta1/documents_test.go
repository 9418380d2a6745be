package v1beta1

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/test/golden"
)

// documents are what one program writes and another, which may be of an older
// release, reads: the environment variable of a chaos pod, which its journal
// keeps as well, and the termination messages of the injector's commands.
func documents() map[string]any {
	disruption := DisruptionRef{Namespace: "shop", Name: "lossy", UID: "disruption-uid", Cluster: "cluster-uid"}
	notBefore := metav1.NewTime(time.Date(2026, 11, 22, 10, 1, 0, 0, time.UTC))
	percentage := PercentNumber(50)
	beat := func(d time.Duration) *Duration { return &Duration{Duration: d} }
	host := NetworkHost{
		Host: "db.example.com", Port: 5432, Protocol: "tcp", Flow: "egress", ConnState: "new", DNSResolver: "pod", Percentage: &percentage,
	}
	return map[string]any{
		"injection": &Injection{
			Disruption: disruption, Kind: KindNetwork, Params: json.RawMessage(`{"drop":40}`), Level: LevelPod,
			Target: InjectionTarget{
				Namespace: "shop", Name: "web-0", UID: "target-uid", NodeName: "node-1",
				NodeIPs: []string{"10.0.0.1", "2001:db8::1"}, PodIPs: []string{"10.1.0.1"},
				Containers: []InjectionContainer{{Name: "web", ID: "0123abcd"}}, SomeContainers: true,
			},
			NotBefore: &notBefore, Deadline: metav1.NewTime(notBefore.Add(time.Hour)), Remaining: metav1.Duration{Duration: 62 * time.Second}, DryRun: true, MaxRuns: 3, SysrqTrigger: "/a/file", AllowedHosts: []NetworkHost{host},
			ResolvedHosts: "/another/file",
			OnInit:        []Kind{KindDNS, KindNetwork},
			Pulse:         &DisruptionPulse{InitialDelay: beat(10 * time.Second), ActiveDuration: beat(time.Minute), DormantDuration: beat(500 * time.Millisecond)},
		},
		"injection-report": &InjectionReport{
			Injected: true, Cleaned: true, Audited: true, Error: "remove the filter: busy", Left: []string{"filter squall on eth0"},
			Effect: &Effect{State: EffectProven, Evidence: "12 of 40 matching packets dropped", Since: notBefore},
		},
		"clean-report": &CleanReport{
			Cleaned: []string{"injection-1"}, Audited: true, More: 2, Error: "journal injection-3: unexpected end",
			Left: []LeftInjection{{Injection: "injection-2", Error: "remove the filter: busy", Objects: []string{"filter squall on eth0"}}},
		},
		"audit": &Audit{
			Marks:       []Mark{{Object: "filter squall on eth0", Kind: KindNetwork, Disruption: disruption, Target: "target-uid"}},
			Disruptions: []types.UID{disruption.UID}, More: 3, Error: "process 7: permission denied",
		},
	}
}

// A program and a chaos pod of two releases understand one another only as long
// as no field has another name or another type.
func TestDocumentsBetweenProgramsStayAsTheyAre(t *testing.T) {
	for name, document := range documents() {
		t.Run(name, func(t *testing.T) {
			everyFieldIsSet(t, name, reflect.ValueOf(document))
			got, err := json.MarshalIndent(document, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			// A field may be added, none renamed.
			path := "testdata/documents/" + name + ".json"
			want := golden.Compare(t, path, string(got)+"\n")
			read := reflect.New(reflect.TypeOf(document).Elem())
			strict := json.NewDecoder(strings.NewReader(want))
			strict.DisallowUnknownFields()
			if err := strict.Decode(read.Interface()); err != nil {
				t.Fatalf("%s is not understood any more: %v", path, err)
			}
			if again, _ := json.MarshalIndent(read.Interface(), "", "  "); !bytes.Equal(again, got) {
				t.Errorf("%s loses something when it is read:\n%s", path, cmp.Diff(string(got), string(again)))
			}
		})
	}
}

// everyFieldIsSet fails for a field that an example forgets: its name would not
// be compared.
func everyFieldIsSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is not set in the example", path)
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[metav1.Time](), v.Type() == reflect.TypeFor[json.RawMessage]():
	case v.Kind() == reflect.Pointer:
		everyFieldIsSet(t, path, v.Elem())
	case v.Kind() == reflect.Slice && v.Len() > 0:
		everyFieldIsSet(t, path, v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			everyFieldIsSet(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}
