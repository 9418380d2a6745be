package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// MemoryPressure fills the memory of the target up to a share of its limit.
// Of a target without a memory limit it is a share of what its node has.
type MemoryPressure struct {
	// TargetPercent is the share of the target's memory limit that is in use during the
	// disruption: "1%" to "100%", or a number. It includes the target's own use. Required.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int || self.trim() != ''",message="want a percentage from \"1%\" to \"100%\"",messageExpression="'\"' + string(self) + '\": want a percentage from \"1%\" to \"100%\"'"
	TargetPercent Percentage `json:"targetPercent"`
	// RampDuration is the time over which the memory is filled, in equal
	// steps. 0, the default, fills it at once.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : !self.startsWith('-')",message="want a duration of 0 or more",messageExpression="string(self) + (type(self) == int ? 'ns' : '') + ' is negative: want a duration of 0 or more'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self <= 0 || self >= 1000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) <= duration('0s') || duration(self) >= duration('1ms'))",message="want 0, or at least 1ms",messageExpression="type(self) == int ? string(self) + 'ns is shorter than 1ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : self + ' is shorter than 1ms: want 0, or a duration such as 10s'"
	// +nullable
	RampDuration *Duration `json:"rampDuration,omitempty"`
}

func (p *MemoryPressure) validate(path *field.Path) field.ErrorList {
	errs := p.TargetPercent.validate(path.Child("targetPercent"))
	return append(errs, p.RampDuration.validateDelay(path.Child("rampDuration"))...)
}
