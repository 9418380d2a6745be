package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// reference is the page that lists every field of every object.
const reference = "docs/reference/api.md"

// objects are the objects of the page, in its order.
var objects = []string{"disruptions", "disruptioncrons", "disruptionrollouts", "disruptionscenarios", "disruptionpolicies", "emergencystops"}

// aDefault is the sentence of a description that has the default.
var aDefault = regexp.MustCompile(` Default ([^:,]+?)\.( |$)`)

// largeObject is how many fields an object of a spec has, with those below it, that
// has a section of its own.
const largeObject = 4

const referenceHead = `# API fields

This page lists every field of the API ` + "`chaos.squall.dev/v1beta1`" + `. [API](../api.md) explains how the fields
work together. On a cluster with Squall, ` + "`kubectl explain disruption.spec`" + ` shows the same texts.

` + "`make generate`" + ` writes this page from the Go types. In a name, ` + "`[]`" + ` stands for each
element of a list, and ` + "`.*`" + ` for each key of a map. A duration is a number with a unit, such as ` + "`90s` or `1h30m`" + `.
`

// writeReference writes the page from the CRDs in a directory.
func writeReference(crds, page string) error {
	text, err := referencePage(crds)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		return err
	}
	return os.WriteFile(page, text, 0o644)
}

// referencePage returns the page for the CRDs in a directory.
func referencePage(crds string) ([]byte, error) {
	var page bytes.Buffer
	page.WriteString(referenceHead)
	for _, plural := range objects {
		crd, err := readCRD(filepath.Join(crds, "chaos.squall.dev_"+plural+".yaml"))
		if err != nil {
			return nil, err
		}
		crd.write(&page)
	}
	return page.Bytes(), nil
}

// crd is what the page and the schemas for editors need of a CRD.
type crd struct {
	group, version, kind, scope string
	shortNames                  []string
	columns                     []column
	object                      schema
}

// column is one column of kubectl get.
type column struct {
	Name, Description, JSONPath string
	Priority                    int
}

func readCRD(file string) (crd, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return crd{}, err
	}
	read, err := parseCRD(text)
	if err != nil {
		return crd{}, fmt.Errorf("%s: %w", file, err)
	}
	return read, nil
}

func parseCRD(text []byte) (crd, error) {
	var parsed struct {
		Spec struct {
			Group, Scope string
			Names        struct {
				Kind       string
				ShortNames []string
			}
			Versions []struct {
				Name                     string
				AdditionalPrinterColumns []column
				Schema                   struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return crd{}, err
	}
	if len(parsed.Spec.Versions) != 1 {
		return crd{}, fmt.Errorf("%d versions, want one", len(parsed.Spec.Versions))
	}
	names, version := parsed.Spec.Names, parsed.Spec.Versions[0]
	return crd{parsed.Spec.Group, version.Name, names.Kind, parsed.Spec.Scope, names.ShortNames, version.AdditionalPrinterColumns, version.Schema.OpenAPIV3Schema}, nil
}

// write adds the sections of an object: what it is, its spec, its status and its
// columns. A template of Disruptions is a link to the sections of their spec.
func (c crd) write(page *bytes.Buffer) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n\nScope: %s. Short name: `%s`.\n", c.kind, paragraph(c.object["description"]), strings.ToLower(c.scope), strings.Join(c.shortNames, "`, `"))
	for _, part := range []string{"spec", "status"} {
		s := c.object.property(part)
		if s == nil {
			continue
		}
		for _, section := range sectionsOf(c.kind, part, s) {
			section.write(page)
		}
	}
	fmt.Fprintf(page, "\n### %s: columns\n\n| column of `kubectl get` | field | meaning |\n|---|---|---|\n", c.kind)
	for _, column := range c.columns {
		wide := ""
		if column.Priority > 0 {
			wide = " (with `-o wide`)"
		}
		fmt.Fprintf(page, "| `%s`%s | %s | %s |\n", strings.ToUpper(column.Name), wide, code(column.JSONPath), plain(column.Description))
	}
}

// section is a table of fields under a heading.
type section struct {
	heading, description string
	rows                 []string
}

func (s section) write(page *bytes.Buffer) {
	fmt.Fprintf(page, "\n### %s\n\n", s.heading)
	if s.description != "" {
		fmt.Fprintf(page, "%s\n\n", s.description)
	}
	page.WriteString("| field | type | default | range | meaning |\n|---|---|---|---|---|\n")
	for _, row := range s.rows {
		page.WriteString(row)
	}
}

// sectionsOf are the section of an object's part and those of its large objects.
func sectionsOf(kind, part string, s schema) []section {
	own := section{heading: kind + ": " + part, description: paragraph(s["description"])}
	var others []section
	required := requiredOf(s)
	for _, name := range s.fields() {
		field := s.property(name)
		below := field.element()
		if part == "spec" && !isTemplate(below) && below.count() >= largeObject {
			heading := kind + ": " + name
			own.rows = append(own.rows, row(name, field, required[name], "See ["+heading+"](#"+strings.ToLower(kind+"-"+name)+")."))
			prefix := ""
			if itemsOf(field) != nil {
				prefix = "[]."
			}
			others = append(others, section{heading, paragraph(field["description"]), rowsOf(prefix, below)})
			continue
		}
		own.rows = append(own.rows, rowsOfField(name, field, required[name])...)
	}
	return append([]section{own}, others...)
}

// rowsOf are the rows of an object's fields, whose names begin with prefix.
func rowsOf(prefix string, s schema) []string {
	var rows []string
	required := requiredOf(s)
	for _, name := range s.fields() {
		rows = append(rows, rowsOfField(prefix+name, s.property(name), required[name])...)
	}
	return rows
}

// rowsOfField are the rows of a field and of all below it.
func rowsOfField(path string, s schema, required bool) []string {
	if isTemplate(s) {
		return []string{row(path, s, required, plain(s["description"])+" Fields: [Disruption: spec](#disruption-spec).")}
	}
	rows := []string{row(path, s, required, plain(s["description"]))}
	for {
		items := itemsOf(s)
		values, _ := s["additionalProperties"].(map[string]any)
		switch {
		case items != nil:
			path, s = path+"[]", items
		case values != nil:
			path, s = path+".*", values
		default:
			return append(rows, rowsOf(path+".", s)...)
		}
	}
}

// row is the row of one field. A default in a description has its own column, as has
// the word Required.
func row(path string, s schema, required bool, meaning string) string {
	meaning = strings.Replace(meaning, " Required.", "", 1)
	standard := code(s["default"])
	if found := aDefault.FindStringSubmatch(meaning); found != nil {
		meaning = strings.Replace(meaning, found[0], found[2], 1)
		if standard == "" {
			standard = found[1]
			if !strings.Contains(standard, " ") {
				standard = code(found[1])
			}
		}
	}
	if required {
		standard = "required"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", path, typeOf(s), standard, rangeOf(s), meaning)
}

// isTemplate is true for the spec of a Disruption.
func isTemplate(s schema) bool {
	return s.property("advancedSelector") != nil && s.property("triggers") != nil
}

// fields are the names of an object's fields, in order.
func (s schema) fields() []string {
	properties, _ := s["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// element is what a list has; of anything else it is the same.
func (s schema) element() schema {
	if items := itemsOf(s); items != nil {
		return items
	}
	return s
}

// count is how many fields an object has, with those of objects below it.
func (s schema) count() int {
	n := 0
	for _, name := range s.fields() {
		n += 1 + s.property(name).element().count()
	}
	return n
}

func requiredOf(s schema) map[string]bool {
	required := map[string]bool{}
	names, _ := s["required"].([]any)
	for _, name := range names {
		required[fmt.Sprint(name)] = true
	}
	return required
}
