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

// A kind that can be asked for is complete, and one that an injector does not
// carry out, or that the API refuses, has no line here.
func TestEveryKindIsComplete(t *testing.T) {
	var ours []v1beta1.Kind
	faults := everyFault()
	for i, row := range v1beta1.KindTable() {
		if row.By != v1beta1.ByInjector || row.Missing != "" {
			continue
		}
		ours = append(ours, row.Kind)
		t.Run(string(row.Kind), func(t *testing.T) {
			checkDocuments(t, row.Kind)
			checkKind(t, faults[i])
		})
	}
	for kind := range registry {
		if !slices.Contains(ours, kind) {
			t.Errorf("kind %s is in the registry, and the table of kinds says that it is not supported or not an injector's", kind)
		}
	}
	for _, row := range v1beta1.KindTable() {
		if row.By == v1beta1.ByWorker && row.Missing == "" {
			t.Run(string(row.Kind), func(t *testing.T) { checkDocuments(t, row.Kind) })
		}
	}
}

// everyFault has the zero parameters of every kind, in the order of the table.
func everyFault() []v1beta1.Fault {
	var faults v1beta1.Faults
	fields := reflect.ValueOf(&faults).Elem()
	for i := range fields.NumField() {
		fields.Field(i).Set(reflect.New(fields.Field(i).Type().Elem()))
	}
	return faults.Requested()
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
}

// checkDocuments looks for what users need of a kind, whoever carries it out.
func checkDocuments(t *testing.T, kind v1beta1.Kind) {
	for folder, file := range map[string]string{
		"../docs/kinds":     string(kind) + ".md",
		"../deploy/samples": string(kind) + ".yaml",
	} {
		if _, err := os.Stat(folder + "/" + file); err != nil {
			t.Errorf("%s/%s is missing", strings.TrimPrefix(folder, "../"), file)
		}
	}
}
