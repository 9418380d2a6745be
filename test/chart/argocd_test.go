package chart

import (
	"regexp"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// The health script of docs/events.md judges a Disruption as Argo CD needs it. Argo CD
// runs such scripts with this interpreter.
func TestArgoCDHealth(t *testing.T) {
	found := regexp.MustCompile(`(?m)health\.chaos\.squall\.dev_Disruption: \|\n((?:    .*\n)+)`).FindSubmatch(read(t, "../../docs/events.md"))
	if found == nil {
		t.Fatal("docs/events.md has no health script")
	}
	for _, test := range []struct{ name, object, want string }{
		{"without a status", `{}`, "Progressing"},
		{"without conditions", `{status = {}}`, "Progressing"},
		{"injecting", `{status = {conditions = {{type = "Ready", status = "False", message = "m"}, {type = "Stalled", status = "False"}}}}`, "Progressing"},
		{"injected", `{status = {conditions = {{type = "Ready", status = "True", message = "m"}}}}`, "Healthy"},
		{"stuck", `{status = {conditions = {{type = "Ready", status = "False"}, {type = "Stalled", status = "True", message = "m"}}}}`, "Degraded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := lua.NewState()
			defer state.Close()
			script := "obj = " + test.object + "\n" + strings.ReplaceAll(string(found[1]), "\n    ", "\n")
			if err := state.DoString(script); err != nil {
				t.Fatal(err)
			}
			health, isTable := state.Get(-1).(*lua.LTable)
			if !isTable || health.RawGetString("status").String() != test.want {
				t.Errorf("health = %v, want %s", state.Get(-1), test.want)
			}
		})
	}
}
