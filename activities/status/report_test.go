package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// An attempt whose worker was given up may write long after the workflow continued. The
// later decision counts, whichever is written last. A decision of the same moment is a
// retry of the same one.
func TestAReportThatComesLateChangesNothing(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 20, 12, 0, second, 1234, time.UTC) }
	stuck := func(second int) Report {
		return Report{Phase: v1beta1.PhaseStuck, Ending: "expired", Remaining: 1, At: at(second), Left: []chaospod.LeftPod{{Pod: "chaos-1", Why: "the disk is read-only"}}}
	}
	cleaning := func(second int) Report {
		return Report{Phase: v1beta1.PhaseCleaning, Ending: "expired", Round: 1, At: at(second)}
	}
	for name, c := range map[string]struct {
		before, late func(*v1beta1.Disruption)
		want         v1beta1.Phase
	}{
		"stuck, after it has finished": {
			func(d *v1beta1.Disruption) { ShowFinished(d, FinishInput{Ending: "expired", At: at(20)}) },
			func(d *v1beta1.Disruption) { ShowReport(d, stuck(10)) }, v1beta1.PhaseFinished},
		"cleaning, after it is stuck": {
			func(d *v1beta1.Disruption) { ShowReport(d, stuck(20)) },
			func(d *v1beta1.Disruption) { ShowReport(d, cleaning(10)) }, v1beta1.PhaseStuck},
		"stuck, after it is cleaned again": {
			func(d *v1beta1.Disruption) { ShowReport(d, stuck(10)); ShowReport(d, cleaning(20)) },
			func(d *v1beta1.Disruption) { ShowReport(d, stuck(10)) }, v1beta1.PhaseCleaning},
		"the same, tried again": {
			func(d *v1beta1.Disruption) { ShowReport(d, stuck(10)) },
			func(d *v1beta1.Disruption) { ShowReport(d, stuck(10)) }, v1beta1.PhaseStuck},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1beta1.Disruption{}
			c.before(d)
			want := d.DeepCopy()
			c.late(d)
			if diff := cmp.Diff(want, d); diff != "" || d.Status.Phase != c.want {
				t.Errorf("phase %s, want %s, and nothing changed (-want +got):\n%s", d.Status.Phase, c.want, diff)
			}
		})
	}
	t.Run("what is decided later is shown, also of one that had finished", func(t *testing.T) {
		d := &v1beta1.Disruption{}
		ShowFinished(d, FinishInput{Ending: "expired", At: at(10)})
		ShowReport(d, stuck(20)) // a second workflow cleans once more
		if d.Status.Phase != v1beta1.PhaseStuck || !d.Status.IsStuckOnRemoval {
			t.Errorf("phase %s, want %s", d.Status.Phase, v1beta1.PhaseStuck)
		}
	})
}

// While one target is stuck, status lists the others as what they are.
func TestTargetsThatAreCleanAreNotListedAsInjectedBesideAStuckOne(t *testing.T) {
	d, when := &v1beta1.Disruption{}, metav1.Unix(1700000000, 0)
	injected := func(pod string) map[v1beta1.Kind]v1beta1.TargetInjection {
		return map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindNetwork: {InjectorPodName: pod, InjectionStatus: v1beta1.Injected, Since: &when}}
	}
	d.Status.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{"web-1": injected("chaos-1"), "web-2": injected("chaos-2")}
	d.Status.Targets, d.Status.DesiredTargetsCount, d.Status.SelectedTargetsCount, d.Status.InjectedTargetsCount = "2/2", 2, 2, 2
	stuck := Report{Phase: v1beta1.PhaseStuck, Ending: "expired", Remaining: 1, Left: []chaospod.LeftPod{{Pod: "chaos-1", Target: "web-1", Kind: v1beta1.KindNetwork, Why: "the disk is read-only"}}}
	list := func() map[string]v1beta1.InjectionStatus {
		of := map[string]v1beta1.InjectionStatus{}
		for target, kinds := range d.Status.TargetInjections {
			of[target] = kinds[v1beta1.KindNetwork].InjectionStatus
		}
		return of
	}
	cleaning := stuck
	cleaning.Phase = v1beta1.PhaseCleaning
	ShowReport(d, cleaning) // others may be injected still
	want := map[string]v1beta1.InjectionStatus{"web-1": v1beta1.IsStuckOnRemoval, "web-2": v1beta1.Injected}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("while it cleans (-want +got):\n%s", diff)
	}
	ShowReport(d, stuck)
	want["web-2"] = v1beta1.NotInjected
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("stuck (-want +got):\n%s", diff)
	}
	since := func() *metav1.Time { return d.Status.TargetInjections["web-2"][v1beta1.KindNetwork].Since }
	ShowFinished(d, FinishInput{Ending: "expired"})
	if now := d.Status.TargetInjections["web-1"][v1beta1.KindNetwork]; now.InjectionStatus != v1beta1.NotInjected || !now.Since.Equal(&when) || !since().Equal(&when) {
		t.Errorf("at the end web-1 is %+v, web-2 injected since %v; want neither injected, and since %v", now, since(), when)
	}
	if d.Status.Targets != "2/2" || d.Status.InjectedTargetsCount != 0 {
		t.Errorf("targets %s, %d injected; want 2/2, as before the end, and none", d.Status.Targets, d.Status.InjectedTargetsCount)
	}
}
