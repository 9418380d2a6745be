package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// An attempt that its worker was given up for may write when the workflow has
// long gone on. The last word is that of the later decision, whichever is written
// last; one of the same moment is the same, tried again.
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
