package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	openapi "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/deploy"
)

// judgeSchema returns one sentence for each violation of the schema of kind's
// CustomResourceDefinition. It does not evaluate CEL rules.
func judgeSchema(kind string, document []byte) []string {
	var content any
	schema, err := validatable(kind)
	if err = errors.Join(err, yaml.Unmarshal(document, &content)); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for _, err := range validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(content).Errors {
		if violation, ok := errors.AsType[*openapi.Validation](err); ok {
			problems = append(problems, sentence(violation, content))
		}
	}
	return problems
}

// SchemaOf returns the schema of kind's CustomResourceDefinition, by which the API server judges.
func SchemaOf(kind string) (*apiextensions.JSONSchemaProps, error) {
	text, err := deploy.CRD(kind)
	if err != nil {
		return nil, err
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, fmt.Errorf("read the CustomResourceDefinition of %s: %w", kind, err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema, nil
}

// validatable returns SchemaOf in the form that the validator takes.
func validatable(kind string) (*spec.Schema, error) {
	props, err := SchemaOf(kind)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(props)
	if err != nil {
		return nil, err
	}
	schema := &spec.Schema{}
	if err := json.Unmarshal(data, schema); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	return schema, nil
}

// sentence describes a violation by its field, its value in content and what is allowed.
func sentence(v *openapi.Validation, content any) string {
	name := strings.TrimPrefix(v.Name, ".")
	text := strings.TrimPrefix(v.Error(), v.Name)
	text = strings.TrimPrefix(text, " in "+v.In)
	if v.Code() == openapi.InvalidTypeCode {
		wanted, _, _ := strings.Cut(strings.TrimPrefix(text, " must be of type "), ":")
		value := valueAt(content, name)
		shown, err := json.Marshal(value)
		if err != nil {
			shown = fmt.Append(nil, value)
		}
		return fmt.Sprintf("%s: want the type %s, found %s%s", name, wanted, shown, withoutUnit(wanted, value))
	}
	if v.Value == nil || v.Code() == openapi.RequiredFailCode {
		return name + ":" + text
	}
	return fmt.Sprintf("%s: %s%s", name, strconv.Quote(fmt.Sprint(v.Value)), text)
}

// withoutUnit suggests the number of a text such as 200ms or 40% where a number is wanted.
func withoutUnit(wanted string, value any) string {
	text, isText := value.(string)
	number, err := strconv.Atoi(strings.TrimSpace(strings.TrimRight(text, "%ms")))
	if wanted != "integer" || !isText || err != nil {
		return ""
	}
	return fmt.Sprintf("; write %d", number)
}

// valueAt returns the value of a path such as spec.rules[0].kinds, nil if there is none.
func valueAt(content any, path string) any {
	for step := range strings.FieldsFuncSeq(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch inside := content.(type) {
		case map[string]any:
			content = inside[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(inside) {
				return nil
			}
			content = inside[i]
		default:
			return nil
		}
	}
	return content
}
