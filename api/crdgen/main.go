// Command crdgen finishes the CRDs that controller-gen wrote: it adds rules that no
// marker can express, and the rules of the table of kinds. Then it writes JSON Schemas
// for editors from them. make generate calls it once after each controller-gen.
package main

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// files are the CRDs with the spec of a disruption in them, and its path below spec: the
// same rules hold in every place.
var files = []struct{ name, field string }{
	{"deploy/crds/chaos.squall.dev_disruptions.yaml", ""},
	{"deploy/crds/chaos.squall.dev_disruptioncrons.yaml", "disruptionTemplate"},
	{"deploy/crds/chaos.squall.dev_disruptionrollouts.yaml", "disruptionTemplate"},
}

// The syntax of labels: Kubernetes documentation, Labels and Selectors, Syntax and
// character set.
const (
	labelName  = `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	labelValue = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

// run finishes the CRDs first: the schemas and pages are made from them.
func run() error {
	for _, file := range files {
		if err := finish(file.name, func(crd map[string]any, spec schema) error { return addRules(crd, spec, file.field) }); err != nil {
			return err
		}
	}
	if err := errors.Join(
		finish("deploy/crds/chaos.squall.dev_disruptionscenarios.yaml", unruled),
		finish("deploy/crds/chaos.squall.dev_disruptionpolicies.yaml", addPolicyKinds),
		writeAdmissionLists("deploy/admission.yaml"),
	); err != nil {
		return err
	}
	return errors.Join(editorSchemas("deploy/crds", "deploy/schemas"), writeReference("deploy/crds", reference), writeMarks(".", marksReference))
}

// finish has a CRD and the schema of its spec changed, and writes it.
func finish(file string, change func(crd map[string]any, spec schema) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	spec, err := specOf(crd)
	if err == nil {
		err = change(crd, spec)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if text, err = yaml.Marshal(crd); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), text...), 0o644)
}

// addRules adds the rules on the spec of a disruption, which is below field of spec.
func addRules(crd map[string]any, spec schema, field string) error {
	boundNumbers(crd)
	if field != "" {
		if spec = spec.property(field); spec == nil {
			return fmt.Errorf("no %s where the spec of a disruption should be", field)
		}
	}
	spec.property("selector").boundLabels()
	boundProbes(spec.property("steadyState"))
	// The requirements of a selector have no field of ours either: the type is the API
	// machinery's.
	requirement := schema(spec.property("advancedSelector")["items"].(map[string]any))
	requirement.property("key")["maxLength"], requirement.property("key")["pattern"] = 317, labelName
	value := requirement.property("values")["items"].(map[string]any)
	value["maxLength"], value["pattern"] = 63, labelValue
	for _, kind := range v1beta1.KindTable() {
		if err := boundSize(spec.property(kind.Field)); err != nil {
			return fmt.Errorf("the size of %s: %w", kind.Field, err)
		}
	}
	spec["x-kubernetes-validations"] = rulesOf(spec)
	return nil
}

// boundLabels bounds the values of a selector: the values of a map have no field that
// could carry a marker.
func (s schema) boundLabels() {
	values := s["additionalProperties"].(map[string]any)
	values["maxLength"], values["pattern"] = 63, labelValue
}

// boundProbes bounds the fields of probes that no marker can bound: selectors, and fields
// that take a number or a text. Without bounds, rules on many of them cost the API server
// too much.
func boundProbes(steadyState schema) {
	probe := itemsOf(steadyState.property("probes"))
	probe.property("podsReady").property("selector").boundLabels()
	for _, either := range []schema{
		probe.property("httpGet").property("port"), probe.property("tcpSocket").property("port"), probe.property("podsReady").property("min"),
	} {
		either["maxLength"] = 63
	}
}

// rulesOf are the rules on spec: those about kinds, those of the markers, and
// those that refuse what lasts too long.
func rulesOf(spec schema) []any {
	var rules []any
	for _, c := range v1beta1.Combinations() {
		rules = append(rules, combination(c))
	}
	rules = append(rules, spec.rules()...)
	return append(rules, tooLong(), repeatsNothing())
}

// specOf finds the schema of spec in the CRD's only version.
func specOf(crd map[string]any) (schema, error) {
	var object any = crd
	for _, key := range []string{"spec", "versions", "schema", "openAPIV3Schema", "properties", "spec"} {
		if list, ok := object.([]any); ok && len(list) == 1 {
			object = list[0]
		}
		parent, ok := object.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("no %s where the schema of spec should be", key)
		}
		object = parent[key]
	}
	spec, ok := object.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("spec has no schema")
	}
	return spec, nil
}
