package main

import "github.com/squall-chaos/squall/api/v1beta1"

// schema is an OpenAPI schema as YAML reads it.
type schema map[string]any

// property is the schema of a field, nil when there is none.
func (s schema) property(name string) schema {
	properties, _ := s["properties"].(map[string]any)
	property, _ := properties[name].(map[string]any)
	return property
}

// combination is the rule on spec about kinds that cannot be asked for together.
func combination(c v1beta1.Combination) map[string]any {
	rule := map[string]any{"rule": c.Rule, "message": c.Message}
	if c.FieldPath != "" {
		rule["fieldPath"] = "." + c.FieldPath
	}
	return rule
}
