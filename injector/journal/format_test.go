//go:build linux

package journal

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A journal outlives the version that wrote it: a later cleaner must find the file by its
// name and understand every field. testdata/record.json is such a file, with every field
// set; a field may be added to it.
func TestAJournalOfAnOlderReleaseIsUnderstood(t *testing.T) {
	older, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "disruption-uid_target-uid_network-disruption.json"), older, 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := Reopen(directory, v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{UID: "disruption-uid"}, Kind: v1beta1.KindNetwork, Target: v1beta1.InjectionTarget{UID: "target-uid"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	everyFieldIsSet(t, "record", reflect.ValueOf(opened.Record()))
	got, err := json.MarshalIndent(opened.Record(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(bytes.TrimSpace(older)), string(got)); diff != "" {
		t.Errorf("what was read of testdata/record.json (-want +got):\n%s", diff)
	}
}

// everyFieldIsSet fails for a field that the file lacks: its name would not be compared.
func everyFieldIsSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("testdata/record.json does not set %s", path)
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time](), v.Type() == reflect.TypeFor[json.RawMessage]():
	case v.Kind() == reflect.Pointer:
		everyFieldIsSet(t, path, v.Elem())
	case v.Kind() == reflect.Slice:
		everyFieldIsSet(t, path, v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				everyFieldIsSet(t, path+"."+field.Name, v.Field(i))
			}
		}
	}
}
