package main

import (
	"errors"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// unruled takes the rules in CEL off the templates of a scenario. The API server
// refuses a CRD with more than one specification of a disruption in it, as it
// reckons what the rules on the largest of each would cost (decision 0009). Types,
// bounds, patterns and defaults stay. The rule about the disruptions of a step fits.
func unruled(crd map[string]any, spec schema) error {
	boundNumbers(crd)
	disruptions := itemsOf(spec.property("steps")).property("disruptions")
	template := itemsOf(disruptions).property("template")
	if template == nil {
		return errors.New("no template where the spec of a disruption should be")
	}
	withoutRules(map[string]any(template))
	template.property("selector").boundLabels()
	template.property("count")["maxLength"] = 63
	disruptions["x-kubernetes-validations"] = append(disruptions.rules(), map[string]any{"rule": v1beta1.OverlapRule(), "message": v1beta1.OverlapMessage})
	boundProbes(spec.property("steadyState"))
	return nil
}

func itemsOf(s schema) schema {
	items, _ := s["items"].(map[string]any)
	return items
}

func withoutRules(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "x-kubernetes-validations")
		for _, below := range value {
			withoutRules(below)
		}
	case []any:
		for _, below := range value {
			withoutRules(below)
		}
	}
}
