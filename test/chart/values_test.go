package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

var update = flag.Bool("update", false, "write deploy/chart/README.md and deploy/testdata/chart.yaml")

// Sections of README.md between these lines are written by the test.
const begin, end = "<!-- values -->\n\n", "\n<!-- end -->"

// The README of the chart lists every value with its default and its comment.
func TestReadmeListsTheValues(t *testing.T) {
	const readme = deploy + "/chart/README.md"
	var rows strings.Builder
	rows.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range documented(t) {
		_, _ = fmt.Fprintf(&rows, "| `%s` | `%s` | %s |\n", v.path, v.fallback, strings.ReplaceAll(v.comment, "|", "\\|"))
	}
	text := string(read(t, readme))
	before, rest, found := strings.Cut(text, begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no section between %q and %q", readme, begin, end)
	}
	if *update {
		write(t, readme, before+begin+rows.String()+end+after)
	} else if diff := cmp.Diff(rows.String(), got); diff != "" {
		t.Errorf("%s is out of date (go test ./test/chart -run TestReadme -update) (-want +got):\n%s", readme, diff)
	}
}

// value is one value of the chart.
type value struct{ path, fallback, comment string }

// documented are the values of values.yaml in their order, without those that only
// contain others.
func documented(t *testing.T) []value {
	t.Helper()
	var file yaml.Node
	if err := yaml.Unmarshal(read(t, deploy+"/chart/values.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var all []value
	var walk func(path string, node *yaml.Node)
	walk = func(path string, node *yaml.Node) {
		for i := 0; i < len(node.Content); i += 2 {
			key, inner := node.Content[i], node.Content[i+1]
			v := value{path: strings.TrimPrefix(path+"."+key.Value, "."), comment: strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "#", "")), " ")}
			if inner.Kind == yaml.MappingNode && inner.Style != yaml.FlowStyle {
				walk(v.path, inner)
				continue
			}
			if v.comment == "" {
				t.Errorf("values.yaml has no comment before %s", v.path)
			}
			flow, err := flowed(inner)
			if err != nil {
				t.Fatal(err)
			}
			v.fallback = flow
			all = append(all, v)
		}
	}
	walk("", file.Content[0])
	return all
}

// flowed is a value on one line.
func flowed(node *yaml.Node) (string, error) {
	var plain any
	if err := node.Decode(&plain); err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(plain)
	return strings.TrimSpace(out.String()), err
}

// The schema has the values of values.yaml and no others.
func TestSchemaHasTheValues(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(read(t, deploy+"/chart/values.schema.json"), &root); err != nil {
		t.Fatal(err)
	}
	defs := root["$defs"].(map[string]any)
	var same func(path string, schema, have map[string]any)
	same = func(path string, schema, have map[string]any) {
		if ref, found := schema["$ref"].(string); found {
			schema = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		properties, found := schema["properties"].(map[string]any)
		if !found || path == ".settings" {
			return
		}
		if schema["additionalProperties"] != false {
			t.Errorf("the schema accepts unknown names in %s", path)
		}
		delete(properties, "global") // Helm's own
		for name := range have {
			if properties[name] == nil {
				t.Errorf("the schema does not know %s.%s", path, name)
			}
		}
		for name, property := range properties {
			inner, found := have[name]
			if !found {
				t.Errorf("values.yaml has no %s.%s", path, name)
			}
			if more, isMap := inner.(map[string]any); isMap {
				same(path+"."+name, property.(map[string]any), more)
			}
		}
	}
	same("", root, load(t).Values)
}

// The schema knows the settings of docs/settings.md and no others. The tests of the
// programs keep that page complete, and the types.
func TestSchemaHasTheSettings(t *testing.T) {
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(read(t, deploy+"/chart/values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, setting := range regexp.MustCompile("(?m)^- `([a-z0-9-]+)`").FindAllSubmatch(read(t, "../../docs/settings.md"), -1) {
		if name := string(setting[1]); name != "config" {
			want = append(want, "SQUALL_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		}
	}
	for name := range schema.Properties.Settings.Properties {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("settings (-docs/settings.md +values.schema.json):\n%s", diff)
	}
}

// helm lint has nothing to warn of.
func TestLint(t *testing.T) {
	examples, err := filepath.Glob(deploy + "/chart/ci/*-values.yaml")
	if err != nil || len(examples) < 2 {
		t.Fatalf("%d files in ci, %v: this would prove little", len(examples), err)
	}
	for _, example := range examples {
		found := lint.AllWithKubeVersion(deploy+"/chart", valuesOf(t, example), "squall-system", nil)
		for _, message := range found.Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %s", filepath.Base(example), message)
			}
		}
	}
}

// The chart with every value set renders as deploy/testdata/chart.yaml has it. The
// tests in deploy apply that file to a real API server.
func TestEveryValue(t *testing.T) {
	const golden = deploy + "/testdata/chart.yaml"
	values := valuesOf(t, deploy+"/chart/ci/everything-values.yaml")
	for _, v := range documented(t) {
		if !has(values, strings.Split(v.path, ".")) {
			t.Errorf("ci/everything-values.yaml does not set %s", v.path)
		}
	}
	got := rendersAs(t, load(t), values)
	if *update {
		write(t, golden, got)
	} else if diff := cmp.Diff(string(read(t, golden)), got); diff != "" {
		t.Errorf("%s is out of date (go test ./test/chart -run TestEveryValue -update) (-want +got):\n%s", golden, diff)
	}
}

// rendersAs are the objects that values can change, without those of other projects.
func rendersAs(t *testing.T, c *chart.Chart, values map[string]any) string {
	t.Helper()
	all, err := helm(c, values)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"ConfigMap", "Deployment", "StatefulSet", "Pod", "NetworkPolicy", "ServiceAccount", "Namespace",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	var keys []string
	for key := range all {
		if kind, _, _ := strings.Cut(key, "/"); slices.Contains(kinds, kind) && key != "ConfigMap/squall-system/squall-dashboard" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var out strings.Builder
	out.WriteString("# The chart with the values of ci/everything-values.yaml; go test ./test/chart -update writes it.\n")
	for i, key := range keys {
		text, err := yaml.Marshal(all[key])
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.String()
}

func has(values map[string]any, path []string) bool {
	inner, found := values[path[0]]
	if !found || len(path) == 1 {
		return found
	}
	more, isMap := inner.(map[string]any)
	return isMap && has(more, path[1:])
}

func valuesOf(t *testing.T, file string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal(read(t, file), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
