package v1beta1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEndingOfAnEmergencyStop(t *testing.T) {
	for _, c := range []struct{ reason, want string }{
		{"", "emergency stop fire"},
		{" \n", "emergency stop fire"},
		{"payment\n is down ", "emergency stop fire: payment is down"},
	} {
		s := &EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "fire"}, Spec: EmergencyStopSpec{Reason: c.reason}}
		got := s.Ending()
		if got != c.want {
			t.Errorf("Ending() with reason %q = %q, want %q", c.reason, got, c.want)
		}
		s.Spec.Reason = "edited since"
		if !s.Ended(got) {
			t.Errorf("Ended(%q) = false, want true: it is this stop's", got)
		}
	}
	fire := &EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "fire"}}
	for _, other := range []string{"", "expired", "emergency stop fire-2: why", "emergency stop fire.2", "emergency stop", "deleted"} {
		if fire.Ended(other) {
			t.Errorf("Ended(%q) = true, want false: it is not this stop's", other)
		}
	}
}

func TestFirstStop(t *testing.T) {
	stop := func(name string, second int) EmergencyStop {
		at := time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC)
		return EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at)}}
	}
	for _, c := range []struct {
		name  string
		stops []EmergencyStop
		want  string
	}{
		{"none", nil, ""},
		{"the oldest", []EmergencyStop{stop("a", 2), stop("b", 1), stop("c", 3)}, "b"},
		{"of equally old ones the first by name", []EmergencyStop{stop("b", 1), stop("a", 1)}, "a"},
	} {
		got := ""
		if first := FirstStop(c.stops); first != nil {
			got = first.Name
		}
		if got != c.want {
			t.Errorf("%s: FirstStop() = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestStopped(t *testing.T) {
	d := &Disruption{}
	if why := d.Stopped(); why != "" {
		t.Errorf("Stopped() = %q without the condition", why)
	}
	d.Status.Conditions = []metav1.Condition{
		{Type: ConditionInjected, Status: metav1.ConditionTrue, Message: "all"},
		{Type: ConditionStopped, Status: metav1.ConditionTrue, Message: "emergency stop fire"},
	}
	if why := d.Stopped(); why != "emergency stop fire" {
		t.Errorf("Stopped() = %q, want what the condition says", why)
	}
}
