package v1beta1

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns everything that is wrong with the disruption and can be known without
// a cluster and without a clock. The CRD's schema holds the same rules, so the API server
// refuses what Validate refuses; crdtest compares the two. One rule needs the time of the
// creation: an admission policy holds it.
func (d *Disruption) Validate() field.ErrorList {
	var errs field.ErrorList
	if len(d.Name) > validation.LabelValueMaxLength {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), d.Name,
			"metadata.name is the value of a label on every chaos pod: use at most 63 characters"))
	}
	spec := field.NewPath("spec")
	if len(d.Spec.Selector) == 0 && len(d.Spec.AdvancedSelector) == 0 {
		errs = append(errs, field.Required(spec.Child("selector"),
			"selector and advancedSelector are both empty: name the labels of the targets"))
	}
	errs = append(errs, d.Spec.validate(spec)...)
	errs = append(errs, d.validateExpiry(spec)...)
	return append(errs, d.Spec.validateSize(spec)...)
}

func (s DisruptionSpec) validate(path *field.Path) field.ErrorList {
	errs := s.validateTargets(path)
	errs = append(errs, s.validateCombination(path)...)
	errs = append(errs, s.validateLevel(path)...)
	errs = append(errs, s.Duration.validateLeast(path.Child("duration"), shortest, `"5m"`)...)
	if s.MaxRuns != nil {
		errs = append(errs, atLeast(path.Child("maxRuns"), int64(*s.MaxRuns), 1)...)
	}
	if s.MaxLostTargets != nil {
		errs = append(errs, between(path.Child("maxLostTargets"), int64(*s.MaxLostTargets), 0, mostLost)...)
	}
	errs = append(errs, s.validateInterval(path)...)
	errs = append(errs, s.Triggers.validate(path.Child("triggers"))...)
	errs = append(errs, s.Pulse.validate(path.Child("pulse"))...)
	errs = append(errs, s.PodOpsLifecycle.validate(path.Child("podOpsLifecycle"))...)
	errs = append(errs, s.participants(path.Child("podOpsLifecycle", "policy"))...)
	errs = append(errs, s.SteadyState.validate(path.Child("steadyState"), s.Level)...)
	if s.OnInit && s.SteadyState != nil && s.SteadyState.ControlGroup != nil {
		errs = append(errs, field.Invalid(path.Child("steadyState", "controlGroup"), s.SteadyState.ControlGroup.String(), "with onInit, pods have not started and cannot be probed: remove it"))
	}
	errs = append(errs, s.UnsafeMode.validate(path.Child("unsafeMode"))...)
	errs = append(errs, s.Reporting.validate(path.Child("reporting"))...)
	return append(errs, s.Faults.validate(path)...)
}

// validateTargets checks the fields about which targets and how many.
func (s DisruptionSpec) validateTargets(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Count == nil {
		errs = append(errs, field.Required(path.Child("count"), "want a number of targets such as 2, or a percentage such as \"50%\""))
	} else if _, _, err := parseAmount(*s.Count); err != nil {
		errs = append(errs, field.Invalid(path.Child("count"), s.Count.String(), err.Error()))
	}
	errs = append(errs, items(path.Child("selector"), len(s.Selector), 0, 64)...)
	if _, err := (DisruptionSpec{Selector: s.Selector}).LabelSelector(); err != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), s.Selector, err.Error()))
	}
	errs = append(errs, items(path.Child("advancedSelector"), len(s.AdvancedSelector), 0, 64)...)
	for i, requirement := range s.AdvancedSelector {
		if _, err := (DisruptionSpec{AdvancedSelector: s.AdvancedSelector[i : i+1]}).LabelSelector(); err != nil {
			errs = append(errs, field.Invalid(path.Child("advancedSelector").Index(i), requirement.Key, err.Error()))
		}
	}
	if s.Filter != nil {
		errs = append(errs, items(path.Child("filter", "annotations"), len(s.Filter.Annotations), 0, 64)...)
	}
	errs = append(errs, oneOf(path.Child("level"), string(s.Level), "", string(LevelPod), string(LevelNode))...)
	errs = append(errs, oneOf(path.Child("podDisruptionBudget"), string(s.PodDisruptionBudget), "", string(BudgetsIgnored), string(BudgetsRespected))...)
	return append(errs, validateContainers(path.Child("containers"), s.Containers)...)
}

// containerName are the characters of a container's name; the length is checked
// apart.
var containerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// validateContainers refuses names that no container can have: they would
// select nothing, on every target.
func validateContainers(path *field.Path, names []string) field.ErrorList {
	errs := items(path, len(names), 0, 64)
	for i, name := range names {
		errs = append(errs, length(path.Index(i), name, 0, 63)...)
		if !containerName.MatchString(name) {
			errs = append(errs, field.Invalid(path, name,
				fmt.Sprintf("%q is no name of a container: want lower case letters, digits and -, such as web", name)))
		}
	}
	return errs
}

// validateLevel checks what parts of kinds cannot do at a level.
func (s DisruptionSpec) validateLevel(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Level != LevelNode {
		return nil
	}
	if s.Network != nil && s.Network.HTTP != nil {
		errs = append(errs, field.Invalid(path.Child("network", "http"), field.OmitValueType{}, "network.http works at level pod only"))
	}
	if s.PodOpsLifecycle != nil {
		errs = append(errs, field.Invalid(path.Child("podOpsLifecycle"), field.OmitValueType{}, "podOpsLifecycle is about pods: set level to pod, or remove it"))
	}
	if s.PodDisruptionBudget == BudgetsRespected {
		errs = append(errs, field.Invalid(path.Child("podDisruptionBudget"), field.OmitValueType{}, "podDisruptionBudget is about pods: set level to pod, or remove it"))
	}
	if s.breaksRoot() && !s.UnsafeMode.allowsRootDiskFailure() {
		errs = append(errs, field.Invalid(path.Child("diskFailure", "paths"), field.OmitValueType{},
			"\"/\" at level node breaks the whole node: name a path below it, or set unsafeMode.allowRootDiskFailure"))
	}
	return errs
}

// onlyRoot are the ways to write "/", such as "//" and "/./".
var onlyRoot = regexp.MustCompile(`^/[/.]*$`)

func (s DisruptionSpec) breaksRoot() bool {
	return s.DiskFailure != nil && slices.ContainsFunc(s.DiskFailure.Paths, func(p string) bool {
		return onlyRoot.MatchString(strings.TrimSpace(p))
	})
}
