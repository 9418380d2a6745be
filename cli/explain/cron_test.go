package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestCron(t *testing.T) {
	half := intstr.FromString("50%")
	c := &v1beta1.DisruptionCron{Spec: v1beta1.DisruptionCronSpec{
		Schedule: "0 12 * * mon-fri", TimeZone: "Europe/Berlin", Jitter: &v1beta1.Duration{Duration: time.Minute},
		TargetResource:     v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "web"},
		DisruptionTemplate: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &half},
	}}
	c.Namespace = "shop"
	c.Default()
	friday := time.Date(2026, 11, 20, 11, 30, 0, 0, time.UTC)
	topics := Cron(c, friday)
	got := map[string][]string{}
	for _, topic := range topics {
		got[topic.Name] = topic.Lines
	}
	want := []string{
		`by the schedule "0 12 * * mon-fri" in the time zone Europe/Berlin`,
		"the next times are 2026-11-23 12:00 CET, 2026-11-24 12:00 CET, 2026-11-25 12:00 CET",
		"each up to 1m later, by chance",
		"one run at a time; one that cannot begin within 5m of its time is left out",
	}
	if diff := cmp.Diff(want, got["when"]); diff != "" {
		t.Errorf("when (-want +got):\n%s", diff)
	}
	if want := "50%, rounded up, of the pods of the deployment web of namespace shop"; got["whom"][0] != want {
		t.Errorf("whom = %q, want %q", got["whom"][0], want)
	}
	c.Spec.Paused = true
	if lines := Cron(c, friday)[0].Lines; lines[1] != "paused: no run begins until spec.paused is false" {
		t.Errorf("when, paused = %q", lines)
	}
}

func TestRollout(t *testing.T) {
	two := intstr.FromInt(2)
	r := &v1beta1.DisruptionRollout{Spec: v1beta1.DisruptionRolloutSpec{
		TargetResource:     v1beta1.TargetResource{Kind: v1beta1.TargetStatefulSet, Name: "db"},
		DisruptionTemplate: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &two},
		Paused:             true,
	}}
	r.Namespace = "shop"
	r.Default()
	want := []string{
		"each time the containers of the statefulset db change, once that is rolled out; not for what it is when it is seen first",
		"paused: no run begins until spec.paused is false",
		"one run at a time; one that cannot begin within 15m of the change is left out",
	}
	topics := Rollout(r)
	if diff := cmp.Diff(want, topics[0].Lines); diff != "" {
		t.Errorf("when (-want +got):\n%s", diff)
	}
	if targets := topics[1]; targets.Name == "whom" && targets.Lines[0] != "2 pods of the statefulset db of namespace shop" {
		t.Errorf("whom = %q", targets.Lines)
	}
}
