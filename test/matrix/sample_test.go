package matrix

import (
	"fmt"
	"testing"

	"github.com/squall-chaos/squall/test/sample"
)

// Over many commits each workload is run, each point is tried, and of many targets
// the points of each.
func TestEverythingIsTriedOverManySeeds(t *testing.T) {
	const seeds = 2000
	var steady, ofMany []fault
	for i := range 20 {
		steady = append(steady, fault{before, worker, fmt.Sprintf("worker create pods web-0/cpu-pressure #%d", i)})
		ofMany = append(ofMany, fault{before, worker, fmt.Sprintf("worker create pods web-%d/cpu-pressure #1", i)})
	}
	p := &plan{faults: steady, runs: map[fault]int{}}
	for _, f := range steady {
		p.runs[f] = undisturbed()
	}
	ran, tried, left := map[string]int{}, map[fault]int{}, map[fault]int{}
	for seed := sample.Seed(1); seed <= seeds; seed++ {
		for _, w := range withOneLong(workloads, seed) {
			ran[w.name]++
		}
		p.trials = nil
		p.choose(t, seed)
		for _, trial := range p.trials {
			tried[trial.fault]++
		}
		if seed > seeds/10 {
			continue // sorting is slow, and ofEach of 20 are left each time
		}
		for _, f := range sampled(ofMany, ofEach, seed) {
			left[f]++
		}
	}
	for _, w := range workloads {
		if n := ran[w.name]; n < seeds/20 || !w.long && n < seeds {
			t.Errorf("workload %q is run for %d of %d seeds", w.name, n, seeds)
		}
	}
	for i := range steady {
		if n := tried[steady[i]]; n == 0 || n > seeds/10 {
			t.Errorf("point %q is tried for %d of %d seeds, want about %d of 100", steady[i], n, seeds, *share)
		}
		if left[ofMany[i]] == 0 {
			t.Errorf("of many targets, point %q is tried for none of %d seeds", ofMany[i], seeds/10)
		}
	}
}
