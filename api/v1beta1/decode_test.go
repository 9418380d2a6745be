package v1beta1

import (
	"strings"
	"testing"
	"time"
)

const sample = `apiVersion: chaos.squall.dev/v1beta1
kind: Disruption
metadata: {name: sample}
spec: {count: 1, selector: {app: shop}, podReplacement: {}}
`

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, text string
		refused    string // empty: accepted
	}{
		{"YAML", sample, ""},
		{"JSON", `{"apiVersion": "chaos.squall.dev/v1beta1", "kind": "Disruption", "metadata": {"name": "sample"}, "spec": {"count": 1}}`, ""},
		{"a document after a comment", "# nothing here\n---\n" + sample, ""},
		{"a comment after a document", sample + "---\n# nothing here\n", ""},
		{"two documents", sample + "---\n" + sample, "more than one document"},
		{"nothing", "", "change kind or apiVersion"},
		{"another kind", strings.Replace(sample, "Disruption", "Pod", 1), "change kind or apiVersion"},
		{"another group", strings.Replace(sample, "squall.dev", "example.com", 1), "want a \"Disruption\" of \"chaos.squall.dev/v1beta1\""},
		{"a key twice", sample + "spec: {}\n", "spec"},
		{"an unknown field", strings.Replace(sample, "count", "cuont", 1), "cuont"},
		{"a field in another case", strings.Replace(sample, "selector", "Selector", 1), "Selector"},
		{"no YAML", "\t", "read the manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Decode([]byte(c.text))
			if c.refused == "" && (err != nil || d.Name != "sample") {
				t.Errorf("Decode = %v, %v, want the sample", d, err)
			}
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("Decode = %v, want an error with %q", err, c.refused)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	d, err := Decode([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		d.Default()
		if d.Spec.Level != LevelPod || d.Spec.Duration.Duration != time.Hour || !*d.Spec.PodReplacement.DeleteStorage {
			t.Errorf("Default made level %q, duration %s, deleteStorage %t of it, want pod, 1h, true",
				d.Spec.Level, d.Spec.Duration, *d.Spec.PodReplacement.DeleteStorage)
		}
	}
	no := false
	d.Spec.PodReplacement.DeleteStorage, d.Spec.Level = &no, LevelNode
	d.Default()
	if d.Spec.Level != LevelNode || *d.Spec.PodReplacement.DeleteStorage {
		t.Error("Default changed what was set")
	}
}
