package crdtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Of a rule on a value the API server shows the type, not the value: the
// sentence has to name it. A rule on an object is about fields being there.
func TestEveryRefusalOfAValueNamesIt(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	rules := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		rules += namesValues(t, filepath.Base(file), crd)
	}
	if rules == 0 {
		t.Error("the CRDs have no rule on a value")
	}
}

// namesValues looks at every schema below node and counts the rules on values.
func namesValues(t *testing.T, path string, node any) (rules int) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			rules += namesValues(t, path, item)
		}
	case map[string]any:
		list, _ := n["x-kubernetes-validations"].([]any)
		for _, item := range list {
			rule := item.(map[string]any)
			if n["type"] == "object" && n["properties"] != nil {
				continue
			}
			rules++
			// The names of a step's disruptions would cost more than the budget of the whole schema.
			if rule["messageExpression"] == nil && rule["message"] != v1beta1.OverlapMessage {
				t.Errorf("%s: the refusal %q does not say what the value was: give the rule a messageExpression", path, rule["message"])
			}
		}
		for key, value := range n {
			rules += namesValues(t, path+"."+key, value)
		}
	}
	return rules
}

// The help of kubectl explain is the comments of the types. Its readers have no list of
// our rules.
func TestHelpCitesNoRule(t *testing.T) {
	files, err := filepath.Glob("../../deploy/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	cited := regexp.MustCompile(`\((rules?|acceptance)\s+[0-9PTIL][^)]*\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, citation := range cited.FindAll(text, -1) {
			t.Errorf("%s cites %s: take it out of the type's comment", filepath.Base(file), citation)
		}
	}
}
