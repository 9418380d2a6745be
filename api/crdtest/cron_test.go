package crdtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

const onWeb = "targetResource: {kind: deployment, name: web}\n"

// cron has a good target and template, and what else is given.
func cron(more string) string {
	return onWeb + "disruptionTemplate: {count: 1, duration: 5m, cpuPressure: {}}\n" + more
}

// template is a good cron with another template.
func template(spec string) string {
	return "schedule: '@daily'\n" + onWeb + "disruptionTemplate: {" + spec + "}"
}

var crons = []manifest{
	{"with everything", cron(`schedule: "*/30 9-17 1,15 jan-mar mon-fri"
timeZone: America/Argentina/Buenos_Aires
jitter: 5m
paused: true
delayedStartTolerance: 30s
reporting: {slackChannel: chaos, purpose: to be sure of it}`), ""},
	{"a name for the times", cron("schedule: '@midnight'"), ""},
	{"an interval", cron("schedule: '@every 1h30m'"), ""},
	{"a zone in the schedule", cron("schedule: CRON_TZ=Asia/Tokyo 0 5 * * *"), ""},
	{"tolerance 0", cron("schedule: '@daily'\ndelayedStartTolerance: 0s"), ""},
	{"tolerance null", cron("schedule: '@daily'\ndelayedStartTolerance: null"), ""},
	{"jitter null", cron("schedule: '@daily'\njitter: null"), ""},
	{"on a stateful set", "schedule: '@daily'\ntargetResource: {kind: statefulset, name: db}\ndisruptionTemplate: {count: 1, cpuPressure: {}}", ""},
	{"a template with selectors of its own", template("count: 1, cpuPressure: {}, selector: {tier: front}"), ""},
	{"the 31st and the 30th", cron("schedule: 0 0 30,31 2,3 *"), ""},
	{"the 31st of February, or any Monday", cron("schedule: 0 0 31 2 mon"), ""},
	{"no schedule", cron("paused: true"), "spec.schedule"},
	{"an empty schedule", cron("schedule: ''"), "want five fields"},
	{"four fields", cron("schedule: 0 0 * *"), "want five fields"},
	{"six fields", cron("schedule: 0 0 * * * *"), "want five fields"},
	{"another name", cron("schedule: '@fortnightly'"), "want five fields"},
	{"the 30th of February", cron("schedule: 0 0 30 2 *"), "never fires"},
	{"the 30th and 31st of February", cron("schedule: 0 0 30,31 Feb ?"), "never fires"},
	{"the 31st of short months", cron("schedule: TZ=UTC 0 0 31 apr,6,09,NOV *"), "never fires"},
	{"a zone of this machine", cron("schedule: '@daily'\ntimeZone: Local"), "want the name of a time zone"},
	{"a zone out of the way", cron("schedule: '@daily'\ntimeZone: ../../etc/passwd"), "want the name of a time zone"},
	{"two zones", cron("schedule: TZ=UTC 0 0 * * *\ntimeZone: Europe/Berlin"), "schedule begins with a time zone"},
	{"jitter negative", cron("schedule: '@daily'\njitter: -1s"), "want a duration of 0 to 1h"},
	{"jitter of hours", cron("schedule: '@daily'\njitter: 61m"), "want a duration of 0 to 1h"},
	{"tolerance negative", cron("schedule: '@daily'\ndelayedStartTolerance: -1m"), "spec.delayedStartTolerance"},
	{"tolerance that was meant as seconds", cron("schedule: '@daily'\ndelayedStartTolerance: 90"), "write 90s"},
	{"on a daemon set", "schedule: '@daily'\ntargetResource: {kind: daemonset, name: web}\ndisruptionTemplate: {count: 1, cpuPressure: {}}", "spec.targetResource.kind"},
	{"on nothing of a name", "schedule: '@daily'\ntargetResource: {kind: deployment, name: ''}\ndisruptionTemplate: {count: 1, cpuPressure: {}}", "spec.targetResource.name"},
	{"a template without a kind", template("count: 1"), "no kind is asked for"},
	{"a template of nodes", template("count: 1, level: node, cpuPressure: {}"), "targetResource stands for pods"},
	{"a template with a moment", template("count: 1, cpuPressure: {}, triggers: {inject: {notBefore: '2027-01-01T00:00:00Z'}}"), "notBefore is one moment"},
	{"a template with a moment to create", template("count: 1, cpuPressure: {}, triggers: {createPods: {notBefore: '2027-01-01T00:00:00Z'}}"), "notBefore is one moment"},
	{"a template with an offset", template("count: 1, cpuPressure: {}, triggers: {inject: {offset: 1m}}"), ""},
	{"a template that lasts too long", template("count: 1, cpuPressure: {}, duration: 8761h"), "want at most 8760h"},
	{"a template of kinds that do not go together", template("count: 1, cpuPressure: {}, containerFailure: {}"), "stand alone"},
	{"a template that repeats nothing", template("count: 1, duration: 5m, containerFailure: {interval: 5m}"), "containerFailure.interval is not shorter than duration"},
	{"a template with a bad label", template("count: 1, cpuPressure: {}, selector: {app: my shop}"), "spec.disruptionTemplate.selector"},
	{"a template with a count of nothing", template("count: 0, cpuPressure: {}"), "spec.disruptionTemplate.count"},
	{"a name of 47 characters", named47(0) + cronSpec, ""},
	{"a name of 48 characters", named47(1) + cronSpec, "use at most 47 characters, not 48"},
}

const cronSpec = "spec: {schedule: '@daily', targetResource: {kind: deployment, name: web}, disruptionTemplate: {count: 1, cpuPressure: {}}}"

func named47(more int) string {
	return "apiVersion: chaos.squall.dev/v1beta1\nkind: DisruptionCron\nmetadata: {name: " + strings.Repeat("a", 47+more) + ", namespace: default}\n"
}

// cronHere is what Default and Validate make of a document.
func cronHere(text []byte) (*v1beta1.DisruptionCron, error) {
	c := &v1beta1.DisruptionCron{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, err
	}
	c.Default()
	return c, c.Validate().ToAggregate()
}

// The form of a schedule is checked by the schema alone: Validate leaves it to the
// package schedule, which has the same rules and messages.
func (m manifest) onlyInTheSchema() bool {
	return strings.Contains(m.refused, "five fields") || strings.Contains(m.refused, "never fires")
}

func TestCronsAPIServerAgreesWithValidate(t *testing.T) {
	client := cronClient(t)
	for _, m := range crons {
		t.Run(m.name, func(t *testing.T) {
			text := []byte(strings.Replace(string(m.object()), "kind: Disruption\n", "kind: DisruptionCron\n", 1))
			local, err := cronHere(text)
			if !m.onlyInTheSchema() {
				m.check(t, "Validate", err)
			}
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &object.Object); err != nil {
				t.Fatal(err)
			}
			answer, err := client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			m.check(t, "the API server", err)
			if m.refused != "" || t.Failed() {
				return
			}
			stored := &v1beta1.DisruptionCron{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, stored); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(local.Spec, stored.Spec); diff != "" {
				t.Errorf("the API server's defaults are not Default's (-Default +server):\n%s", diff)
			}
		})
	}
}

func TestWhatKubectlGetShowsOfACron(t *testing.T) {
	client := cronClient(t)
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(named47(-40)+cronSpec), &object.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	name := object.GetName()
	status := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionCron, metadata: {name: `+name+`}, status: {
		lastScheduleTime: "2026-11-22T12:00:00Z", nextScheduleTime: "2026-11-23T12:00:00Z",
		history: [{name: a, kind: Disruption, createdAt: "2026-11-21T12:00:01Z", verdict: Failed, ending: expired},
			{name: a, kind: Disruption, createdAt: "2026-11-22T12:00:01Z", verdict: Passed, ending: deleted}],
		conditions: [{type: Scheduled, status: "True", reason: Scheduled, message: "", lastTransitionTime: "2026-11-20T12:00:00Z"},
			{type: LastRun, status: "True", reason: Created, message: it runs, lastTransitionTime: "2026-11-20T12:00:00Z"}]}}`), &status.Object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ApplyStatus(t.Context(), name, status, metav1.ApplyOptions{FieldManager: "worker"}); err != nil {
		t.Fatal(err)
	}
	narrow, wide, shown := columns(t, "disruptioncrons", "default", name)
	if diff := cmp.Diff([]string{"NAME", "SCHEDULE", "TARGET", "PAUSED", "SCHEDULED", "LAST", "NEXT", "VERDICT", "AGE"}, narrow); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ENDING", "LASTRUN"}, wide); diff != "" {
		t.Errorf("further columns of -o wide (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"NAME": name, "SCHEDULE": "@daily", "TARGET": "web", "SCHEDULED": "Scheduled", "LAST": "2026-11-22T12:00:00Z", "NEXT": "2026-11-23T12:00:00Z",
		"VERDICT": "Passed", "ENDING": "deleted", "LASTRUN": "it runs", "PAUSED": nil,
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func cronClient(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1beta1.GroupVersion.WithResource("disruptioncrons")).Namespace("default")
}
