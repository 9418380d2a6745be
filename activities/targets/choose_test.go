package targets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

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
