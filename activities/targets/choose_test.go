package targets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Whatever is contested and free: what is sure stays and never moves to a later
// place, what is not goes, and there are as many as are wanted if they are there.
func TestTopUp(t *testing.T) {
	for range 2000 {
		sure := map[types.UID]bool{}
		var pending []Target
		for i := range rand.IntN(8) {
			uid := types.UID(fmt.Sprint("p", i))
			pending = append(pending, Target{InjectionTarget: v1beta1.InjectionTarget{UID: uid}})
			sure[uid] = rand.IntN(2) == 0
		}
		var free []Candidate
		for i := range rand.IntN(8) {
			free = append(free, Candidate{Target: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint("f", i))}})
		}
		wanted := rand.IntN(10)
		before, next := uidsOf(pending), uidsOf(topUp(pending, sure, wanted, free))
		kept := 0
		for i, uid := range before {
			at := slices.Index(next, uid)
			if sure[uid] != (at >= 0) || at > i {
				t.Fatalf("%v, sure %v, became %v", before, sure, next)
			}
			if sure[uid] {
				kept++
			}
		}
		if want := kept + min(max(0, wanted-kept), len(free)); len(next) != want {
			t.Fatalf("%v, sure %v, wanted %d of %d more, became %v", before, sure, wanted, len(free), next)
		}
		if slices.Sort(next); len(slices.Compact(slices.Clone(next))) != len(next) {
			t.Fatalf("%v twice", next)
		}
	}
}

// rule 18: a target is used up once it was injected, or chosen three times.
func TestWhatIsUsedUp(t *testing.T) {
	ended := func(tries int, again bool) Target {
		return Target{InjectionTarget: v1beta1.InjectionTarget{UID: "web"}, Ended: "over", Tries: tries, Again: again}
	}
	active := Target{InjectionTarget: v1beta1.InjectionTarget{UID: "web"}, Tries: 1}
	for name, test := range map[string]struct {
		shards []Target
		tries  int
		free   bool
	}{
		"never chosen":                      {nil, 0, true},
		"disrupted":                         {[]Target{active}, 0, false},
		"was injected":                      {[]Target{ended(0, false)}, 0, false},
		"never injected, once":              {[]Target{ended(0, true)}, 1, true},
		"never injected, twice":             {[]Target{ended(0, true), ended(1, true)}, 2, true},
		"never injected, three times":       {[]Target{ended(0, true), ended(1, true), ended(2, false)}, 0, false},
		"never injected, then injected":     {[]Target{ended(0, true), ended(1, false)}, 0, false},
		"never injected, and disrupted now": {[]Target{ended(0, true), active}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var stand []Shard
			for i, target := range test.shards {
				stand = append(stand, Shard{Number: i, Targets: []Target{target}})
			}
			every := intstr.FromString("100%")
			spec := v1beta1.DisruptionSpec{Count: &every}
			next, _ := nextClaims(spec, []Candidate{{Target: v1beta1.InjectionTarget{UID: "web"}}}, stand, nil, nil, nil)
			if chosen := len(next) == 1; chosen != test.free || chosen && next[0].Tries != test.tries {
				t.Errorf("next = %+v, want it chosen %t, after %d tries", next, test.free, test.tries)
			}
		})
	}
}
