package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// Every field of Faults is a kind, and a kind is complete or the API says that
// it is not supported: the two lists never differ.
func TestEveryKindIsComplete(t *testing.T) {
	fields := reflect.TypeFor[v1beta1.Faults]()
	kinds := map[v1beta1.Kind]string{}
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		var faults v1beta1.Faults
		field := reflect.ValueOf(&faults).Elem().Field(i)
		field.Set(reflect.New(field.Type().Elem()))

		requested := faults.Requested()
		if len(requested) != 1 {
			t.Errorf("field %s: Requested() = %v, want one fault: a line is missing", name, requested)
			continue
		}
		kind := requested[0].Kind
		if other, taken := kinds[kind]; taken {
			t.Errorf("fields %s and %s are both of kind %s", name, other, kind)
		}
		kinds[kind] = name
		path, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if isUnsupported(path) {
			if _, known := registry[kind]; known {
				t.Errorf("kind %s is in the registry, and the API says that %s is not supported", kind, path)
			}
			continue
		}
		t.Run(string(kind), func(t *testing.T) { checkKind(t, requested[0]) })
	}
	for kind := range registry {
		if kinds[kind] == "" {
			t.Errorf("kind %s is in the registry and has no field in Faults", kind)
		}
	}
}

// isUnsupported is true for a kind of which the API refuses everything.
func isUnsupported(path string) bool {
	return slices.ContainsFunc(v1beta1.Unsupported(), func(u v1beta1.UnsupportedField) bool {
		return u.Path == path && u.Level == ""
	})
}

func checkKind(t *testing.T, fault v1beta1.Fault) {
	entry, known := registry[fault.Kind]
	if !known {
		t.Fatal("there is no line in the registry, and the API does not say that it is unsupported")
	}
	document, err := fault.Document()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.construct(document, &target.Target{}, nil); err != nil {
		t.Errorf("the parameters of the API are refused: %v", err)
	}
	if _, err := entry.construct([]byte(`{"thereIsNoSuchField":1}`), &target.Target{}, nil); err == nil || !strings.Contains(err.Error(), "thereIsNoSuchField") {
		t.Errorf("an unknown field: %v, want it refused by name", err)
	}
	if sampleParams[fault.Kind] == "" {
		t.Error("there are no sampleParams for the test of its lifecycle")
	}
	for folder, file := range map[string]string{
		"../docs/kinds":     string(fault.Kind) + ".md",
		"../deploy/samples": string(fault.Kind) + ".yaml",
	} {
		if _, err := os.Stat(folder); err != nil {
			t.Logf("%s is not there yet, so %s is not looked for", folder, file)
			continue
		}
		if _, err := os.Stat(folder + "/" + file); err != nil {
			t.Errorf("%s/%s is missing", strings.TrimPrefix(folder, "../"), file)
		}
	}
}
