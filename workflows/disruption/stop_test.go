package disruption

import (
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const fire = "emergency stop fire: payment is down"

func TestEmergencyStop(t *testing.T) {
	t.Run("told by the bridge: cleaned at once, and it says why", func(t *testing.T) {
		w := newWorld(t)
		w.after(10*time.Minute, func() { w.env.SignalWorkflow(contract.SignalEnd, contract.End{Reason: fire}) })
		started := w.env.Now()
		result := w.run(t)
		if took := w.env.Now().Sub(started); result.Ending != fire || took > 11*time.Minute {
			t.Errorf("ended %q after %s, want %q after 10 minutes", result.Ending, took, fire)
		}
		w.want(t, "prepare", "select", "create", "clean", "finish")
		if last := w.reports[len(w.reports)-1]; last.Phase != v1beta1.PhaseCleaning || last.Ending != fire {
			t.Errorf("report = %+v, want Cleaning because of %q", last, fire)
		}
	})
	t.Run("seen right before the first chaos pod: nothing is injected", func(t *testing.T) {
		w := newWorld(t)
		w.created = inject.CreateResult{Stopped: fire}
		started := w.env.Now()
		result := w.run(t)
		if took := w.env.Now().Sub(started); result.Ending != fire || took > time.Minute {
			t.Errorf("ended %q after %s, want %q at once", result.Ending, took, fire)
		}
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("seen when it begins: refused", func(t *testing.T) {
		w := newWorld(t)
		w.plan.Rejected = fire
		if result := w.run(t); result.Ending != "rejected" || !strings.Contains(result.Summary, fire) {
			t.Errorf("result = %+v, want rejected because of %q", result, fire)
		}
		w.want(t, "prepare", "clean", "finish")
	})
	t.Run("before its time has come: no chaos pod, ever", func(t *testing.T) {
		w := newWorld(t)
		w.plan.CreateAt = w.plan.CreateAt.Add(30 * time.Minute)
		w.after(time.Minute, func() { w.env.SignalWorkflow(contract.SignalEnd, contract.End{Reason: fire}) })
		if result := w.run(t); result.Ending != fire {
			t.Errorf("ending = %q, want %q", result.Ending, fire)
		}
		w.want(t, "prepare", "finish")
	})
	t.Run("chaos pods end before the workflow is told why: no target takes the place of another", func(t *testing.T) {
		w := newWorld(t)
		w.selections = []targets.Selection{{Selected: 2, Added: []int{0}}, {Selected: 2, Added: []int{1}}}
		w.after(time.Minute, func() {
			w.created = inject.CreateResult{Stopped: fire}
			w.observe(contract.Observation{Hash: "1", Ended: 2})
		})
		if result := w.run(t); result.Ending != fire {
			t.Errorf("ending = %q, want %q", result.Ending, fire)
		}
		w.want(t, "prepare", "select", "create", "clean ended", "select", "create", "clean", "clean", "finish")
	})
	t.Run("the first reason counts", func(t *testing.T) {
		w := newWorld(t)
		w.after(time.Minute, func() { w.end(); w.env.SignalWorkflow(contract.SignalEnd, contract.End{Reason: fire}) })
		if result := w.run(t); result.Ending != "deleted" {
			t.Errorf("ending = %q, want deleted", result.Ending)
		}
	})
}

// The signal end ends the disruption with any argument.
func TestEndTakesAnyArgument(t *testing.T) {
	for _, c := range []struct {
		name string
		arg  any
		want string
	}{
		{"nothing", nil, "deleted"},
		{"no reason", contract.End{}, "deleted"},
		{"a reason", contract.End{Reason: "enough"}, "enough"},
		{"a word", "enough", "deleted"},
		{"bytes", []byte("enough"), "deleted"},
		{"a reason that is none", map[string]int{"reason": 1}, "deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.after(time.Minute, func() { w.env.SignalWorkflow(contract.SignalEnd, c.arg) })
			if result := w.run(t); result.Ending != c.want {
				t.Errorf("ending = %q, want %q", result.Ending, c.want)
			}
			w.want(t, "prepare", "select", "create", "clean", "finish")
		})
	}
}
