package chart

import (
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The samples have no error in an editor that checks them by the schemas, and a field
// that is misspelled has one.
func TestSamplesFitTheSchemas(t *testing.T) {
	samples, err := filepath.Glob(deploy + "/samples/*.yaml")
	if err != nil || len(samples) < 15 {
		t.Fatalf("%d samples, %v: this would prove little", len(samples), err)
	}
	schemas := map[string]*jsonschema.Schema{}
	for kind, name := range map[string]string{
		"Disruption": "disruption", "DisruptionCron": "disruptioncron", "DisruptionRollout": "disruptionrollout",
		"DisruptionScenario": "disruptionscenario", "EmergencyStop": "emergencystop",
	} {
		if schemas[kind], err = jsonschema.NewCompiler().Compile(deploy + "/schemas/" + name + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	for _, sample := range samples {
		object := objects{}
		if err := object.add(read(t, sample)); err != nil {
			t.Fatal(err)
		}
		for key, o := range object {
			schema := schemas[o["kind"].(string)]
			if err := schema.Validate(o); err != nil {
				t.Errorf("%s: %s: %v", sample, key, err)
			}
			o["spec"].(map[string]any)["selektor"] = map[string]any{}
			if err := schema.Validate(o); err == nil {
				t.Errorf("%s: %s with spec.selektor has no error", sample, key)
			}
		}
	}
}
