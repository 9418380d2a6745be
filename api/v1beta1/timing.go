package v1beta1

import "time"

// DefaultDuration is how long a disruption lasts that does not say.
const DefaultDuration = time.Hour

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

// Expiry is when a disruption created at created ends by itself: spec.duration
// after TimeToInject, however long the injection itself took.
func (s DisruptionSpec) Expiry(created time.Time) time.Time {
	if s.Duration == nil {
		return s.TimeToInject(created).Add(DefaultDuration)
	}
	return s.TimeToInject(created).Add(s.Duration.Duration)
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
