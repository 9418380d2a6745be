package v1beta1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestDisruptionsOfAStepThatCannotShareTargets(t *testing.T) {
	spec := func(count string, faults Faults, change ...func(*DisruptionSpec)) DisruptionSpec {
		amount := intstr.Parse(count)
		s := DisruptionSpec{Selector: map[string]string{"app": "shop"}, Count: &amount, Level: LevelPod, Faults: faults}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	network, cpu := Faults{Network: &NetworkDisruption{}}, Faults{CPUPressure: &CPUPressure{}}
	shares := func(s *DisruptionSpec) { s.AllowDisruptedTargets = true }
	other := func(s *DisruptionSpec) { s.Selector = map[string]string{"app": "bank"} }
	for name, c := range map[string]struct {
		a, b DisruptionSpec
		want string
	}{
		"all of the same pods":              {spec("100%", network), spec("100%", cpu), "allowDisruptedTargets: true in both"},
		"one of both shares":                {spec("100%", network, shares), spec("100%", cpu), "allowDisruptedTargets: true in both"},
		"both share":                        {spec("100%", network, shares), spec("100%", cpu, shares), ""},
		"the same fault twice":              {spec("60%", network, shares), spec("60%", network, shares), "network"},
		"a half each":                       {spec("50%", network), spec("50%", cpu), ""},
		"other pods":                        {spec("100%", network), spec("100%", cpu, other), ""},
		"all and a number":                  {spec("100%", network), spec("1", cpu), "allowDisruptedTargets: true in both"},
		"a number and all":                  {spec("2", network, shares), spec("100%", cpu), "allowDisruptedTargets: true in both"},
		"all and a number, both share":      {spec("100%", network, shares), spec("1", cpu, shares), ""},
		"all and a number of another level": {spec("100%", network), spec("1", cpu, func(s *DisruptionSpec) { s.Level = LevelNode }), ""},
		"a share and a number":              {spec("99%", network), spec("1", cpu), ""},
		"numbers, which may leave room":     {spec("1", network), spec("1", cpu), ""},
		"pods that are still to be created": {spec("100%", network), spec("100%", cpu, func(s *DisruptionSpec) { s.OnInit = true }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			step := ScenarioStep{Disruptions: []ScenarioDisruption{{Template: c.a}, {Template: c.b}}}
			errs := step.validateOverlap(field.NewPath("disruptions"))
			got := errs.ToAggregate()
			if (c.want == "") != (got == nil) || got != nil && (!strings.Contains(got.Error(), c.want) || !strings.HasPrefix(errs[0].Field, "disruptions[1].template")) {
				t.Errorf("validateOverlap() = %v, want %q", got, c.want)
			}
		})
	}
}

func TestAStepThatWantsMoreTargetsThanThereAre(t *testing.T) {
	spec := func(count string, faults Faults, share bool) ScenarioDisruption {
		amount := intstr.Parse(count)
		return ScenarioDisruption{Template: DisruptionSpec{Count: &amount, Faults: faults, AllowDisruptedTargets: share}}
	}
	network, cpu, memory := Faults{Network: &NetworkDisruption{}}, Faults{CPUPressure: &CPUPressure{}}, Faults{MemoryPressure: &MemoryPressure{}}
	of := func(names string) map[string]bool {
		all := map[string]bool{}
		for _, name := range strings.Fields(names) {
			all[name] = true
		}
		return all
	}
	for name, c := range map[string]struct {
		disruptions []ScenarioDisruption
		matching    []map[string]bool
		want        string
	}{
		"room for both":                {[]ScenarioDisruption{spec("1", network, false), spec("2", cpu, false)}, []map[string]bool{of("a b c"), of("a b c")}, ""},
		"no room for both":             {[]ScenarioDisruption{spec("2", network, false), spec("2", cpu, false)}, []map[string]bool{of("a b c"), of("a b c")}, "disruptions 1, 2 of step all want 4 targets together, and 3 match: set allowDisruptedTargets"},
		"one of both shares":           {[]ScenarioDisruption{spec("2", network, true), spec("2", cpu, false)}, []map[string]bool{of("a b c"), of("a b c")}, "set allowDisruptedTargets"},
		"both share":                   {[]ScenarioDisruption{spec("3", network, true), spec("3", cpu, true)}, []map[string]bool{of("a b c"), of("a b c")}, ""},
		"the same fault":               {[]ScenarioDisruption{spec("2", cpu, true), spec("2", cpu, true)}, []map[string]bool{of("a b c"), of("a b c")}, "the same fault cannot share a target"},
		"others":                       {[]ScenarioDisruption{spec("2", network, false), spec("2", cpu, false)}, []map[string]bool{of("a b"), of("c d")}, ""},
		"selectors that overlap":       {[]ScenarioDisruption{spec("2", network, false), spec("2", cpu, false)}, []map[string]bool{of("a b"), of("b c")}, "want 4 targets together, and 3 match"},
		"a half each of an odd number": {[]ScenarioDisruption{spec("50%", network, false), spec("50%", cpu, false)}, []map[string]bool{of("a b c"), of("a b c")}, ""},
		"room for two of three":        {[]ScenarioDisruption{spec("1", network, false), spec("1", cpu, false), spec("1", memory, false)}, []map[string]bool{of("a b"), of("a b"), of("a b")}, "disruptions 1, 2, 3"},
		"none there":                   {[]ScenarioDisruption{spec("2", network, false), spec("2", cpu, false)}, []map[string]bool{nil, nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ScenarioStep{Name: "all", Disruptions: c.disruptions}.Crowded(c.matching)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("Crowded() = %q, want %q", got, c.want)
			}
		})
	}
}
