package main

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const example = `
type: object
properties:
  dns: {type: object}
  onInit: {type: boolean}
  count: {x-kubernetes-int-or-string: true}
  network:
    type: object
    properties:
      delay: {type: integer}
      services: {type: array}
      hosts: {type: array, items: {type: object, properties: {connState: {type: string}}}}
`

func TestRefusal(t *testing.T) {
	var spec schema
	if err := yaml.Unmarshal([]byte(example), &spec); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		level      v1beta1.Level
		want       string // empty: an error
	}{
		{"an object", "dns", "", "!(has(self.dns))"},
		{"a flag", "onInit", "", "!(has(self.onInit) && self.onInit)"},
		{"a number", "network.delay", "", "!(has(self.network) && has(self.network.delay) && self.network.delay != 0)"},
		{"a list", "network.services", "", "!(has(self.network) && has(self.network.services) && self.network.services.size() > 0)"},
		{"in a list", "network.hosts[].connState", "", "!(has(self.network) && has(self.network.hosts) && self.network.hosts.exists(i, has(i.connState) && i.connState.size() > 0))"},
		{"at a level", "dns", v1beta1.LevelNode, "!(has(self.level) && self.level == 'node' && has(self.dns))"},
		{"a field the schema does not have", "network.speed", "", ""},
		{"a type without a test", "count", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule, err := refusal(spec, v1beta1.UnsupportedField{Path: c.path, Level: c.level})
			if c.want == "" {
				if err == nil {
					t.Fatalf("refusal(%s) = %v, want an error", c.path, rule)
				}
				return
			}
			if err != nil || rule["rule"] != c.want {
				t.Errorf("refusal(%s) = %v, %v, want %s", c.path, rule["rule"], err, c.want)
			}
		})
	}
}
