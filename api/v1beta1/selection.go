package v1beta1

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Wanted is how many of matching targets spec.count asks for: a number, never
// more than there are, or a share of them in percent, rounded up. It is 0 for
// a count that Validate refuses.
func (s DisruptionSpec) Wanted(matching int) int {
	if s.Count == nil || matching <= 0 {
		return 0
	}
	amount, percent, err := parseAmount(*s.Count)
	if err != nil {
		return 0
	}
	if percent {
		return (matching*amount + 99) / 100
	}
	return min(amount, matching)
}

// FollowsShare is true when the number of targets follows the number that match, in
// both directions: count is a percentage, and targeting is not static. Pods that are
// disrupted at their start match only until they have started.
func (s DisruptionSpec) FollowsShare() bool {
	return s.percent() > 0 && !s.StaticTargeting
}

// mostLost is the largest maxLostTargets.
const mostLost = 1_000_000

// MostLost is how many lost targets are replaced while count asks for so many
// targets; without a bound it is false.
func (s DisruptionSpec) MostLost(desired int) (most int, bounded bool) {
	if s.MaxLostTargets != nil {
		return *s.MaxLostTargets, true
	}
	if s.Count == nil {
		return 0, false
	}
	amount, percent, err := parseAmount(*s.Count)
	switch {
	case err != nil || percent && amount == 100:
		return 0, false
	case percent:
		return desired, true
	}
	return amount, true
}

// LabelSelector is spec.selector and spec.advancedSelector, all of which must
// hold. Without any requirement it selects nothing, because a disruption of
// everything has to be asked for by name. The error names what cannot be
// parsed; the selector then selects nothing either.
func (s DisruptionSpec) LabelSelector() (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchLabels:      s.Selector,
		MatchExpressions: s.AdvancedSelector,
	})
	if err != nil {
		return labels.Nothing(), fmt.Errorf("parse the selector: %w", err)
	}
	if selector.Empty() {
		return labels.Nothing(), nil
	}
	return selector, nil
}

// Matches is true for a target whose labels the selectors select and which has
// every annotation of spec.filter. An unparsable selector matches nothing.
func (s DisruptionSpec) Matches(targetLabels, targetAnnotations map[string]string) bool {
	selector, err := s.LabelSelector()
	if err != nil || !selector.Matches(labels.Set(targetLabels)) {
		return false
	}
	if s.Filter == nil {
		return true
	}
	for key, want := range s.Filter.Annotations {
		if got, found := targetAnnotations[key]; !found || got != want {
			return false
		}
	}
	return true
}

// mostTargets keeps a count within every integer it passes through.
const mostTargets = 999_999_999

// parseAmount reads 3, "3" or "30%". Amounts are positive, percentages at most 100.
func parseAmount(value intstr.IntOrString) (amount int, percent bool, err error) {
	digits, percent := strings.CutSuffix(value.String(), "%")
	amount, err = strconv.Atoi(digits)
	if err != nil || strings.HasPrefix(digits, "+") || amount > mostTargets {
		return 0, percent, fmt.Errorf("%q: want a number such as 2 or a percentage such as \"50%%\"", value.String())
	}
	if percent && (amount < 1 || amount > 100) {
		return 0, percent, fmt.Errorf("%q: a percentage goes from 1%% to 100%%", value.String())
	}
	if amount < 1 {
		return 0, percent, fmt.Errorf("%q: want at least 1", value.String())
	}
	return amount, percent, nil
}
