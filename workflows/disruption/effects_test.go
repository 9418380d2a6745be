package disruption

import (
	"slices"
	"testing"
	"time"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rules E4, E5
func TestEffects(t *testing.T) {
	t.Run("all act when they are injected: nobody asks again", func(t *testing.T) {
		w := newWorld(t)
		w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "finish")
	})
	t.Run("some do not: it is asked until they do, and nothing else is done", func(t *testing.T) {
		w := newWorld(t)
		w.unproven, w.looks = 1, 4
		w.after(20*time.Second, func() { w.want(t, "prepare", "select", "create") })
		w.run(t)
		w.want(t, "prepare", "select", "create", "effects", "clean", "finish")
	})
	t.Run("they never do: it ends when its time is over", func(t *testing.T) {
		w := newWorld(t)
		w.unproven, w.looks = 1, 1<<30
		result := w.run(t)
		w.want(t, "prepare", "select", "create", "clean", "finish")
		if result.Ending != v1beta1.EndingExpired {
			t.Errorf("result = %+v, want it expired", result)
		}
	})
	t.Run("a chaos pod is not ready any more: it is asked", func(t *testing.T) {
		w := newWorld(t)
		w.after(time.Minute, func() { w.observe(contract.Observation{Hash: "a", Unready: 1}) })
		w.run(t)
		slices.Sort(w.calls) // it runs beside other activities
		w.want(t, "clean", "create", "effects", "finish", "prepare", "select", "select")
	})
	t.Run("it is ready again before anybody acted: it is asked all the same", func(t *testing.T) {
		var d disruption
		d.observe(contract.Observation{Hash: "a", Unready: 1})
		d.observe(contract.Observation{Hash: "b"})
		if d.Observed.Unready != 1 || d.Observed.Hash != "b" {
			t.Errorf("observed %+v, want the newest, and that one was not ready", d.Observed)
		}
	})
	t.Run("what was measured in the end is in the last status", func(t *testing.T) {
		w := newWorld(t)
		w.cleans = []clean.Result{{Effects: []chaospod.EffectAtEnd{{Pod: "chaos-a", Effect: v1beta1.Effect{State: v1beta1.EffectProven}}}}}
		w.run(t)
		if got := w.finished.Effects; len(got) != 1 || got[0].Pod != "chaos-a" || got[0].Effect.State != v1beta1.EffectProven {
			t.Errorf("Finish was told of %+v, want the effect of chaos-a", got)
		}
	})
}
