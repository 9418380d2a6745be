package disruption

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/workflows/contract"
)

// If a round has so many shards that the history gets too long, a new run continues with
// the shards that are left.
func TestRoundOfVeryManyShardsContinuesInNewRun(t *testing.T) {
	const all = shardsPerRun + 3*parallelShards
	var added []int
	for number := range all {
		added = append(added, number)
	}
	w := newWorld(t)
	w.plan.Static, w.cleaning = true, time.Second
	w.selections = []targets.Selection{{Selected: 2, Added: added}}
	w.after(time.Minute, w.end)
	w.after(time.Minute+10*time.Second, func() { w.env.SetContinueAsNewSuggested(true) })
	state := w.renews(t)
	if len(w.cleaned) != shardsPerRun || state.CleanFrom == 0 || state.CleanFrom > shardsPerRun {
		t.Fatalf("%d shards were cleaned, and the next run begins with shard %d; want %d, and one that was not cleaned", len(w.cleaned), state.CleanFrom, shardsPerRun)
	}
	cleaned := map[int]bool{}
	for _, number := range w.cleaned {
		cleaned[number] = true
	}
	again := newWorld(t)
	again.env.ExecuteWorkflow(contract.WorkflowType, Input{Input: contract.Input{Disruption: ref}, Carried: &state})
	if err := again.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	for _, number := range again.cleaned {
		if number < state.CleanFrom {
			t.Errorf("shard %d was cleaned again", number)
		}
		cleaned[number] = true
	}
	if len(cleaned) != all {
		t.Errorf("%d shards were cleaned in two runs, want %d", len(cleaned), all)
	}
}

// While targets come and go, one watch of the injection follows what is chosen meanwhile,
// and what ended is cleaned within the workflow's task.
func TestAWatchFollowsLaterChoices(t *testing.T) {
	for name, c := range map[string]struct {
		seen int // the newest choice that the watch has seen when it ends
		want int // how many watches linger
	}{
		"it has seen the last choice":                          {3, 2},
		"it ended before: another watch begins":                {2, 3},
		"an older worker does not say what its watch has seen": {0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.injecting, w.watchedRun = 20*time.Second, c.seen
			w.endedCleans = []clean.Result{{Lost: 1}}
			w.selections = nil
			for run := range 4 {
				w.selections = append(w.selections, targets.Selection{Desired: 2, Selected: 2, Matching: 2, Added: []int{0}, Shards: 1, Run: run})
			}
			w.selections = append(w.selections, targets.Selection{Desired: 2, Selected: 2, Matching: 2, Shards: 1})
			for minute := range 3 {
				w.after(time.Duration(minute+1)*time.Minute, func() {
					w.observe(contract.Observation{Hash: fmt.Sprint(minute), TargetsLost: 1, Candidates: 2, Shards: []int{0}})
				})
			}
			w.after(10*time.Minute, w.end)
			w.run(t)
			lingers := 0
			for _, in := range w.watches {
				if in.Linger == lingering {
					lingers++
				}
			}
			if lingers != c.want {
				t.Errorf("%d watches linger, want %d", lingers, c.want)
			}
			var patience []time.Duration
			for _, in := range w.asked {
				if in.OnlyEnded {
					patience = append(patience, in.Patience)
				}
			}
			if diff := cmp.Diff([]time.Duration{cleaningPatience, cleaningPatience, localPatience}, patience); diff != "" {
				t.Errorf("how long cleanings wait (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatALocalCleaningLeavesIsCleaned: an activity cleans the rest of a local cleaning.
func TestWhatALocalCleaningLeavesIsCleaned(t *testing.T) {
	w := newWorld(t)
	waits := clean.Result{Lost: 1, Remaining: 1, UnverifiedNodes: []string{"n1"}, Left: []chaospod.LeftPod{{Pod: "chaos-1", Outcome: "Waiting"}}}
	w.endedCleans = []clean.Result{{Lost: 1}, {Lost: 1}, waits, {Lost: 1}}
	w.selections = nil
	for run := range 4 {
		w.selections = append(w.selections, targets.Selection{Desired: 2, Selected: 2, Matching: 2, Added: []int{0}, Shards: 1, Run: run})
	}
	for minute := range 3 {
		w.after(time.Duration(minute+1)*time.Minute, func() {
			w.observe(contract.Observation{Hash: fmt.Sprint(minute), TargetsLost: 1, Candidates: 2})
		})
	}
	w.after(10*time.Minute, w.end)
	result := w.run(t)
	var patience []time.Duration
	for _, in := range w.asked {
		if in.OnlyEnded {
			patience = append(patience, in.Patience)
		}
	}
	if diff := cmp.Diff([]time.Duration{cleaningPatience, cleaningPatience, localPatience, cleaningPatience}, patience); diff != "" {
		t.Errorf("how long cleanings wait (-want +got):\n%s", diff)
	}
	if !slices.Contains(w.calls, "verify n1") {
		t.Errorf("calls %v, want node n1 searched, as the first cleaning did not prove it clean; result %+v", w.calls, result)
	}
}
