// Package settingstest keeps docs/settings.md and the settings of the chart current.
package settingstest

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/settings"
)

var update = flag.Bool("update-settings", false, "write docs/settings.md")

// Page compares the sections of a program's own and of the common settings with the page. A
// section begins with the comment <!-- NAME --> and ends with <!-- end -->; the section of
// the common ones is called common. page is the path of docs/settings.md.
func Page(t *testing.T, page string, p settings.Program) {
	t.Helper()
	own, common := p.Lists()
	for name, want := range map[string]string{p.Name: own, "common": common} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "<!-- "+name+" -->\n\n", "\n<!-- end -->"
		before, rest, found := strings.Cut(string(text), begin)
		got, after, closed := strings.Cut(rest, end)
		switch {
		case !found || !closed:
			t.Fatalf("%s has no section between %q and %q", page, begin, end)
		case *update:
			if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
		case got != want:
			t.Errorf("%s is out of date (go test ./%s -run TestSettingsPage -update-settings) (-want +got):\n%s", page, p.Name, cmp.Diff(want, got))
		}
	}
}

// Schema wants the schema of the chart's values to know each setting of a program by its
// name in the environment, with its type. file is the path of values.schema.json.
func Schema(t *testing.T, file string, p settings.Program) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Settings struct {
				Properties map[string]struct {
					Type string `json:"$ref"`
				}
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{"bool": "boolean", "int": "integer", "float64": "number", "duration": "duration"}
	p.Visit(func(f *pflag.Flag) {
		want := types[f.Value.Type()]
		if want == "" {
			want = "string"
		}
		name := settings.Variable(f.Name)
		if got := schema.Properties.Settings.Properties[name].Type; f.Name != "config" && got != "#/$defs/"+want {
			t.Errorf("%s: the setting %s has the type %q, want %q", file, name, got, "#/$defs/"+want)
		}
	})
}
