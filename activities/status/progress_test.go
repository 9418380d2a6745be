package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// A watch whose worker was given up may go on when the workflow has long begun another
// one, of fewer targets.
func TestProgressOfAnEarlierWatchChangesNothing(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 1234, time.UTC)
	of := func(names ...string) chaospod.Progress {
		p := chaospod.Progress{Targets: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}, Total: len(names)}
		for _, name := range names {
			p.Targets[name] = map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindNetwork: {InjectionStatus: v1beta1.Injected}}
			p.Injected, p.ReadyPods = p.Injected+1, p.ReadyPods+1
		}
		return p
	}
	d := &v1beta1.Disruption{}
	ShowProgress(d, of("web-0", "web-1"), began)
	ShowProgress(d, of("web-0"), began.Add(time.Second))
	want := d.DeepCopy()
	if want.Status.Targets != "1/1" {
		t.Errorf("targets = %s, want those of the later watch, 1/1", want.Status.Targets)
	}
	ShowProgress(d, of("web-0", "web-1"), began)
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the earlier watch changed (-want +got):\n%s", diff)
	}
	ShowProgress(d, of(), began.Add(time.Second))
	if d.Status.Targets != "0/0" {
		t.Errorf("targets = %s, want what the same watch saw later, 0/0", d.Status.Targets)
	}
}
