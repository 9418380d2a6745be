package test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/squall-chaos/squall/"

// TestImports holds the direction in which parts may know each other. It looks
// at everything a part is linked with, not only at what its files name.
func TestImports(t *testing.T) {
	const (
		temporal          = "go.temporal.io/"
		controllerRuntime = "sigs.k8s.io/controller-runtime"
		clientGo          = "k8s.io/client-go"
	)
	// No package below activities may know the programs, nor the packages beside it
	// that use it.
	below := func(above ...string) []string {
		never := []string{controllerRuntime, module + "worker", module + "crdbridge", module + "injector"}
		for _, name := range above {
			never = append(never, module+"activities/"+name)
		}
		return never
	}
	for _, rule := range []struct {
		part   string
		never  []string
		reason string
	}{
		{"api", []string{temporal, controllerRuntime, clientGo, module + "activities", module + "workflows", module + "worker", module + "crdbridge", module + "injector"},
			"whoever imports the types must not get a controller with them"},
		{"injector", []string{temporal, controllerRuntime, clientGo, module + "activities", module + "workflows"},
			"a program on every node holds no credentials and talks to nobody"},
		{"kube", []string{temporal, controllerRuntime, module + "activities", module + "workflows", module + "worker", module + "crdbridge", module + "injector"},
			"what a pod's state means is the same for the bridge and the worker"},
		{"activities", []string{controllerRuntime, module + "worker", module + "crdbridge", module + "injector"},
			"an activity is one attempt at one effect"},
		{"activities/cluster", below("prepare", "choose", "operate", "inject", "steadystate", "replace", "clean", "verify", "finish"),
			"what all steps share knows no step"},
		{"activities/chaospod", append(below("nodecommand", "targets", "status", "orphans", "replacement"), temporal, module+"workflows"),
			"what a chaos pod is depends on nothing that uses it"},
		{"activities/targets", append(below("nodecommand", "status", "orphans", "replacement"), temporal),
			"who may hold which target is decided from records alone"},
		{"activities/policy", append(below("chaospod", "nodecommand", "targets", "status", "orphans", "replacement", "probe"), temporal, module+"workflows"),
			"what a policy says of a disruption knows nothing of how it is carried out"},
		{"activities/status", append(below("nodecommand", "orphans", "replacement"), temporal),
			"what users see follows from what happened, and decides nothing"},
		{"activities/orphans", below(),
			"what nobody owns is found without what owns it"},
		{"activities/notify", below("nodecommand", "orphans", "replacement", "crons", "probe"),
			"whoever tells people knows nothing of how a disruption is carried out"},
		{"activities/crons", below("chaospod", "nodecommand", "targets", "status", "orphans", "replacement"),
			"a run is begun without a look at what it does"},
		{"activities/nodecommand", append(below("targets", "status", "orphans"), temporal, module+"workflows"),
			"a command on a node knows neither who asks nor why"},
		{"activities/replacement", append(below("nodecommand", "targets", "status", "orphans", "chaospod"), temporal, module+"workflows"),
			"who moves a pod knows neither who asks nor why"},
		{"activities/probe", append(below("chaospod", "nodecommand", "targets", "status", "orphans", "replacement"), temporal, module+"workflows"),
			"who asks a question knows neither why nor what follows from the answer"},
		{"workflows", []string{controllerRuntime, module + "worker", module + "crdbridge", module + "injector"},
			"a workflow decides"},
		{"workflows/steadystate", []string{temporal, controllerRuntime, clientGo, module + "activities", module + "worker", module + "crdbridge"},
			"what answers mean is decided from answers alone"},
		{"workflows/contract", []string{temporal, controllerRuntime, clientGo, module + "activities"},
			"the contract is what others may know, and no more"},
		{"workflows/start", []string{controllerRuntime, clientGo, module + "activities", module + "worker", module + "crdbridge"},
			"who starts a workflow needs nothing of what it does"},
		{"workflows/connect", []string{controllerRuntime, clientGo, module + "activities", module + "worker", module + "crdbridge"},
			"reaching Temporal has nothing to do with the cluster"},
		{"workflows/traces", []string{controllerRuntime, clientGo, module + "activities", module + "worker", module + "crdbridge"},
			"what is told of a workflow needs nothing of what it does"},
		{"worker", []string{controllerRuntime, module + "crdbridge", module + "injector"},
			"the worker polls and runs"},
		{"crdbridge", []string{module + "worker", module + "injector", module + "activities"},
			"the bridge never decides"},
		{"cli", []string{controllerRuntime, "go.opentelemetry.io/", module + "worker", module + "crdbridge", module + "injector"},
			"the command line links neither a controller nor another program"},
		{"cli/plan", []string{temporal, controllerRuntime, module + "worker", module + "crdbridge", module + "injector"},
			"what would be chosen is decided by the worker's own code, and by nothing else of it"},
		{"cli/manifest", []string{temporal, controllerRuntime, clientGo, module + "activities", module + "workflows"},
			"a manifest is judged without a cluster"},
		{"cli/explain", []string{temporal, controllerRuntime, clientGo, module + "activities", module + "workflows"},
			"a manifest is explained without a cluster"},
		{"settings", []string{controllerRuntime, clientGo, module + "activities", module + "worker", module + "crdbridge"},
			"reading settings does nothing else"},
		{"crdbridge/disruption", []string{module + "crdbridge/orphan", module + "crdbridge/emergencystop"},
			"each controller is read without the others"},
		{"crdbridge/cron", []string{module + "crdbridge/disruption", module + "crdbridge/orphan", module + "crdbridge/emergencystop", module + "crdbridge/rollout"},
			"each controller is read without the others"},
		{"crdbridge/rollout", []string{module + "crdbridge/disruption", module + "crdbridge/orphan", module + "crdbridge/emergencystop", module + "crdbridge/cron"},
			"each controller is read without the others"},
		{"crdbridge/orphan", []string{module + "crdbridge/disruption", module + "crdbridge/emergencystop"},
			"each controller is read without the others"},
		{"crdbridge/emergencystop", []string{module + "crdbridge/disruption", module + "crdbridge/orphan", temporal},
			"an emergency stop needs no Temporal"},
		{"crdbridge/podops", []string{module + "crdbridge/disruption", module + "crdbridge/orphan", module + "crdbridge/emergencystop", temporal},
			"a driver of pods serves whoever operates on them, and knows nothing of disruptions"},
	} {
		t.Run(rule.part+": "+rule.reason, func(t *testing.T) {
			for _, dependency := range dependencies(t, rule.part) {
				for _, never := range rule.never {
					if strings.HasPrefix(dependency, never) {
						t.Errorf("%s is linked with %s; see: go list -deps ./%s", rule.part, dependency, rule.part)
					}
				}
			}
		})
	}
}

// TestStepsKnowNoOtherStep keeps the steps of a disruption's lifecycle apart: what two of
// them need is below both, in activities/cluster or in a package of its own.
func TestStepsKnowNoOtherStep(t *testing.T) {
	steps := []string{"prepare", "choose", "operate", "inject", "steadystate", "replace", "report", "clean", "verify", "finish"}
	for _, step := range steps {
		for _, dependency := range dependencies(t, "activities/"+step) {
			if other, ok := strings.CutPrefix(dependency, module+"activities/"); ok && slices.Contains(steps, other) {
				t.Errorf("activities/%s is linked with activities/%s", step, other)
			}
		}
	}
}

// TestImportedOnlyBy bounds which packages may import a part at all: api <- kube
// <- activities/* <- activities <- workflows/* <- workflows <- worker, and only programs
// read settings. A name may be a pattern. TestWorkflowsPointOneWay has the workflows.
func TestImportedOnlyBy(t *testing.T) {
	only := map[string][]string{
		"settings":                {"worker", "crdbridge", "cli/console", "cli/doctor", "cli/preview", "workflows/traces", "settings/settingstest"},
		"activities":              {"workflows/*", "worker"},
		"workflows":               {"worker"},
		"workflows/traces":        {"worker", "crdbridge"},
		"workflows/connect":       {"settings", "worker", "crdbridge", "crdbridge/cron", "crdbridge/rollout", "crdbridge/scenario", "crdbridge/runs", "crdbridge/disruption", "cli/console", "cli/doctor", "cli/story"},
		"cli/check":               {"cli", "cli/create", "cli/preview", "cli/run"},
		"cli/control":             {"cli", "cli/demo"},
		"cli/create":              {"cli"},
		"cli/demo":                {"cli"},
		"cli/doctor":              {"cli"},
		"cli/inspect":             {"cli"},
		"cli/preview":             {"cli"},
		"cli/run":                 {"cli"},
		"crdbridge/disruption":    {"crdbridge"},
		"crdbridge/orphan":        {"crdbridge"},
		"crdbridge/emergencystop": {"crdbridge"},
		"crdbridge/cron":          {"crdbridge"},
		"crdbridge/podops":        {"crdbridge"},
		"crdbridge/rollout":       {"crdbridge"},
		"crdbridge/scenario":      {"crdbridge"},
		"crdbridge/certificate":   {"crdbridge", "crdbridge/oninit", "crdbridge/podops", "crdbridge/requester"},
		"crdbridge/requester":     {"crdbridge"},
		"crdbridge/scope":         {"crdbridge", "crdbridge/oninit", "crdbridge/podops"},
		"crdbridge/runs":          {"crdbridge/cron", "crdbridge/rollout", "crdbridge/scenario"},
		"crdbridge/temporal":      {"crdbridge", "crdbridge/cron", "crdbridge/rollout", "crdbridge/scenario", "crdbridge/runs", "crdbridge/disruption", "crdbridge/orphan", "crdbridge/internal/bridgetest"},
	}
	imports, err := importsOf()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for importer, all := range imports {
		for _, imported := range all {
			by, ruled := only[imported]
			if !ruled || strings.HasPrefix(importer, "test/") {
				continue
			}
			used[imported] = true
			if !slices.ContainsFunc(by, func(pattern string) bool { matches, _ := path.Match(pattern, importer); return matches }) {
				t.Errorf("%s imports %s; only these may: %s", importer, imported, strings.Join(by, ", "))
			}
		}
	}
	for name := range only {
		if !used[name] {
			t.Errorf("nobody imports %s: the rule would prove nothing", name)
		}
	}
}

// importsOf maps each package of the module to what its product files import, without the
// module's name.
var importsOf = sync.OnceValues(func() (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir, cmd.Env = "..", onLinux()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list ./...: %w", err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], module)
		}
		imports[names[0]] = names[1:]
	}
	return imports, nil
})

// linkedWith maps each package of the module to all packages it is linked with.
// One go list takes as long as one of the forty rules would need of its own.
var linkedWith = sync.OnceValues(func() (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	cmd.Dir, cmd.Env = "..", onLinux()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list ./...: %w", err)
	}
	linked := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		linked[strings.TrimPrefix(names[0], module)] = names
	}
	return linked, nil
})

// dependencies are all packages that a folder's packages are linked with.
func dependencies(t *testing.T, folder string) []string {
	t.Helper()
	linked, err := linkedWith()
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]bool{}
	for name, dependencies := range linked {
		if name != folder && (folder == "workflows" || !strings.HasPrefix(name, folder+"/")) {
			continue
		}
		for _, dependency := range dependencies {
			if !strings.HasPrefix(dependency, module+folder) {
				others[dependency] = true
			}
		}
	}
	if len(others) == 0 {
		t.Fatalf("%s is linked with nothing: the rule would prove nothing", folder)
	}
	return slices.Sorted(maps.Keys(others))
}

// onLinux makes go list print the packages of Squall's own system. On another
// one it leaves out the injector.
func onLinux() []string { return append(os.Environ(), "GOOS=linux") }
