package workflows

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/test/golden"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
	"github.com/squall-chaos/squall/workflows/notification"
	"github.com/squall-chaos/squall/workflows/run"
	"github.com/squall-chaos/squall/workflows/sweep"
)

// payloads are all values that Temporal keeps for a workflow, by the name of their file:
// its inputs and results, and those of each activity.
func payloads() map[string]reflect.Type {
	all := map[string]reflect.Type{
		"Disruption.in": reflect.TypeFor[disruption.Input](), "Disruption.out": reflect.TypeFor[disruption.Result](), "Sweep.out": reflect.TypeFor[sweep.Result](),
		"start": reflect.TypeFor[contract.Input](), "signal-" + contract.SignalObserved: reflect.TypeFor[contract.Observation](),
		"signal-" + contract.SignalEnd: reflect.TypeFor[contract.End](), "signal-" + contract.SignalProbe: reflect.TypeFor[contract.ProbeTransition](), "update-" + contract.UpdateResume: reflect.TypeFor[contract.Resume](),
		"query-" + contract.QueryStatus: reflect.TypeFor[disruption.State](),
		"DisruptionCron.in":             reflect.TypeFor[contract.CronInput](), "DisruptionCron.out": reflect.TypeFor[run.Result](),
		"Notification.in": reflect.TypeFor[notification.Input](), "Notification.out": reflect.TypeFor[notification.Result](),
	}
	for _, methods := range []reflect.Type{reflect.TypeFor[*activities.Activities](), reflect.TypeFor[*orphans.Activities](), reflect.TypeFor[*crons.Activities](), reflect.TypeFor[*notify.Activities]()} {
		addActivities(all, methods)
	}
	return all
}

// addActivities adds the input and the result of each activity among the methods.
func addActivities(all map[string]reflect.Type, methods reflect.Type) {
	for i := range methods.NumMethod() {
		method, signature := methods.Method(i).Name, methods.Method(i).Type
		if signature.NumIn() < 2 || signature.In(1) != reflect.TypeFor[context.Context]() {
			continue // not an activity
		}
		for n := 2; n < signature.NumIn(); n++ {
			all[method+".in"] = signature.In(n)
		}
		for n := range signature.NumOut() - 1 {
			all[method+".out"] = signature.Out(n)
		}
	}
}

// An older worker's payloads are read by a newer one, and the other way round. A field
// that is renamed, dropped or of another type would be lost silently, and no replay would
// find it.
func TestPayloadsStayAsTheyAre(t *testing.T) {
	const directory = "testdata/payloads"
	all := payloads()
	for name, payload := range all {
		t.Run(name, func(t *testing.T) {
			full := reflect.New(payload)
			fill(t, name, full.Elem(), 0)
			got, err := json.MarshalIndent(full.Interface(), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			// A field may be added, see docs/upgrades.md.
			path := filepath.Join(directory, name+".json")
			want := golden.Compare(t, path, string(got)+"\n")
			strict := json.NewDecoder(strings.NewReader(want))
			strict.DisallowUnknownFields()
			read := reflect.New(payload)
			if err := strict.Decode(read.Interface()); err != nil {
				t.Fatalf("%s is not understood any more: %v", path, err)
			}
			if again, _ := json.MarshalIndent(read.Interface(), "", " "); !bytes.Equal(again, got) {
				t.Errorf("%s loses something when it is read:\n%s", path, cmp.Diff(string(got), string(again)))
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); all[name] == nil {
			t.Errorf("%s: there is no such payload any more, but a history may have it", file)
		}
	}
}

// fill sets every field to a value that names its place.
func fill(t *testing.T, path string, v reflect.Value, depth int) {
	t.Helper()
	if depth > 20 {
		t.Fatalf("%s is too deep", path)
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)))
		return
	}
	if v.Type() == reflect.TypeFor[intstr.IntOrString]() {
		v.Set(reflect.ValueOf(intstr.FromString("a " + path)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, path, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				fill(t, strings.ToLower(wireName(field)), v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, path, v.Index(0), depth+1)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, path, v.Index(i), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, path+"-key", key, depth+1)
		fill(t, path, value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("a " + path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(depth + 1))
	default:
		t.Fatalf("%s: no value for a %s", path, v.Type())
	}
}

// wireName is the name of a field in JSON, so that the files do not depend on names in Go.
func wireName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return field.Name
	}
	return name
}

// The payloads of the list are those that the workflows really use.
func TestEveryActivityIsAPayload(t *testing.T) {
	all := payloads()
	var missing []string
	for _, name := range []string{"Prepare", "SelectTargets", "CreateChaosPods", "ReplacePods", "AwaitInjection", "AwaitEffects", "CleanChaosPods", "VerifyNodes", "Finish", "SweepRecords", "SweepNodes"} {
		for _, way := range []string{".in", ".out"} {
			if all[name+way] == nil {
				missing = append(missing, name+way)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("no payloads %v in %v", missing, slices.Sorted(maps.Keys(all)))
	}
}
