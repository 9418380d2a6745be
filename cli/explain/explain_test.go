package explain

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestRecipients(t *testing.T) {
	for _, c := range []struct {
		reporting *v1beta1.Reporting
		want      []string
	}{
		{nil, nil},
		{&v1beta1.Reporting{Purpose: "to be sure of it"}, nil},
		{&v1beta1.Reporting{SlackChannel: "team", SlackUserEmail: "ann@example.com", MinNotificationType: "Error"}, []string{
			"the Slack channel team, of what is Error or more important, if the worker has a token for Slack",
			"the Slack user ann@example.com, of what is Error or more important, if the worker has a token for Slack",
		}},
		{&v1beta1.Reporting{SlackChannel: "team"}, []string{"the Slack channel team, of what is Success or more important, if the worker has a token for Slack"}},
	} {
		d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Reporting: c.reporting}}
		var got []string
		for _, topic := range Disruption(d) {
			if topic.Name == "notifies" {
				got = topic.Lines
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("of %+v it tells (-want +got):\n%s", c.reporting, diff)
		}
	}
}

// Every fault is described in its own words, also with nothing but defaults.
func TestEveryFaultIsExplained(t *testing.T) {
	unknown := ofKind(v1beta1.Fault{}, v1beta1.DisruptionSpec{})
	var faults v1beta1.Faults
	for _, field := range reflect.ValueOf(&faults).Elem().Fields() {
		field.Set(reflect.New(field.Type().Elem()))
	}
	for _, fault := range faults.Requested() {
		if slices.Equal(ofKind(fault, v1beta1.DisruptionSpec{}), unknown) {
			t.Errorf("%s: ofKind has no case for %T", fault.Kind, fault.Params)
		}
	}
}
