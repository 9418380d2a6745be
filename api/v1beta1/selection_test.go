package v1beta1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rules 13, 14, 15, 17
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		name     string
		count    string
		matching int
		want     int
	}{
		{"rule 13: 2 of 5", "2", 5, 2},
		{"rule 14: 25% of 5 is rounded up", "25%", 5, 2},
		{"rule 15: 25% of 4", "25%", 4, 1},
		{"rule 15: 1% of 3", "1%", 3, 1},
		{"rule 15: 100% of 5", "100%", 5, 5},
		{"rule 17a: more than there are", "7", 5, 5},
		{"30% of 2", "30%", 2, 1},
		{"50% of 10000", "50%", 10000, 5000},
		{"nothing matches a number", "3", 0, 0},
		{"nothing matches a percentage", "100%", 0, 0},
		{"a negative number is refused", "-1", 5, 0},
		{"zero is refused", "0", 5, 0},
		{"zero percent is refused", "0%", 5, 0},
		{"more than all is refused", "101%", 5, 0},
		{"a word is refused", "all", 5, 0},
		{"nothing is refused", "", 5, 0},
		{"two percent signs are refused", "5%%", 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, count := range []intstr.IntOrString{intstr.Parse(c.count), intstr.FromString(c.count)} {
				spec := DisruptionSpec{Count: &count}
				if got := spec.Wanted(c.matching); got != c.want {
					t.Errorf("Wanted(%d) with count %#v = %d, want %d", c.matching, count, got, c.want)
				}
			}
		})
	}
	signed := intstr.FromString("+2")
	if got := (DisruptionSpec{Count: &signed}).Wanted(5); got != 0 {
		t.Errorf("Wanted(5) with count \"+2\" = %d, want 0", got)
	}
	if got := (DisruptionSpec{}).Wanted(5); got != 0 {
		t.Errorf("Wanted(5) without a count = %d, want 0", got)
	}
}

func TestMatches(t *testing.T) {
	in := func(key string, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
	}
	target := map[string]string{"app": "shop", "tier": "web"}
	annotations := map[string]string{"team": "checkout"}
	for _, c := range []struct {
		name string
		spec DisruptionSpec
		want bool
	}{
		{"no selector selects nothing", DisruptionSpec{}, false},
		{"an empty selector selects nothing", DisruptionSpec{Selector: map[string]string{}}, false},
		{"equal label", DisruptionSpec{Selector: map[string]string{"app": "shop"}}, true},
		{"other value", DisruptionSpec{Selector: map[string]string{"app": "bank"}}, false},
		{"advanced selector alone", DisruptionSpec{AdvancedSelector: []metav1.LabelSelectorRequirement{in("tier", "web", "db")}}, true},
		{"both selectors must hold", DisruptionSpec{
			Selector:         map[string]string{"app": "shop"},
			AdvancedSelector: []metav1.LabelSelectorRequirement{in("tier", "db")},
		}, false},
		{"unknown operator selects nothing", DisruptionSpec{
			Selector:         map[string]string{"app": "shop"},
			AdvancedSelector: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Near"}},
		}, false},
		{"annotation present", DisruptionSpec{
			Selector: map[string]string{"app": "shop"},
			Filter:   &DisruptionFilter{Annotations: map[string]string{"team": "checkout"}},
		}, true},
		{"annotation with another value", DisruptionSpec{
			Selector: map[string]string{"app": "shop"},
			Filter:   &DisruptionFilter{Annotations: map[string]string{"team": "search"}},
		}, false},
		{"annotation missing though empty is asked for", DisruptionSpec{
			Selector: map[string]string{"app": "shop"},
			Filter:   &DisruptionFilter{Annotations: map[string]string{"owner": ""}},
		}, false},
		{"filter without annotations", DisruptionSpec{
			Selector: map[string]string{"app": "shop"}, Filter: &DisruptionFilter{},
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.spec.Matches(target, annotations); got != c.want {
				t.Errorf("Matches(%v, %v) = %t, want %t", target, annotations, got, c.want)
			}
		})
	}
}

func TestLabelSelectorNamesWhatItCannotParse(t *testing.T) {
	selector, err := DisruptionSpec{Selector: map[string]string{"app": "not a value"}}.LabelSelector()
	if err == nil {
		t.Fatal("LabelSelector() accepted the label value \"not a value\"")
	}
	if !selector.Empty() && selector.Matches(nil) {
		t.Errorf("LabelSelector() = %v with an error, want a selector of nothing", selector)
	}
}

// Rule S11: as many lost targets are replaced as count asks for, unless the spec has
// another limit; a count of all of them has no limit.
func TestMostLost(t *testing.T) {
	none, seven := 0, 7
	for name, test := range map[string]struct {
		count   string
		limit   *int
		want    int
		bounded bool
	}{
		"a number":                {"3", nil, 3, true},
		"a percentage":            {"25%", nil, 2, true},
		"all":                     {"100%", nil, 0, false},
		"none is replaced":        {"3", &none, 0, true},
		"more than count":         {"3", &seven, 7, true},
		"all, and a number of it": {"100%", &seven, 7, true},
	} {
		count := intstr.Parse(test.count)
		most, bounded := DisruptionSpec{Count: &count, MaxLostTargets: test.limit}.MostLost(2)
		if most != test.want || bounded != test.bounded {
			t.Errorf("%s: %d, bounded %t; want %d, %t", name, most, bounded, test.want, test.bounded)
		}
	}
}
