package v1beta1

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateOverlap refuses two disruptions of a step that want the same targets and may
// not share them: one of the two would get none. It judges what is certain: the same
// selectors, and more targets than can match. That is percentages of more than 100
// together, or all targets and a number. Two numbers may leave room for each other:
// Crowded judges them when the step begins.
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

// OverlapMessage is the API server's message for what validateOverlap refuses.
const OverlapMessage = "two disruptions of this step want the same targets: set allowDisruptedTargets: true in both, lower count, or use another step. The same fault cannot share a target"

// OverlapRule is validateOverlap in CEL, on the disruptions of a step. Of two disruptions that
// want more than all targets, one wants more than half. The rule counts, for each such
// disruption a, the disruptions b that it leaves too few targets: only a itself may be one.
func OverlapRule() string {
	const (
		share  = `(type(%[1]s.template.count) == string && %[1]s.template.count.matches('^0*([1-9][0-9]?|100)%%$') ? int(%[1]s.template.count.replace('%%', '')) : 0)`
		onInit = `(has(%[1]s.template.onInit) && %[1]s.template.onInit)`
		node   = `(has(%[1]s.template.level) && %[1]s.template.level == 'node')`
		shares = `(has(%[1]s.template.allowDisruptedTargets) && %[1]s.template.allowDisruptedTargets)`
	)
	of := func(term, disruption string) string { return fmt.Sprintf(term, disruption) }
	refused := []string{"!" + of(shares, "a"), "!" + of(shares, "b")}
	for _, one := range kindTable {
		for _, other := range kindTable {
			if Stack(one.Kind, other.Kind).Refused {
				refused = append(refused, fmt.Sprintf("(has(a.template.%s) && has(b.template.%s))", one.Field, other.Field))
			}
		}
	}
	crowded := []string{
		"!" + of(onInit, "b"),
		"(" + of(share, "a") + " == 100 || " + of(share, "a") + " + " + of(share, "b") + " > 100)",
		of(node, "a") + " == " + of(node, "b"),
		"(" + strings.Join(refused, " || ") + ")",
	}
	for _, field := range []string{"selector", "advancedSelector", "filter"} {
		// a field that is null is none, and cannot be compared
		crowded = append(crowded, fmt.Sprintf("has(a.template.%[1]s) == has(b.template.%[1]s) && (!has(a.template.%[1]s) || a.template.%[1]s == b.template.%[1]s)", field))
	}
	return fmt.Sprintf("self.all(a, %s || %s <= 50 || self.filter(b, %s).size() <= 1)", of(onInit, "a"), of(share, "a"), strings.Join(crowded, " && "))
}

// Crowded names, by number, disruptions of the step that want more targets together than
// there are, and may not share them; empty if all can have theirs. matching has the
// targets that each disruption matches now. A share counts rounded down.
func (s ScenarioStep) Crowded(matching []map[string]bool) string {
	for set := 1; set < 1<<len(s.Disruptions); set++ {
		var members []int
		wanted, there := 0, map[string]bool{}
		for k := range s.Disruptions {
			if set&(1<<k) == 0 {
				continue
			}
			members = append(members, k)
			wanted += s.Disruptions[k].Template.atLeastOf(len(matching[k]))
			maps.Copy(there, matching[k])
		}
		if alone, sameFault := s.apart(members); alone && wanted > len(there) {
			return s.crowd(members, wanted, len(there), sameFault)
		}
	}
	return ""
}

// Competes is true when some of the step's disruptions may not share targets, so that
// Crowded has something to judge.
func (s ScenarioStep) Competes() bool {
	for k := range s.Disruptions {
		for j := range k {
			if alone, _ := s.apart([]int{j, k}); alone {
				return true
			}
		}
	}
	return false
}

// apart is true when no two of these disruptions may have the same target; sameFault
// when two of them may not whatever they allow.
func (s ScenarioStep) apart(members []int) (alone, sameFault bool) {
	for n, k := range members {
		for _, j := range members[:n] {
			a, b := s.Disruptions[j].Template, s.Disruptions[k].Template
			refused := len(b.Kinds().Refuses(a.Kinds())) > 0
			if a.OnInit || b.OnInit || !refused && a.AllowDisruptedTargets && b.AllowDisruptedTargets {
				return false, false
			}
			sameFault = sameFault || refused
		}
	}
	return len(members) > 1, sameFault
}

func (s ScenarioStep) crowd(members []int, wanted, there int, sameFault bool) string {
	var numbers []string
	for _, k := range members {
		numbers = append(numbers, strconv.Itoa(k+1))
	}
	advice := "set allowDisruptedTargets: true in each of them, lower count, or put one into another step"
	if sameFault {
		advice = "lower count, or put one into another step; the same fault cannot share a target"
	}
	return fmt.Sprintf("disruptions %s of step %s want %d targets together, and %d match: %s", strings.Join(numbers, ", "), s.Name, wanted, there, advice)
}

// atLeastOf is how many of the matching targets count asks for, a share rounded down.
func (s DisruptionSpec) atLeastOf(matching int) int {
	if share := s.percent(); share > 0 {
		return matching * share / 100
	}
	return s.Wanted(matching)
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
		equality.Semantic.DeepEqual(s.AdvancedSelector, other.AdvancedSelector) && equality.Semantic.DeepEqual(s.Filter, other.Filter)
}
