package main

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

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

// refusal is the rule on spec that refuses one unsupported field.
func refusal(spec schema, field v1beta1.UnsupportedField) (map[string]any, error) {
	set, err := isSet("self", spec, strings.Split(field.Path, "."))
	if err != nil {
		return nil, err
	}
	if field.Level != "" {
		set = fmt.Sprintf("has(self.level) && self.level == '%s' && %s", field.Level, set)
	}
	return map[string]any{
		"rule":      "!(" + set + ")",
		"message":   field.Message(),
		"reason":    "FieldValueForbidden",
		"fieldPath": "." + field.FieldPath(),
	}, nil
}

// isSet is a CEL expression: the field at path, below the variable, asks for
// something. An object does by being there, anything else by not being empty;
// v1beta1 says the same in Go.
func isSet(variable string, parent schema, path []string) (string, error) {
	name, list := strings.CutSuffix(path[0], "[]")
	property := parent.property(name)
	if property == nil {
		return "", fmt.Errorf("the schema has no field %s", name)
	}
	field := variable + "." + name
	has := "has(" + field + ")"
	if list {
		item, _ := property["items"].(map[string]any)
		some, err := isSet("i", item, path[1:])
		return has + " && " + field + ".exists(i, " + some + ")", err
	}
	if len(path) > 1 {
		rest, err := isSet(field, property, path[1:])
		return has + " && " + rest, err
	}
	switch property["type"] {
	case "object":
		return has, nil
	case "boolean":
		return has + " && " + field, nil
	case "integer":
		return has + " && " + field + " != 0", nil
	case "string", "array":
		return has + " && " + field + ".size() > 0", nil
	}
	return "", fmt.Errorf("%s has type %v, for which crdgen knows no test", name, property["type"])
}
