package v1beta1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateSupported(t *testing.T) {
	everywhere := UnsupportedField{Path: "network", Why: "w"}
	atNode := UnsupportedField{Path: "cpuPressure", Level: LevelNode, Why: "w"}
	inList := UnsupportedField{Path: "network.hosts[].connState", Why: "w"}
	number := UnsupportedField{Path: "network.delay", Why: "w"}
	flag := UnsupportedField{Path: "onInit", Why: "w"}
	for _, c := range []struct {
		name, spec string
		field      UnsupportedField
		want       []string
	}{
		{"an object is asked for by being there", `{"network": {}}`, everywhere, []string{"spec.network: Forbidden: network is not supported yet: w"}},
		{"an absent object is not", `{"cpuPressure": {}}`, everywhere, nil},
		{"at its level", `{"level": "node", "cpuPressure": {}}`, atNode, []string{"spec.cpuPressure: Forbidden: cpuPressure at level node is not supported yet: w"}},
		{"at another level", `{"level": "pod", "cpuPressure": {}}`, atNode, nil},
		{"in any item of a list", `{"network": {"hosts": [{"port": 1}, {"connState": "new"}]}}`, inList, []string{"spec.network.hosts: Forbidden: network.hosts.connState is not supported yet: w"}},
		{"in no item of a list", `{"network": {"hosts": [{"port": 1}, {"connState": ""}]}}`, inList, nil},
		{"in no list at all", `{"network": {}}`, inList, nil},
		{"a number that is not 0", `{"network": {"delay": 1}}`, number, []string{"spec.network.delay: Forbidden: network.delay is not supported yet: w"}},
		{"a number that is 0", `{"network": {"delay": 0}}`, number, nil},
		{"a flag that is set", `{"onInit": true}`, flag, []string{"spec.onInit: Forbidden: onInit is not supported yet: w"}},
		{"a flag that is not", `{"onInit": false}`, flag, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var spec DisruptionSpec
			if err := json.Unmarshal([]byte(c.spec), &spec); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range spec.validateSupported(field.NewPath("spec"), []UnsupportedField{c.field}) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("validateSupported(%s) (-want +got):\n%s", c.spec, diff)
			}
		})
	}
}
