//go:build linux

package classifier

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDirections(t *testing.T) {
	out, in := Rule{Match{Direction: Egress}, Effect{Drop: 1}}, Rule{Match{Direction: Ingress}, Effect{Drop: 1}}
	for name, test := range map[string]struct {
		rules []Rule
		want  []Direction
	}{
		"no rules: nothing to attach":           {nil, nil},
		"passing rules alone: nothing":          {[]Rule{{Match: Match{Direction: Egress}}, {Match: Match{Direction: Ingress}}}, nil},
		"a dropping rule of one direction":      {[]Rule{{Match: Match{Direction: Egress}}, in}, []Direction{Ingress}},
		"dropping rules of both, egress before": {[]Rule{in, out}, []Direction{Egress, Ingress}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Directions(test.rules)); diff != "" {
				t.Errorf("Directions(%v) (-want +got):\n%s", test.rules, diff)
			}
		})
	}
}
