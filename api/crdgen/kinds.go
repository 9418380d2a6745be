package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// addPolicyKinds lists both names of each fault as the kinds that a rule of a
// DisruptionPolicy may name.
func addPolicyKinds(_ map[string]any, spec schema) error {
	kinds := itemsOf(itemsOf(spec.property("rules")).property("kinds"))
	if kinds == nil {
		return errors.New("no kinds where a rule should have them")
	}
	var names []any
	for _, row := range v1beta1.KindTable() {
		names = append(names, row.Field)
	}
	for _, row := range v1beta1.KindTable() {
		names = append(names, string(row.Kind))
	}
	kinds["enum"] = names
	return nil
}

// The lines around the variables in the admission policies that list all faults.
const (
	listsBegin = "  # make generate writes these variables from api/v1beta1/kinds.go.\n"
	listsEnd   = "  # End of these variables.\n"
)

// writeAdmissionLists writes the variables of an admission policy that list all faults.
func writeAdmissionLists(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begun := bytes.Cut(text, []byte(listsBegin))
	_, after, ended := bytes.Cut(rest, []byte(listsEnd))
	if !begun || !ended {
		return fmt.Errorf("%s: it needs the lines %q and %q, in this order", file, listsBegin, listsEnd)
	}
	lists := listsBegin + admissionLists(v1beta1.KindTable()) + listsEnd
	return os.WriteFile(file, bytes.Join([][]byte{before, []byte(lists), after}, nil), 0o644)
}

// admissionLists are the variables: "asked" has the level and kinds of each spec, "kinds"
// each kind once per level, and "fields" the field of each kind.
func admissionLists(rows []v1beta1.KindRow) string {
	var asked, names, fields []string
	for _, row := range rows {
		asked = append(asked, fmt.Sprintf("\n      + (has(s.%s) && s.%[1]s != null ? ['%s'] : [])", row.Field, row.Kind))
		names = append(names, "'"+string(row.Kind)+"'")
		fields = append(fields, fmt.Sprintf("'%s': '%s'", row.Kind, row.Field))
	}
	at := func(level string) string {
		return fmt.Sprintf("'%s': [%s]\n      .filter(k, variables.asked.exists(step, step.exists(s, s[0] == '%[1]s' && k in s)))", level, wrapped(names))
	}
	return `  - name: asked # of each spec its level and its kinds
    expression: >-
      variables.specs.map(step, step.map(s, [has(s.level) && s.level == 'node' ? 'node' : 'pod']` + strings.Join(asked, "") + `))
  - name: kinds # at each level, each once: 256 specs times the rules of a policy would exceed the cost limit of a policy
    expression: >-
      {` + at("pod") + `,
      ` + at("node") + `}
  - name: fields # a rule may name a fault by its kind or by its field
    expression: >-
      {` + wrapped(fields) + `}
`
}

// wrapped joins parts by commas, some on each line.
func wrapped(parts []string) string {
	const perLine = 5
	var text strings.Builder
	for i, part := range parts {
		switch {
		case i == 0:
		case i%perLine == 0:
			text.WriteString(",\n      ")
		default:
			text.WriteString(", ")
		}
		text.WriteString(part)
	}
	return text.String()
}
