package campaign

import (
	"fmt"
	"os"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// field is a field of the spec that holds a value and no fields of its own. Its path
// reads like network.hosts[].port; a map is like a list.
type field struct {
	path   string
	schema apiextensions.JSONSchemaProps
}

// fieldsOf lists the fields of the spec in a CRD, in the order of their paths.
func fieldsOf(file string) ([]field, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var fields []field
	walk(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], "", &fields)
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.path, b.path) })
	return fields, nil
}

func walk(schema apiextensions.JSONSchemaProps, path string, fields *[]field) {
	switch {
	case len(schema.Properties) > 0:
		for name, below := range schema.Properties {
			walk(below, strings.TrimPrefix(path+"."+name, "."), fields)
		}
	case schema.Type == "array":
		walk(*schema.Items.Schema, path+"[]", fields)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		walk(*schema.AdditionalProperties.Schema, path+"[]", fields)
	default:
		*fields = append(*fields, field{path, schema})
	}
}

// values to try: of the field's type, at its bounds and beyond them, and of no type
// that it could have.
func (f field) values() []any {
	wrong := map[string]any{"is": "no value"}
	switch {
	case f.schema.XIntOrString:
		return []any{int64(1), "1", "50%", "100%", "3s", "1500ms", int64(0), int64(-1), "0%", "101%", "-3s", "3", "a few", "", wrong}
	case f.schema.Type == "boolean":
		return []any{true, false, "perhaps"}
	case f.schema.Type == "integer":
		values := []any{int64(2), int64(0), int64(-1), int64(1) << 62, "many", wrong}
		if least := f.schema.Minimum; least != nil {
			values = append(values, int64(*least), int64(*least)-1)
		}
		if most := f.schema.Maximum; most != nil {
			values = append(values, int64(*most), int64(*most)+1)
		}
		return values
	case len(f.schema.Enum) > 0:
		values := []any{"NoSuchValue", "", int64(3), wrong}
		for _, member := range f.schema.Enum {
			values = append(values, strings.Trim(string(member.Raw), `"`))
		}
		return values
	case f.schema.Format == "date-time":
		return []any{"2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "tomorrow", int64(1), wrong}
	default:
		return []any{"a", "", "no good\n", "../../etc", "ünüblich", strings.Repeat("long", 2000), int64(1), wrong}
	}
}

// set puts a value where the path leads, in every item of each list on the way, and
// is false where the way is not there. The last part of a path may be new.
func set(object map[string]any, path string, value any) bool {
	name, rest, below := strings.Cut(path, ".")
	name, many := strings.CutSuffix(name, "[]")
	if !below && !many {
		object[name] = value
		return true
	}
	switch items := object[name].(type) {
	case []any:
		done := false
		for i := range items {
			if !below {
				items[i], done = value, true
			} else if item, ok := items[i].(map[string]any); ok {
				done = set(item, rest, value) || done
			}
		}
		return done
	case map[string]any:
		if many { // a map
			for key := range items {
				items[key] = value
			}
			return len(items) > 0
		}
		return set(items, rest, value)
	}
	return false
}

// has is true where there is a value at the path.
func has(object map[string]any, path string) bool {
	name, rest, below := strings.Cut(path, ".")
	value, there := object[strings.TrimSuffix(name, "[]")]
	if !there || !below {
		return there
	}
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, func(item any) bool {
			below, ok := item.(map[string]any)
			return ok && has(below, rest)
		})
	case map[string]any:
		return has(value, rest)
	}
	return false
}
