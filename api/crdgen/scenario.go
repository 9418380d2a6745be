package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// unruled takes the rules in CEL off the templates of a scenario. The API server
// refuses a CRD with more than one specification of a disruption in it, as it
// reckons what the rules on the largest of each would cost (decision 0009). Types,
// bounds, patterns and defaults stay. The rule about the disruptions of a step fits.
func unruled(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	boundNumbers(crd)
	spec, err := specOf(crd)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	disruptions := itemsOf(schema(spec).property("steps")).property("disruptions")
	template := itemsOf(disruptions).property("template")
	if template == nil {
		return fmt.Errorf("%s: no template where the spec of a disruption should be", file)
	}
	withoutRules(map[string]any(template))
	template.property("selector").boundLabels()
	template.property("count")["maxLength"] = 63
	disruptions["x-kubernetes-validations"] = append(disruptions.rules(), map[string]any{"rule": v1beta1.OverlapRule(), "message": v1beta1.OverlapMessage})
	boundProbes(schema(spec).property("steadyState"))
	text, err = yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
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
