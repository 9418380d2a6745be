package scale

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

const fire = "emergency stop fire: payment is down"

// TestEmergencyStop stops three disruptions at once, with Temporal and with
// Temporal dead: the injectors end as fast, nothing begins, nothing comes back.
func TestEmergencyStop(t *testing.T) {
	s := begin(t, 300)
	t.Run("with Temporal", func(t *testing.T) { s.in(t).stopAll(false) })
	t.Run("with Temporal dead until after the stop", func(t *testing.T) { s.in(t).stopAll(true) })
}

// stopAll runs disruptions into a stop. dead is whether Temporal is killed
// before it, to come back when the stop is gone.
func (w scale) stopAll(dead bool) {
	w.Helper()
	var all []*v1beta1.Disruption
	for i, n := range []int{100, 100, 50} {
		d := w.Create(w.Disruption(fmt.Sprintf("running-%d-%d", i, time.Now().Unix()), n))
		all = append(all, d)
		w.Injected(d)
	}
	if dead {
		w.Temporal.Kill()
	}
	before := w.Meter.Settled(w.TB)

	began := time.Now()
	stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "fire"}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"}}
	w.Must(w.Disruptions.Create(w.Context(), stop))
	world.Eventually(w, time.Minute, "no injector runs", func() bool { return w.Kubelets.Ready(w.Chaos) == 0 })
	w.Logf("250 injectors of 3 disruptions ended %.2fs after the stop", time.Since(began).Seconds())
	sneaked := w.Create(w.Disruption(fmt.Sprintf("sneaked-in-%d", time.Now().Unix()), 5)) // no admission here
	all = append(all, sneaked)
	if dead {
		w.marked(sneaked)
		w.Must(w.Disruptions.Delete(w.Context(), stop))
		w.Temporal.Start()
	}
	for _, d := range all {
		w.over(d)
	}
	w.Logf("all was over and let go %.2fs after the stop", time.Since(began).Seconds())
	if made := w.Meter.Settled(w.TB).Since(before)["POST pods"]; made > 0 {
		w.Errorf("%d chaos pods were created after the stop", made)
	}
	if n := w.Kubelets.There(w.Chaos); n > 0 {
		w.Errorf("%d chaos pods are left", n)
	}
	if all[0].Status.Phase != v1beta1.PhaseFinished || sneaked.Status.Phase != v1beta1.PhaseRejected {
		w.Errorf("phases %s and %s, want what ran Finished and what sneaked in Rejected", all[0].Status.Phase, sneaked.Status.Phase)
	}
	for _, d := range all {
		w.Completed(d)
		w.OneRun(d)
		w.History(d)
	}
	w.callOff(stop)
	w.Delete(w.after())
}

// marked waits until the bridge, and no other program, has seen d.
func (w scale) marked(d *v1beta1.Disruption) {
	w.Helper()
	world.Eventually(w, time.Minute, d.Name+" is marked", func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Stopped() != ""
	})
}

// over waits until d has ended because of the stop and was let go.
func (w scale) over(d *v1beta1.Disruption) {
	w.Helper()
	world.Eventually(w, 2*time.Minute, d.Name+" is over", func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return len(d.Finalizers) == 0
	})
	if d.Status.Ending != fire || d.Stopped() != fire {
		w.Errorf("%s ended because of %q and is stopped by %q, want both %q", d.Name, d.Status.Ending, d.Stopped(), fire)
	}
}

// callOff deletes the stop, whose status reports by then that all is clean.
func (w scale) callOff(stop *v1beta1.EmergencyStop) {
	w.Helper()
	if err := w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(stop), stop); err != nil {
		return // it was deleted before
	}
	// The status may have reported it before, of the three that ran.
	world.Eventually(w, time.Minute, "the stop says that all is clean: 4 stopped, 0 cleaning, 0 injectors", func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(stop), stop))
		s := stop.Status
		return meta.IsStatusConditionTrue(s.Conditions, v1beta1.ConditionClean) && s.Stopped == 4 && s.Cleaning == 0 && s.Injectors == 0
	})
	w.Must(w.Disruptions.Delete(w.Context(), stop))
}

// after is a disruption like any other, begun after the stop.
func (w scale) after() *v1beta1.Disruption {
	w.Helper()
	d := w.Create(w.Disruption(fmt.Sprintf("after-%d", time.Now().Unix()), 5))
	w.Injected(d)
	if d.Stopped() != "" {
		w.Errorf("begun after the stop was deleted, it is stopped by %q", d.Stopped())
	}
	return d
}
