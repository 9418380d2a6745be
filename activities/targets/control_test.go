package targets

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A control group consists of undisrupted pods, and no member becomes a target.
func TestControlGroup(t *testing.T) {
	candidates := func(n int) (all []Candidate) {
		for i := range n {
			all = append(all, Candidate{Target: v1beta1.InjectionTarget{Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i))}})
		}
		return all
	}
	targets := func(n int) []Shard {
		var shard Shard
		for _, c := range candidates(n) {
			shard.Targets = append(shard.Targets, Target{InjectionTarget: c.Target})
		}
		return []Shard{shard}
	}
	spec := func(count, control string) v1beta1.DisruptionSpec {
		many, group := intstr.Parse(count), intstr.Parse(control)
		return v1beta1.DisruptionSpec{Count: &many, SteadyState: &v1beta1.SteadyState{ControlGroup: &group}}
	}
	for _, test := range []struct {
		name           string
		matching       int
		control        string
		change         func([]Candidate, *Claims)
		wanted, chosen int
	}{
		{"a number", 10, "3", nil, 3, 3},
		{"a share, rounded up", 10, "11%", nil, 2, 2},
		{"more than the targets leave", 4, "4", nil, 4, 2},
		{"the targets leave none", 2, "50%", nil, 1, 0},
		{"at most 200", 1000, "50%", nil, 200, 200},
		{"not those of another disruption", 4, "2", func(_ []Candidate, claims *Claims) { claims.Holders["2"] = "shop/other" }, 2, 1},
		{"not those that another one shares", 4, "2", func(_ []Candidate, claims *Claims) { claims.held["2"] = true }, 2, 1},
		{"not those on which somebody operates", 4, "2", func(all []Candidate, _ *Claims) { all[2].Operation = "busy" }, 2, 1},
		{"not those that lack the container", 4, "2", func(all []Candidate, _ *Claims) { all[2].Missing = "main" }, 2, 1},
		{"not those that were targets", 4, "2", func(_ []Candidate, claims *Claims) { claims.Own = targets(3); claims.Own[0].Targets[2].Ended = "over" }, 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			healthy, claims := candidates(test.matching), Claims{Own: targets(2), Holders: Holders{}, held: map[types.UID]bool{}}
			if test.change != nil {
				test.change(healthy, &claims)
			}
			group := chooseControl(spec("2", test.control), healthy, claims)
			if group.Wanted != test.wanted || len(group.Pods) != test.chosen {
				t.Errorf("%d of %d wanted: %v; want %d of %d", len(group.Pods), group.Wanted, group.Pods, test.chosen, test.wanted)
			}
			group.Keep(healthy)
			next, _ := nextClaims(spec("100%", test.control), healthy, nil, nil, map[types.UID]bool{}, Holders{}, Budgets{}.without(nil))
			for _, target := range next {
				if group.uids()[target.UID] {
					t.Errorf("%s is in the control group and a target", target.Name)
				}
			}
			if test.change == nil && len(next) != test.matching-test.chosen {
				t.Errorf("%d targets of %d, want all but the control group", len(next), test.matching)
			}
		})
	}
}
