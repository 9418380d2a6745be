package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The page matches the CRDs.
func TestReferencePage(t *testing.T) {
	want, err := referencePage("../../deploy/crds")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + reference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is out of date: run make generate (-want +got):\n%s", reference, diff)
	}
}

// The page of labels matches the constants. A constant whose value looks like a label is
// on it, for any name of the constant.
func TestLabelsPage(t *testing.T) {
	marks, err := marksOf("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(marks) < 20 {
		t.Fatalf("%d labels were found: the test would prove little", len(marks))
	}
	got, err := os.ReadFile("../../" + marksReference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(marksPage(marks)), string(got)); diff != "" {
		t.Errorf("%s is out of date: run make generate (-want +got):\n%s", marksReference, diff)
	}
	literal := regexp.MustCompile(`"((?:[a-z]+[a-z.-]*\.)?chaos\.squall\.dev(?:/[a-z-]+[./]?)?)"`)
	for _, directory := range markDirectories {
		err := filepath.WalkDir("../../"+directory, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "crdgen") {
				return err
			}
			code, err := os.ReadFile(path)
			for _, found := range literal.FindAllSubmatch(code, -1) {
				name := string(found[1])
				if name != "chaos.squall.dev" && !strings.HasPrefix(name, "cluster.") && !strings.Contains(string(got), "`"+name+"`") {
					t.Errorf("%s: %s is not on %s", path, name, marksReference)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Every field of the Go types has a row, and every row is a field of the Go types.
func TestReferenceHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../" + reference)
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOnPage(string(page))
	for kind, object := range map[string]any{
		"Disruption":         v1beta1.Disruption{},
		"DisruptionCron":     v1beta1.DisruptionCron{},
		"DisruptionRollout":  v1beta1.DisruptionRollout{},
		"DisruptionScenario": v1beta1.DisruptionScenario{},
		"DisruptionPolicy":   v1beta1.DisruptionPolicy{},
		"EmergencyStop":      v1beta1.EmergencyStop{},
	} {
		fields := map[string]bool{}
		for _, part := range []string{"Spec", "Status"} {
			if field, ok := reflect.TypeOf(object).FieldByName(part); ok {
				fieldsOfType(field.Type, strings.ToLower(part), kind == "Disruption", fields)
			}
		}
		if len(fields) < 4 {
			t.Fatalf("%s: %d fields were found: the test would prove little", kind, len(fields))
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(rows[kind]))); diff != "" {
			t.Errorf("%s (-types +page):\n%s", kind, diff)
		}
	}
}

// rowsOnPage are the paths of fields, by the object's kind.
func rowsOnPage(page string) map[string]map[string]bool {
	heading := regexp.MustCompile(`^### (\w+): (\w+)$`)
	field := regexp.MustCompile("^\\| `([^`]+)` \\| (object|list of|map|any|boolean|duration|number|string|time)")
	rows := map[string]map[string]bool{}
	kind, prefix := "", ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if found := heading.FindStringSubmatch(line); found != nil {
			kind, prefix = found[1], found[2]+"."
			if found[2] != "spec" && found[2] != "status" {
				prefix = "spec." + prefix
			}
			continue
		}
		if found := field.FindStringSubmatch(line); found != nil {
			if rows[kind] == nil {
				rows[kind] = map[string]bool{}
			}
			rows[kind][strings.Replace(prefix+found[1], ".[]", "[]", 1)] = true
		}
	}
	return rows
}

// fieldsOfType adds the paths of a type's fields. The spec of a Disruption inside of
// another object is one field: the page links to it.
func fieldsOfType(of reflect.Type, path string, whole bool, fields map[string]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		switch of.Kind() {
		case reflect.Slice:
			path += "[]"
		case reflect.Map:
			path += ".*"
		}
		of = of.Elem()
	}
	encodesItself := reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]())
	if of.Kind() != reflect.Struct || encodesItself || !whole && of == reflect.TypeFor[v1beta1.DisruptionSpec]() {
		return
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			fieldsOfType(field.Type, path, whole, fields)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		fields[path+"."+name] = true
		fieldsOfType(field.Type, path+"."+name, whole, fields)
	}
}
