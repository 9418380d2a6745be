package v1beta1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPhasesOfALife(t *testing.T) {
	for _, c := range []struct {
		phase        Phase
		ending, over bool
	}{
		{"", false, false},
		{PhasePending, false, false},
		{PhaseSelecting, false, false},
		{PhaseInjecting, false, false},
		{PhaseHolding, false, false},
		{PhaseCleaning, true, false},
		{PhaseStuck, true, false},
		{PhaseFinished, true, true},
		{PhaseRejected, true, true},
	} {
		t.Run("phase "+string(c.phase), func(t *testing.T) {
			if got := c.phase.Ending(); got != c.ending {
				t.Errorf("Ending() = %t, want %t", got, c.ending)
			}
			if got := c.phase.Over(); got != c.over {
				t.Errorf("Over() = %t, want %t", got, c.over)
			}
			d := &Disruption{Status: DisruptionStatus{Phase: c.phase}}
			if got := d.Ending(); got != c.ending {
				t.Errorf("a disruption in it: Ending() = %t, want %t", got, c.ending)
			}
			if got := d.Settled(); got != c.over {
				t.Errorf("a disruption in it, without our finalizer: Settled() = %t, want %t", got, c.over)
			}
			d.Finalizers = []string{DisruptionFinalizer}
			if d.Settled() {
				t.Error("a disruption in it, with our finalizer: Settled() = true, want false")
			}
		})
	}
}

func TestEndOfADisruptionBeforeItsPhaseIsFinal(t *testing.T) {
	deleted, now := &Disruption{}, metav1.Now()
	deleted.DeletionTimestamp = &now
	stopped := &Disruption{}
	stopped.Status.Conditions = []metav1.Condition{{Type: ConditionStopped, Status: metav1.ConditionTrue, Message: "emergency stop all"}}
	for _, c := range []struct {
		name            string
		d               *Disruption
		finalizers      []string
		ending, settled bool
	}{
		{"new", &Disruption{}, nil, false, false},
		{"deleted, our finalizer is on", deleted, []string{DisruptionFinalizer}, true, false},
		{"deleted, another's finalizer is on", deleted, []string{"example.com/keep"}, true, true},
		{"stopped", stopped, []string{DisruptionFinalizer}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.d.DeepCopy()
			d.Finalizers = c.finalizers
			if got := d.Ending(); got != c.ending {
				t.Errorf("Ending() = %t, want %t", got, c.ending)
			}
			if got := d.Settled(); got != c.settled {
				t.Errorf("Settled() = %t, want %t", got, c.settled)
			}
		})
	}
}

func TestEndingOfRun(t *testing.T) {
	for _, c := range []struct {
		name         string
		phase        Phase
		ending, want string
	}{
		{"expired", PhaseFinished, EndingExpired, EndingExpired},
		{"rejected", PhaseRejected, "no target", "no target"},
		{"rejected without a reason", PhaseRejected, "", "rejected"},
		{"no workflow reported a phase", "", "", EndingNeverBegan},
		{"its workflow was lost", PhaseHolding, "", EndingDeleted},
	} {
		d := &Disruption{Status: DisruptionStatus{Phase: c.phase, Ending: c.ending}}
		if got := d.EndingOfRun(); got != c.want {
			t.Errorf("%s: EndingOfRun() = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestKindsAsStatusWritesThem(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		want   string
	}{
		{"none", Faults{}, ""},
		{"one", Faults{DiskPressure: &DiskPressure{}}, "disk-pressure"},
		{"several, in the fixed order", Faults{Network: &NetworkDisruption{}, CPUPressure: &CPUPressure{}}, "cpu-pressure,network-disruption"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds := c.faults.Kinds()
			if got := kinds.String(); got != c.want {
				t.Errorf("Kinds() = %s, want %s", got, c.want)
			}
			if diff := cmp.Diff(kinds, ParseKinds(c.want)); diff != "" {
				t.Errorf("ParseKinds(%q) differs (-want +got):\n%s", c.want, diff)
			}
		})
	}
}
