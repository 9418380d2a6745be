package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// boundSize adds the rule that refuses parameters of a kind that do not fit into a
// chaos pod, unless their schema bounds them anyway.
func boundSize(params schema) error {
	most, err := largest(params)
	if err != nil || most <= v1beta1.MostDocument {
		return err
	}
	size := sizeOf("self", params, 0)
	params["x-kubernetes-validations"] = append(params.rules(), map[string]any{
		"rule":              fmt.Sprintf("%s <= %d", size, v1beta1.MostDocument),
		"message":           v1beta1.TooLarge("too many"),
		"messageExpression": fmt.Sprintf("'%s'.format([%s])", v1beta1.TooLarge("%d"), size),
	})
	return nil
}

// sizeOf is a CEL expression: about the length of a value as JSON. v1beta1
// counts in the same way: a comma after each of several things, and fields that
// are empty left out.
func sizeOf(value string, s schema, depth int) string {
	switch s["type"] {
	case "object":
		terms := []string{"2"}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property, field := s.property(name), value+"."+name
			terms = append(terms, fmt.Sprintf("(has(%s)%s ? %d + %s : 0)",
				field, notEmpty(field, property), len(name)+len(`"":,`), sizeOf(field, property, depth)))
		}
		return strings.Join(terms, " + ")
	case "array":
		item := string(rune('i' + depth))
		items, _ := s["items"].(map[string]any)
		return fmt.Sprintf("2 + %s.map(%s, 1 + %s).sum()", value, item, sizeOf(item, items, depth+1))
	case "string":
		return value + ".size() + 2"
	case "boolean":
		return "5"
	case "integer":
		return "string(" + value + ").size()"
	}
	return "string(" + value + ").size() + 2"
}

// notEmpty is what Go leaves out of JSON when it is empty.
func notEmpty(field string, s schema) string {
	switch s["type"] {
	case "array", "string":
		return " && " + field + ".size() > 0"
	case "integer":
		return " && " + field + " != 0"
	case "boolean":
		return " && " + field
	}
	return ""
}

// largest is about the length that a value of this schema can have as JSON.
func largest(s schema) (int, error) {
	bound := func(name string) (int, error) {
		most, ok := s[name].(float64)
		if !ok {
			return 0, fmt.Errorf("%v without %s", s["type"], name)
		}
		return int(most), nil
	}
	switch s["type"] {
	case "object":
		size := 2
		properties, _ := s["properties"].(map[string]any)
		for name := range properties {
			most, err := largest(s.property(name))
			if err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			size += most + len(name) + len(`"":,`)
		}
		return size, nil
	case "array":
		items, _ := s["items"].(map[string]any)
		count, err := bound("maxItems")
		if err != nil {
			return 0, err
		}
		most, err := largest(items)
		return 2 + count*(most+1), err
	case "string":
		if values, listed := s["enum"].([]any); listed {
			most := 0
			for _, value := range values {
				most = max(most, len(fmt.Sprint(value)))
			}
			return most + 2, nil
		}
		most, err := bound("maxLength")
		return most + 2, err
	}
	return 66, nil // a number, a flag, or a duration
}
