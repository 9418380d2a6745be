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
