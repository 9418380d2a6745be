package status

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// A watch whose worker was given up may continue while the workflow has long begun
// another one, of fewer targets.
func TestProgressOfAnEarlierWatchChangesNothing(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 1234, time.UTC)
	d := &v1beta1.Disruption{}
	ShowProgress(d, progressOf("web-0", "web-1"), began)
	ShowProgress(d, progressOf("web-0"), began.Add(time.Second))
	want := d.DeepCopy()
	if want.Status.Targets != "1/1" {
		t.Errorf("targets = %s, want those of the later watch, 1/1", want.Status.Targets)
	}
	ShowProgress(d, progressOf("web-0", "web-1"), began)
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("the earlier watch changed (-want +got):\n%s", diff)
	}
	ShowProgress(d, progressOf(), began.Add(time.Second))
	if d.Status.Targets != "0/0" {
		t.Errorf("targets = %s, want what the same watch saw later, 0/0", d.Status.Targets)
	}
}

// The injectors of a deleted disruption end before its watch knows of the deletion:
// status keeps their number.
func TestProgressAtTheEndKeepsTheNumberOfInjected(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 1234, time.UTC)
	taken := progressOf("web-0", "web-1")
	taken.Injected, taken.ReadyPods = 1, 1
	taken.Targets["web-1"] = map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindNetwork: {InjectionStatus: v1beta1.NotInjected}}
	for _, deleted := range []bool{false, true} {
		d := &v1beta1.Disruption{}
		ShowProgress(d, progressOf("web-0", "web-1"), began)
		want := "1/2"
		if deleted {
			d.DeletionTimestamp, want = &metav1.Time{Time: began}, "2/2"
		}
		ShowProgress(d, taken, began)
		if d.Status.Targets != want {
			t.Errorf("deleted %v: targets = %s, want %s", deleted, d.Status.Targets, want)
		}
		d.Status.InjectedTargetsCount = 0 // as before the first progress
		ShowProgress(d, taken, began)
		if d.Status.Targets != "1/2" {
			t.Errorf("deleted %v, the first word of the watch: targets = %s, want 1/2", deleted, d.Status.Targets)
		}
	}
}

// A target that waits for its turn has not failed. A target that has failed is reported first.
func TestAWaitIsNoFailure(t *testing.T) {
	not := func(p chaospod.Progress, name, reason string) {
		p.Targets[name] = map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindPodReplacement: {InjectionStatus: v1beta1.NotInjected, Reason: reason}}
	}
	waiting := chaospod.Progress{Total: 2, Targets: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}, Waiting: map[string]bool{"web-0": true}}
	not(waiting, "web-0", "waits since noon")
	not(waiting, "web-1", "")
	failed := chaospod.Progress{Total: 2, Targets: maps.Clone(waiting.Targets), Waiting: waiting.Waiting}
	not(failed, "web-1", "a finalizer holds it")
	for _, c := range []struct {
		progress        chaospod.Progress
		reason, message string
	}{
		{waiting, v1beta1.ReasonWaitingForCordon, "0 of 2 targets are injected: web-0: waits since noon"},
		{failed, v1beta1.ReasonInjectionFailed, "0 of 2 targets are injected: web-1: a finalizer holds it"},
	} {
		d := &v1beta1.Disruption{}
		ShowProgress(d, c.progress, time.Now())
		got := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionInjected)
		if got == nil || got.Status != metav1.ConditionFalse || got.Reason != c.reason || got.Message != c.message {
			t.Errorf("condition = %+v, want False with %s: %s", got, c.reason, c.message)
		}
	}
}

func progressOf(names ...string) chaospod.Progress {
	p := chaospod.Progress{Targets: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}, Total: len(names)}
	for _, name := range names {
		p.Targets[name] = map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindNetwork: {InjectionStatus: v1beta1.Injected}}
		p.Injected, p.ReadyPods = p.Injected+1, p.ReadyPods+1
	}
	return p
}
