package v1beta1

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTimes(t *testing.T) {
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) DisruptionTrigger {
		return DisruptionTrigger{NotBefore: metav1.NewTime(created.Add(time.Duration(minutes) * time.Minute))}
	}
	in := func(minutes int) DisruptionTrigger {
		return DisruptionTrigger{Offset: Duration{Duration: time.Duration(minutes) * time.Minute}}
	}
	none := DisruptionTrigger{}
	for _, c := range []struct {
		name           string
		pods, inject   DisruptionTrigger
		create, starts int // minutes after the creation
	}{
		{"no trigger: at once", none, none, 0, 0},
		{"createPods offset counts from the creation", in(5), none, 5, 5},
		{"createPods notBefore", at(10), none, 10, 10},
		{"createPods notBefore in the past: at once", at(-10), none, 0, 0},
		{"inject offset counts from the creation", none, in(3), 0, 3},
		{"inject offset counts from createPods' offset", in(5), in(3), 5, 8},
		{"inject offset counts from createPods' notBefore", at(10), in(3), 10, 13},
		{"inject offset after a createPods in the past", at(-10), in(3), 0, 3},
		{"inject notBefore", none, at(20), 0, 20},
		{"inject notBefore after createPods", at(10), at(20), 10, 20},
		{"inject notBefore before createPods: with the pods", in(30), at(20), 30, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := DisruptionSpec{
				Duration: &Duration{Duration: 7 * time.Minute},
				Triggers: &DisruptionTriggers{CreatePods: c.pods, Inject: c.inject},
			}
			minutes := func(at time.Time) int { return int(at.Sub(created) / time.Minute) }
			if got := minutes(spec.TimeToCreate(created)); got != c.create {
				t.Errorf("TimeToCreate = creation + %d min, want %d", got, c.create)
			}
			if got := minutes(spec.TimeToInject(created)); got != c.starts {
				t.Errorf("TimeToInject = creation + %d min, want %d", got, c.starts)
			}
			if got := minutes(spec.Expiry(created)); got != c.starts+7 {
				t.Errorf("Expiry = creation + %d min, want %d", got, c.starts+7)
			}
		})
	}
}

func TestExpiryWithoutDurationOrTriggers(t *testing.T) {
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if got, want := (DisruptionSpec{}).Expiry(created), created.Add(time.Hour); !got.Equal(want) {
		t.Errorf("Expiry of an empty spec = %s, want %s", got, want)
	}
}

// A moment far away would be a disruption that never begins and an expiry that
// cannot be written as a time.
func TestEndWithinAYearOfTheCreation(t *testing.T) {
	created := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	at := func(moment time.Time) DisruptionTrigger { return DisruptionTrigger{NotBefore: metav1.NewTime(moment)} }
	for _, c := range []struct {
		name     string
		created  time.Time
		duration time.Duration
		triggers *DisruptionTriggers
		want     string // empty: accepted
	}{
		{"a year to the second", created, Longest, nil, ""},
		{"a second more than a year", created, Longest + time.Second, nil, "it ends 8761h after its creation"},
		{"never", created, time.Hour, &DisruptionTriggers{Inject: at(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))},
			"it ends 2562048h after its creation, triggers included: want at most 8760h, a year"},
		{"chaos pods late, an offset after them", created, 2 * time.Hour,
			&DisruptionTriggers{CreatePods: at(created.Add(Longest - 2*time.Hour)), Inject: DisruptionTrigger{Offset: Duration{Duration: time.Hour}}},
			"it ends 8761h after its creation"},
		{"an absolute moment within the year", created, time.Hour, &DisruptionTriggers{Inject: at(created.Add(Longest - time.Hour))}, ""},
		{"an absolute moment, not created yet", time.Time{}, time.Hour, &DisruptionTriggers{Inject: at(created)}, ""},
		{"offsets, not created yet", time.Time{}, Longest, &DisruptionTriggers{Inject: DisruptionTrigger{Offset: Duration{Duration: time.Hour}}},
			"it ends 8761h after its creation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Disruption{}
			d.CreationTimestamp = metav1.NewTime(c.created)
			d.Spec.Duration, d.Spec.Triggers = &Duration{Duration: c.duration}, c.triggers
			errs := d.validateExpiry(field.NewPath("spec"))
			switch {
			case c.want == "" && len(errs) > 0:
				t.Errorf("validateExpiry() = %v, want nothing", errs)
			case c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)):
				t.Errorf("validateExpiry() = %v, want one refusal with %q", errs, c.want)
			}
		})
	}
}
