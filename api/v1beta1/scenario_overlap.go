package v1beta1

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateOverlap refuses two disruptions of a step that want the same targets and may
// not share them: one of the two would be left out. It judges what is certain: the same
// selectors, and more than all that match: percentages of more than 100 together, or
// all of them and a number. Two numbers may leave room for each other.
func (s ScenarioStep) validateOverlap(path *field.Path) (errs field.ErrorList) {
	for k, late := range s.Disruptions {
		for j, early := range s.Disruptions[:k] {
			a, b := early.Template, late.Template
			if !a.wantsMoreThanAll(b) || !a.selectsLike(b) {
				continue
			}
			at := path.Index(k).Child("template")
			if refused := b.Kinds().Refuses(a.Kinds()); len(refused) > 0 {
				errs = append(errs, field.Invalid(at, b.Kinds().String(), fmt.Sprintf(
					"it wants targets of disruption %d of this step, whose %s it cannot share a target with: put it into another step, or lower count",
					j+1, strings.Join(refused.Names(), ", "))))
				continue
			}
			if !a.AllowDisruptedTargets || !b.AllowDisruptedTargets {
				errs = append(errs, field.Invalid(at.Child("allowDisruptedTargets"), b.AllowDisruptedTargets, fmt.Sprintf(
					"it wants targets of disruption %d of this step: set allowDisruptedTargets: true in both, or lower count", j+1)))
			}
		}
	}
	return errs
}

// wantsMoreThanAll is true when both together want more than all targets that match,
// however many these are.
func (s DisruptionSpec) wantsMoreThanAll(other DisruptionSpec) bool {
	if !s.wantsSome() || !other.wantsSome() {
		return false
	}
	a, b := s.percent(), other.percent()
	return a+b > 100 || max(a, b) == 100
}

// wantsSome is true for a count, other than 0, of targets that exist.
func (s DisruptionSpec) wantsSome() bool {
	if s.Count == nil || s.OnInit {
		return false
	}
	amount, _, err := parseAmount(*s.Count)
	return err == nil && amount > 0
}

// percent is the share of matching targets that count asks for; 0 for a number.
func (s DisruptionSpec) percent() int {
	if s.Count == nil || s.OnInit {
		return 0
	}
	amount, percent, err := parseAmount(*s.Count)
	if err != nil || !percent {
		return 0
	}
	return amount
}

// selectsLike is true when both match the same targets, whatever there is.
func (s DisruptionSpec) selectsLike(other DisruptionSpec) bool {
	return (s.Level == LevelNode) == (other.Level == LevelNode) && maps.Equal(s.Selector, other.Selector) &&
		reflect.DeepEqual(s.AdvancedSelector, other.AdvancedSelector) && reflect.DeepEqual(s.Filter, other.Filter)
}
