package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DisruptionTriggers delay parts of a disruption.
//
// +kubebuilder:validation:XValidation:rule="!has(self.inject) || !has(self.inject.notBefore) || !has(self.createPods) || !has(self.createPods.notBefore) || self.inject.notBefore >= self.createPods.notBefore",message="inject.notBefore is before createPods.notBefore: nothing can be injected before there are chaos pods",messageExpression="'inject.notBefore is before createPods.notBefore: nothing can be injected before there are chaos pods; %s is before %s'.format([self.inject.notBefore, self.createPods.notBefore])"
type DisruptionTriggers struct {
	// Inject delays the injection; the chaos pods exist and wait. Its offset
	// counts from the creation, or from createPods if that is later.
	//
	// +nullable
	Inject DisruptionTrigger `json:"inject,omitzero"`
	// CreatePods delays everything, the choice of targets included. Its offset
	// counts from the creation.
	//
	// +nullable
	CreatePods DisruptionTrigger `json:"createPods,omitzero"`
}

// DisruptionTrigger is a moment: absolute or an offset, not both. A moment in
// the past means at once.
//
// +kubebuilder:validation:XValidation:rule="!has(self.notBefore) || !has(self.offset) || (type(self.offset) == int ? self.offset == 0 : !self.offset.matches('[1-9]'))",message="set notBefore or offset, not both",messageExpression="'set notBefore or offset, not both: %s or %s'.format([self.notBefore, self.offset])"
type DisruptionTrigger struct {
	// NotBefore is a time in RFC 3339, such as 2026-11-20T15:00:00Z.
	//
	// +nullable
	NotBefore metav1.Time `json:"notBefore,omitzero"`
	// Offset is a duration, 0 or more, such as "1m".
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : !self.startsWith('-')",message="want a duration of 0 or more",messageExpression="string(self) + (type(self) == int ? 'ns' : '') + ' is negative: want a duration of 0 or more'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self <= 0 || self >= 1000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) <= duration('0s') || duration(self) >= duration('1ms'))",message="want 0, or at least 1ms",messageExpression="type(self) == int ? string(self) + 'ns is shorter than 1ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : self + ' is shorter than 1ms: want 0, or a duration such as 10s'"
	// +nullable
	Offset Duration `json:"offset,omitzero"`
}

// DisruptionPulse turns an injection on and off, again and again. Both
// activeDuration and dormantDuration are needed for it to have an effect.
//
// +kubebuilder:validation:XValidation:rule="has(self.activeDuration) == has(self.dormantDuration)",message="set both activeDuration and dormantDuration"
type DisruptionPulse struct {
	// InitialDelay is the time before the first injection. Default 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : !self.startsWith('-')",message="want a duration of 0 or more",messageExpression="string(self) + (type(self) == int ? 'ns' : '') + ' is negative: want a duration of 0 or more'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self <= 0 || self >= 1000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) <= duration('0s') || duration(self) >= duration('1ms'))",message="want 0, or at least 1ms",messageExpression="type(self) == int ? string(self) + 'ns is shorter than 1ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : self + ' is shorter than 1ms: want 0, or a duration such as 10s'"
	// +nullable
	InitialDelay *Duration `json:"initialDelay,omitempty"`
	// ActiveDuration is how long each injection lasts, at least 500ms.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 500000000 : (self != '' && (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) >= duration('500ms')))",message="want at least 500ms",messageExpression="type(self) != int ? (self == '' ? '0s' : self) + ' is shorter than 500ms: want a duration such as 10s' : (self > 0 && self < 1000000 ? string(self) + 'ns is shorter than 500ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : string(self) + 'ns is shorter than 500ms: want a duration such as 10s')"
	// +nullable
	ActiveDuration *Duration `json:"activeDuration,omitempty"`
	// DormantDuration is the time between two injections, at least 500ms.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 500000000 : (self != '' && (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) >= duration('500ms')))",message="want at least 500ms",messageExpression="type(self) != int ? (self == '' ? '0s' : self) + ' is shorter than 500ms: want a duration such as 10s' : (self > 0 && self < 1000000 ? string(self) + 'ns is shorter than 500ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : string(self) + 'ns is shorter than 500ms: want a duration such as 10s')"
	// +nullable
	DormantDuration *Duration `json:"dormantDuration,omitempty"`
}

func (t *DisruptionTriggers) validate(path *field.Path) field.ErrorList {
	if t == nil {
		return nil
	}
	errs := t.Inject.validate(path.Child("inject"))
	errs = append(errs, t.CreatePods.validate(path.Child("createPods"))...)
	if !t.Inject.NotBefore.IsZero() && t.Inject.NotBefore.Before(&t.CreatePods.NotBefore) {
		errs = append(errs, field.Invalid(path.Child("inject", "notBefore"), t.Inject.NotBefore.Format(time.RFC3339),
			"inject.notBefore is before createPods.notBefore: nothing can be injected before there are chaos pods"))
	}
	return errs
}

func (t DisruptionTrigger) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !t.NotBefore.IsZero() && t.Offset.Duration != 0 {
		errs = append(errs, field.Invalid(path, t.Offset.String(), "set notBefore or offset, not both"))
	}
	return append(errs, t.Offset.validateDelay(path.Child("offset"))...)
}

func (p *DisruptionPulse) validate(path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, p.InitialDelay.validateDelay(path.Child("initialDelay"))...)
	if (p.ActiveDuration == nil) != (p.DormantDuration == nil) {
		errs = append(errs, field.Required(path, "set both activeDuration and dormantDuration"))
	}
	const shortest = 500 * time.Millisecond
	errs = append(errs, p.ActiveDuration.validateLeast(path.Child("activeDuration"), shortest, "10s")...)
	return append(errs, p.DormantDuration.validateLeast(path.Child("dormantDuration"), shortest, "10s")...)
}
