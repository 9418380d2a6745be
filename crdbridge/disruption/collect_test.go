package disruption

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
)

// rule S13: the bridge deletes an ended Disruption in time, and no other.
func TestWhatHasEndedIsDeleted(t *testing.T) {
	const ttl = time.Hour
	ended := func(ago time.Duration, phase v1beta1.Phase) func(*v1beta1.DisruptionStatus) {
		return func(s *v1beta1.DisruptionStatus) {
			at := metav1.NewTime(time.Now().Add(-ago))
			s.Phase = phase
			if phase == v1beta1.PhaseFinished {
				s.CleanedAt = &at
			} else {
				s.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "InvalidSpec", LastTransitionTime: at}}
			}
		}
	}
	unsure := func(s *v1beta1.DisruptionStatus) {
		ended(2*ttl, v1beta1.PhaseFinished)(s)
		verified := false
		s.CleanedVerified = &verified
	}
	controller := true
	ofCron := func(d *v1beta1.Disruption) {
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionCron", Name: "noon", UID: "1", Controller: &controller}}
	}
	b := newBridgeThatDeletes(t, ttl)
	goes, stays := map[string]*v1beta1.Disruption{}, map[string]*v1beta1.Disruption{}
	make := func(among map[string]*v1beta1.Disruption, name string, status func(*v1beta1.DisruptionStatus), change ...func(*v1beta1.Disruption)) {
		d := b.Disrupt(name, change...)
		b.SetStatus(d, status)
		among[name] = d
	}
	make(goes, "long-over", ended(2*ttl, v1beta1.PhaseFinished))
	make(goes, "in-a-moment", ended(ttl-2*time.Second, v1beta1.PhaseFinished))
	make(stays, "just-over", ended(0, v1beta1.PhaseFinished))
	make(stays, "just-rejected", ended(0, v1beta1.PhaseRejected))
	make(stays, "unsure", unsure)
	make(stays, "of-a-cron", ended(2*ttl, v1beta1.PhaseFinished), ofCron)
	b.start()
	there := func(d *v1beta1.Disruption) bool {
		err := b.Kube.Get(t.Context(), client.ObjectKeyFromObject(d), &v1beta1.Disruption{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	for name, d := range goes {
		bridgetest.Eventually(t, time.Minute, name+" is deleted", func() bool { return !there(d) })
	}
	for name, d := range stays {
		if !there(d) {
			t.Errorf("%s was deleted", name)
		}
	}
	if got := b.Temporal.Starts(goes["long-over"]); got != 0 {
		t.Errorf("%d workflows were started for it", got)
	}
}

func TestWhenItEnded(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 23, 1, minute, 0, 0, time.UTC))
	}
	cleaned := at(3)
	conditions := []metav1.Condition{{LastTransitionTime: at(2)}, {LastTransitionTime: at(1)}}
	for name, c := range map[string]struct {
		status v1beta1.DisruptionStatus
		want   metav1.Time
	}{
		"one that was clean at a time": {v1beta1.DisruptionStatus{CleanedAt: &cleaned, Conditions: []metav1.Condition{{LastTransitionTime: at(9)}}}, cleaned},
		"one that was rejected":        {v1beta1.DisruptionStatus{Conditions: conditions}, at(2)},
		"a status without times":       {v1beta1.DisruptionStatus{}, at(0)},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}, Status: c.status}
			if got := endedAt(d); !got.Equal(c.want.Time) {
				t.Errorf("endedAt = %s, want %s", got, c.want)
			}
		})
	}
}
