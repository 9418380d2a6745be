package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CPUPressure burns CPU time inside the target's cgroup.
type CPUPressure struct {
	// Count is a number of cores, at least 1, or a percentage of the cores the
	// target may use, "1%" to "100%". Nothing means 100%.
	//
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('^0*([1-9][0-9]{0,8}|([1-9][0-9]?|100)%)$')`,message="want a number of cores such as 2, or a percentage of them from \"1%\" to \"100%\"",messageExpression=`string(self) + ': want a number of cores such as 2, or a percentage of them from "1%" to "100%"'`
	// +nullable
	Count *intstr.IntOrString `json:"count,omitempty"`
}

func (p *CPUPressure) validate(path *field.Path) field.ErrorList {
	if p.Count == nil {
		return nil
	}
	if _, _, err := parseAmount(*p.Count); err != nil {
		return field.ErrorList{field.Invalid(path.Child("count"), p.Count.String(), err.Error())}
	}
	return nil
}
