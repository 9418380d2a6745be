package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// upstreamExamples begin examples in descriptions of Kubernetes' own types. The page
// leaves out the rest of such a description.
var upstreamExamples = []string{" A single {key,value}", "\nFor instance, ", " This array is replaced", "\nThis field may not be empty"}

// plain is a description in one line, safe in a cell of a table.
func plain(description any) string {
	text, _ := description.(string)
	for _, example := range upstreamExamples {
		text, _, _ = strings.Cut(text, example)
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(strings.Join(strings.Fields(text), " "))
}

// paragraph is a description in lines of at most 115 characters.
func paragraph(description any) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(plain(description)) {
		if line != "" && len(line)+1+len(word) > 115 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// code is a value as code, safe in a cell of a table; nothing if there is no value.
func code(value any) string {
	if value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		// A value from YAML is valid JSON.
		encoded, _ := json.Marshal(value)
		text = string(encoded)
	}
	if text == "" {
		return `""`
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

// typeOf is the type of a field in words.
func typeOf(s schema) string {
	if items := itemsOf(s); items != nil {
		return "list of " + strings.Replace(typeOf(items), "list of", "lists of", 1) + "s"
	}
	if isDuration(s) {
		return "duration"
	}
	if s["x-kubernetes-int-or-string"] == true {
		return "number or string"
	}
	switch s["type"] {
	case "integer", "number":
		return "number"
	case "object":
		if s["additionalProperties"] != nil {
			return "map"
		}
		return "object"
	case nil:
		return "any"
	}
	if s["format"] == "date-time" {
		return "time"
	}
	return fmt.Sprint(s["type"])
}

// isDuration is true for a duration: of the fields that are a number or a string, only
// durations may have 64 characters.
func isDuration(s schema) bool {
	return s["x-kubernetes-int-or-string"] == true && number(s["maxLength"]) == "64"
}

// rangeOf is what values a field may have. Limits of a list or of its elements are
// both in it.
func rangeOf(s schema) string {
	if isDuration(s) {
		return ""
	}
	var limits []string
	if allowed, _ := s["enum"].([]any); len(allowed) > 0 {
		var names []string
		for _, value := range allowed {
			if value != "" {
				names = append(names, code(value))
			}
		}
		limits = append(limits, strings.Join(names, ", "))
	}
	limits = append(limits,
		between(s["minimum"], s["maximum"], ""),
		between(s["minLength"], s["maxLength"], " characters"),
		between(s["minItems"], s["maxItems"], " elements"),
		between(s["minProperties"], s["maxProperties"], " entries"))
	if pattern, _ := s["pattern"].(string); pattern != "" && len(pattern) < 50 {
		limits = append(limits, "matches "+code(pattern))
	}
	for _, each := range []string{"items", "additionalProperties"} {
		if below, ok := s[each].(map[string]any); ok && schema(below).fields() == nil {
			if limit := rangeOf(below); limit != "" {
				limits = append(limits, "each: "+limit)
			}
		}
	}
	var kept []string
	for _, limit := range limits {
		if limit != "" {
			kept = append(kept, limit)
		}
	}
	return strings.Join(kept, "; ")
}

// between is a range from least to most, each nil if there is none.
func between(least, most any, unit string) string {
	low, high := number(least), number(most)
	switch {
	case least != nil && most != nil && !(low == "0" && unit != ""):
		return low + " to " + high + unit
	case most != nil:
		return "at most " + high + unit
	case least != nil && !(low == "0" && unit != ""):
		return low + unit + " or more"
	}
	return ""
}

// number is a number of a schema without an exponent.
func number(value any) string {
	if n, ok := value.(float64); ok {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprint(value)
}
