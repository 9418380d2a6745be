package v1beta1

import (
	"reflect"
	"strings"
	"testing"
)

// A field of Faults without its row would be accepted and ignored.
func TestEveryFieldOfFaultsHasItsRowInTheTableOfKinds(t *testing.T) {
	fields := reflect.TypeFor[Faults]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		t.Run(name, func(t *testing.T) {
			if i >= len(kindTable) || kindTable[i].Field != name {
				t.Fatalf("row %d of the table of kinds is not that of spec.%s: add it in the order of Faults", i, name)
			}
			row := kindTable[i]
			var faults Faults
			if params := row.params(faults); params != nil {
				t.Errorf("params() = %v though the kind is not asked for", params)
			}
			field := reflect.ValueOf(&faults).Elem().Field(i)
			field.Set(reflect.New(field.Type().Elem()))
			requested := faults.Requested()
			if len(requested) != 1 || requested[0].Kind != row.Kind || requested[0].Params != field.Interface() {
				t.Errorf("Requested() = %v, want only %s with the parameters of spec.%s", requested, row.Kind, name)
			}
			row.complete(t)
		})
	}
	if extra := len(kindTable) - fields.NumField(); extra > 0 {
		t.Errorf("the table of kinds has %d rows more than Faults has fields", extra)
	}
}

// complete names the missing fields of a row.
func (r KindRow) complete(t *testing.T) {
	t.Helper()
	if r.Kind == "" {
		t.Error("the row has no Kind")
	}
	for _, other := range kindTable {
		if other.Kind == r.Kind && other.Field != r.Field {
			t.Errorf("the rows of %s and %s are both of kind %s", r.Field, other.Field, r.Kind)
		}
	}
	hasRights := len(r.Needs.Capabilities) > 0 || r.Needs.Cgroups
	switch {
	case r.By != ByInjector && r.By != ByWorker:
		t.Errorf("the row says that %q carries the kind out, want an injector or the worker", r.By)
	case r.By == ByWorker && hasRights:
		t.Errorf("the row has the rights %v though the worker carries the kind out, without a chaos pod", r.Needs)
	case r.By == ByWorker && !r.Alone:
		t.Error("the row is not Alone: with another kind beside it nobody could say who carries the disruption out")
	case r.By == ByInjector && !hasRights:
		t.Error("the row has no Needs: an injector without any right can disturb nothing")
	}
}

func TestRightsOfAKind(t *testing.T) {
	if needs := KindNetwork.Needs(); len(needs.Capabilities) == 0 || !needs.Cgroups {
		t.Errorf("Needs() of %s = %+v, want those of its row", KindNetwork, needs)
	}
	if needs := Kind("rain").Needs(); needs.Capabilities != nil || needs.Cgroups {
		t.Errorf("Needs() of a kind there is not = %+v, want none", needs)
	}
}

func TestWhoCarriesKindsOut(t *testing.T) {
	for _, c := range []struct {
		kinds Kinds
		want  Carrier
	}{
		{nil, ByInjector},
		{Kinds{KindNetwork, KindCPUPressure}, ByInjector},
		{Kinds{KindPodReplacement}, ByWorker},
		{Kinds{"rain"}, ByInjector},
	} {
		if got := c.kinds.By(); got != c.want {
			t.Errorf("By() of %q = %s, want %s", c.kinds, got, c.want)
		}
	}
}
