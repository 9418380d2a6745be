package create

import (
	"strings"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/squall-chaos/squall/cli/manifest"
)

// schema is that of a Disruption's spec.
type schema = apiextensions.JSONSchemaProps

// specSchema reads the schema that the API server judges by.
var specSchema = sync.OnceValues(func() (schema, error) {
	disruption, err := manifest.SchemaOf("Disruption")
	if err != nil {
		return schema{}, err
	}
	return disruption.Properties["spec"], nil
})

// at is the schema of a field such as hosts[0].port below s, false if there is none.
func at(s schema, path string) (schema, bool) {
	for step := range strings.SplitSeq(path, ".") {
		name, index, item := strings.Cut(step, "[")
		next, found := s.Properties[name]
		if !found {
			return schema{}, false
		}
		if s = next; item {
			if s.Items == nil || s.Items.Schema == nil || !strings.HasSuffix(index, "]") {
				return schema{}, false
			}
			s = *s.Items.Schema
		}
	}
	return s, true
}

// sentence is the first of a description.
func sentence(description string) string {
	text := strings.Join(strings.Fields(description), " ")
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}

// leaf is true for a field that one answer fills: a word, a list of words, a map
// of words.
func leaf(s schema) bool {
	switch s.Type {
	case "object":
		return s.AdditionalProperties != nil
	case "array":
		return s.Items == nil || s.Items.Schema == nil || s.Items.Schema.Type != "object"
	}
	return true
}
