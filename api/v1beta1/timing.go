package v1beta1

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultDuration is how long a disruption without a duration lasts.
const DefaultDuration = time.Hour

// shortest and Longest are the limits of a disruption's life: of its duration
// alone, and of all of it, from the creation to the expiry.
const (
	shortest = time.Second
	Longest  = 365 * 24 * time.Hour
)

// TimeToCreate is when the chaos pods of a disruption created at created may
// exist: spec.triggers.createPods, and never before the creation.
func (s DisruptionSpec) TimeToCreate(created time.Time) time.Time {
	if s.Triggers == nil {
		return created
	}
	return s.Triggers.CreatePods.after(created)
}

// TimeToInject is when a disruption created at created may inject:
// spec.triggers.inject, whose offset counts from TimeToCreate, and never
// before TimeToCreate.
func (s DisruptionSpec) TimeToInject(created time.Time) time.Time {
	if s.Triggers == nil {
		return created
	}
	return s.Triggers.Inject.after(s.TimeToCreate(created))
}

// Beats is the pulse of the injection, with both durations set; nil for one that
// lasts as long as the disruption.
func (s DisruptionSpec) Beats() *DisruptionPulse {
	if s.Pulse == nil || s.Pulse.ActiveDuration == nil || s.Pulse.DormantDuration == nil {
		return nil
	}
	return s.Pulse
}

// Expiry is when a disruption created at created ends: spec.duration after TimeToInject,
// however long the injection itself took.
func (s DisruptionSpec) Expiry(created time.Time) time.Time {
	return s.TimeToInject(created).Add(s.lasts())
}

// validateExpiry refuses a disruption that ends too late. The moments of triggers count
// only once the disruption is created: before that, their distance is not known.
func (d *Disruption) validateExpiry(path *field.Path) field.ErrorList {
	spec, created := d.Spec, d.CreationTimestamp.Time
	if created.IsZero() && spec.Triggers != nil {
		relative := *spec.Triggers
		relative.CreatePods.NotBefore.Time, relative.Inject.NotBefore.Time = time.Time{}, time.Time{}
		spec.Triggers = &relative
	}
	lasts := spec.Expiry(created).Sub(created)
	if lasts <= Longest {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("duration"), field.OmitValueType{},
		EndsTooLate(fmt.Sprintf("%.0fh", math.Ceil(lasts.Hours()))))}
}

// EndsTooLate is the error about a disruption that ends so long after its creation, in
// hours, rounded up.
func EndsTooLate(after string) string {
	return fmt.Sprintf("it ends %s after its creation, triggers included: want at most %dh, a year", after, int(Longest.Hours()))
}

// after is the trigger's moment, or earliest if that is later or no moment is set.
func (t DisruptionTrigger) after(earliest time.Time) time.Time {
	if t.NotBefore.After(earliest) {
		return t.NotBefore.Time
	}
	if t.Offset.Duration > 0 {
		return earliest.Add(t.Offset.Duration)
	}
	return earliest
}
