//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// parts are the parts of kinds, each with the kinds that have it.
type parts struct {
	rows     []v1beta1.KindRow
	registry map[v1beta1.Kind]entry
	// lifecycles are the sample parameters of the test that every kind passes.
	lifecycles []v1beta1.Kind
	// crashes are the kinds of the crash matrix, nodeCrashes those at node level.
	crashes, nodeCrashes []v1beta1.Kind
	pages, samples       []v1beta1.Kind
}

// noKinds are the names in these folders that belong to no kind.
var noKinds = []v1beta1.Kind{"README", "disruption-cron", "disruption-rollout", "disruption-scenario", "emergency-stop", "game-day", "pod-operations", "steady-state"}

// realParts returns the parts of the product.
func realParts(t *testing.T) parts {
	p := parts{
		rows: v1beta1.KindTable(), registry: registry,
		lifecycles: slices.Sorted(maps.Keys(sampleParams)),
		pages:      kindsNamed(t, "../docs/kinds/*.md"),
		samples:    kindsNamed(t, "../deploy/samples/*.yaml"),
	}
	for _, w := range allWorkloads {
		if w.level == v1beta1.LevelNode {
			p.nodeCrashes = append(p.nodeCrashes, w.kind)
		} else {
			p.crashes = append(p.crashes, w.kind)
		}
	}
	return p
}

func kindsNamed(t *testing.T, pattern string) []v1beta1.Kind {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []v1beta1.Kind
	for _, file := range files {
		kind := v1beta1.Kind(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
		if !slices.Contains(noKinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// gaps names every incomplete kind: the parts that exist without the others.
func (p parts) gaps(t *testing.T) []string {
	t.Helper()
	var gaps []string
	missing := func(kind v1beta1.Kind, found bool, what string) {
		if !found {
			gaps = append(gaps, fmt.Sprintf("kind %s is half there: %s", kind, what))
		}
	}
	var supported, injected []v1beta1.Kind
	for _, row := range p.rows {
		supported = append(supported, row.Kind)
		missing(row.Kind, slices.Contains(p.pages, row.Kind), "docs/kinds has no page of it")
		missing(row.Kind, slices.Contains(p.samples, row.Kind), "deploy/samples has no sample of it")
		if row.By != v1beta1.ByInjector {
			continue
		}
		injected = append(injected, row.Kind)
		entry, registered := p.registry[row.Kind]
		missing(row.Kind, registered, "the registry of the injector has no line of it")
		missing(row.Kind, !registered || len(unnamed(t, entry)) == 0, "its row in the registry does not name all that its injector can do")
		missing(row.Kind, len(row.Needs.Capabilities) > 0 || row.Needs.Cgroups, "its row in the table of kinds has no Needs")
		missing(row.Kind, slices.Contains(p.lifecycles, row.Kind), "sampleParams has nothing for the test of its lifecycle")
		missing(row.Kind, slices.Contains(p.crashes, row.Kind), "the crash matrix has no workload of it")
		missing(row.Kind, row.PodOnly || slices.Contains(p.nodeCrashes, row.Kind), "the crash matrix has no workload of it at level node")
	}
	for _, other := range []struct {
		where         string
		kinds, wanted []v1beta1.Kind
	}{
		{"the registry of the injector", slices.Sorted(maps.Keys(p.registry)), injected},
		{"sampleParams", p.lifecycles, injected},
		{"docs/kinds", p.pages, supported},
		{"deploy/samples", p.samples, supported},
	} {
		for _, kind := range other.kinds {
			missing(kind, slices.Contains(other.wanted, kind), other.where+" has it, and no row in the table of kinds says that it works this way")
		}
	}
	return gaps
}

// unnamed are the exported methods of a kind's injector that are neither part of every
// injector nor a capability in its row. A capability has the name of its method.
func unnamed(t *testing.T, e entry) (methods []string) {
	t.Helper()
	made, err := e.construct(nil, &target.Target{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for field, value := range reflect.ValueOf(made.capabilities).Fields() {
		named[strings.ToLower(field.Name)] = !value.IsNil()
	}
	for method := range reflect.TypeFor[injector]().Methods() {
		named[strings.ToLower(method.Name)] = true
	}
	for method := range reflect.TypeOf(made.injector).Methods() {
		if !named[strings.ToLower(method.Name)] {
			methods = append(methods, method.Name)
		}
	}
	return methods
}

// A kind that ends the node has a trigger, and no other has one.
func TestOnlyAKindThatEndsTheNodeHasATrigger(t *testing.T) {
	for kind, row := range registry {
		made, err := row.construct(nil, &target.Target{}, nil)
		if err != nil || (made.trigger != nil) != row.ends {
			t.Errorf("%s: ends %t, a trigger %t, %v", kind, row.ends, made.trigger != nil, err)
		}
	}
}

// Every kind of the API is complete, and a kind without an injector has none of its parts.
func TestEveryKindIsComplete(t *testing.T) {
	for _, gap := range realParts(t).gaps(t) {
		t.Error(gap)
	}
	faults := everyFault()
	for i, row := range v1beta1.KindTable() {
		if _, registered := registry[row.Kind]; registered {
			t.Run(string(row.Kind), func(t *testing.T) { checkParameters(t, faults[i]) })
		}
		t.Run(string(row.Kind)+" has a sample of its own", func(t *testing.T) { checkSample(t, row) })
	}
}

// The test above must detect each of these gaps.
func TestAKindThatIsHalfThereIsNamed(t *testing.T) {
	const kind = v1beta1.KindNetwork
	without := func(kinds []v1beta1.Kind) []v1beta1.Kind {
		return slices.DeleteFunc(slices.Clone(kinds), func(k v1beta1.Kind) bool { return k == kind })
	}
	row := func(p *parts) *v1beta1.KindRow {
		return &p.rows[slices.IndexFunc(p.rows, func(r v1beta1.KindRow) bool { return r.Kind == kind })]
	}
	const noRow = " has it, and no row in the table of kinds says that it works this way"
	for _, test := range []struct {
		name   string
		take   func(*parts)
		wanted []string
	}{
		{"nothing is missing", func(*parts) {}, nil},
		{"the page", func(p *parts) { p.pages = without(p.pages) }, []string{"docs/kinds has no page of it"}},
		{"the sample", func(p *parts) { p.samples = without(p.samples) }, []string{"deploy/samples has no sample of it"}},
		{"the line of the registry", func(p *parts) { delete(p.registry, kind) }, []string{"the registry of the injector has no line of it"}},
		{"a capability", func(p *parts) { p.registry[kind] = entry{construct: withoutCapabilities} }, []string{"its row in the registry does not name all that its injector can do"}},
		{"the sample parameters", func(p *parts) { p.lifecycles = without(p.lifecycles) }, []string{"sampleParams has nothing for the test of its lifecycle"}},
		{"the workload", func(p *parts) { p.crashes = without(p.crashes) }, []string{"the crash matrix has no workload of it"}},
		{"the workload of a node", func(p *parts) { p.nodeCrashes = without(p.nodeCrashes) }, []string{"the crash matrix has no workload of it at level node"}},
		{"the rights", func(p *parts) { row(p).Needs = v1beta1.Needs{} }, []string{"its row in the table of kinds has no Needs"}},
		{"the row", func(p *parts) {
			p.rows = slices.DeleteFunc(p.rows, func(r v1beta1.KindRow) bool { return r.Kind == kind })
		},
			[]string{"the registry of the injector" + noRow, "sampleParams" + noRow, "docs/kinds" + noRow, "deploy/samples" + noRow}},
		{"the row says that the worker carries it out", func(p *parts) { row(p).By = v1beta1.ByWorker },
			[]string{"the registry of the injector" + noRow, "sampleParams" + noRow}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := realParts(t)
			p.registry = maps.Clone(p.registry)
			test.take(&p)
			var want []string
			for _, what := range test.wanted {
				want = append(want, "kind "+string(kind)+" is half there: "+what)
			}
			if diff := cmp.Diff(want, p.gaps(t)); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

var withoutCapabilities = from(newFake, func(*fake) capabilities { return capabilities{} })

// everyFault has the zero parameters of every kind, in the order of the table.
func everyFault() []v1beta1.Fault {
	var faults v1beta1.Faults
	fields := reflect.ValueOf(&faults).Elem()
	for i := range fields.NumField() {
		fields.Field(i).Set(reflect.New(fields.Field(i).Type().Elem()))
	}
	return faults.Requested()
}

// checkParameters checks that injector and API mean the same parameters.
func checkParameters(t *testing.T, fault v1beta1.Fault) {
	document, err := fault.Document()
	if err != nil {
		t.Fatal(err)
	}
	construct := registry[fault.Kind].construct
	if _, err := construct(document, &target.Target{}, nil); err != nil {
		t.Errorf("the parameters of the API are refused: %v", err)
	}
	if _, err := construct([]byte(`{"thereIsNoSuchField":1}`), &target.Target{}, nil); err == nil || !strings.Contains(err.Error(), "thereIsNoSuchField") {
		t.Errorf("an unknown field: %v, want it refused by name", err)
	}
}

// checkSample checks that the sample of a kind uses it.
func checkSample(t *testing.T, row v1beta1.KindRow) {
	text, err := os.ReadFile(filepath.Join("../deploy/samples", string(row.Kind)+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n  "+row.Field+":") {
		t.Errorf("the sample does not set spec.%s", row.Field)
	}
}
