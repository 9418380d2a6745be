package v1beta1

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// DefaultRolloutTolerance is the default of a rollout's delayedStartTolerance: longer
	// than what a Deployment's progress may take by default.
	DefaultRolloutTolerance = 15 * time.Minute
	mostRolloutName         = 44
)

// Default fills in what the CRD's schema fills in when an object is created, and
// nothing else. Calling it again changes nothing.
func (r *DisruptionRollout) Default() {
	if r.Spec.DelayedStartTolerance == nil {
		r.Spec.DelayedStartTolerance = &Duration{Duration: DefaultRolloutTolerance}
	}
	r.Spec.DisruptionTemplate.setDefaults()
}

// Validate returns everything that is wrong with the rollout. The CRD's schema holds the
// same rules.
func (r *DisruptionRollout) Validate() field.ErrorList {
	var errs field.ErrorList
	if len(r.Name) > mostRolloutName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), r.Name,
			fmt.Sprintf("metadata.name is part of the name of every run, disruption-rollout-NAME: use at most %d characters, not %d", mostRolloutName, len(r.Name))))
	}
	path := field.NewPath("spec")
	errs = append(errs, r.Spec.DelayedStartTolerance.validateDelay(path.Child("delayedStartTolerance"))...)
	errs = append(errs, r.Spec.TargetResource.validate(path.Child("targetResource"))...)
	errs = append(errs, r.Spec.Reporting.validate(path.Child("reporting"))...)
	return append(errs, validateTemplate(path.Child("disruptionTemplate"), r.Spec.DisruptionTemplate)...)
}

func (t TargetResource) validate(path *field.Path) field.ErrorList {
	return append(oneOf(path.Child("kind"), t.Kind, TargetDeployment, TargetStatefulSet), length(path.Child("name"), t.Name, 1, 253)...)
}
