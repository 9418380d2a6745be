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

// rules are those in CEL on the values of this schema. The API server evaluates them
// at each write of the object, of its status too. For each field that a rule looks for
// it copies the properties of the schema that the field is of: a rule stands as deep as
// it can.
func (s schema) rules() []any {
	rules, _ := s["x-kubernetes-validations"].([]any)
	return rules
}

// combination is the rule on spec about kinds that cannot be asked for together.
func combination(c v1beta1.Combination) map[string]any {
	rule := map[string]any{"rule": c.Rule, "message": c.Message}
	if c.FieldPath != "" {
		rule["fieldPath"] = "." + c.FieldPath
	}
	return rule
}
