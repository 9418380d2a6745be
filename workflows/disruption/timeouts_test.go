package disruption

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-chaos/squall/activities/chaospod"
)

// A cleaner ends before the workflow stops waiting for it, for every cleaner timeout of
// the installation: otherwise a slow node looks like one that cannot be cleaned.
func TestACleanerEndsBeforeAPersonIsAsked(t *testing.T) {
	if waits := cleaningRounds * cleaningPatience; chaospod.MostNodeTimeout >= waits {
		t.Errorf("a cleaner may have %s, and the workflow waits %s for it", chaospod.MostNodeTimeout, waits)
	}
}

// docs/guarantees.md: a killed worker is replaced after 10 s. Temporal gives a worker's
// activity to another when no heartbeat arrives for the heartbeat timeout. The test plays
// lives of each scenario, and expects 10 s for every activity that the workflow starts.
func TestAKilledWorkerIsGivenUpAfterTenSeconds(t *testing.T) {
	asked := map[string]bool{}
	for i := range 20 * len(scenes) {
		s := scenes[i%len(scenes)]
		random := rand.New(rand.NewPCG(uint64(i), 1))
		c := newCluster(s, &faults{random: random, burst: random.IntN(60)})
		c.all()
		for activity, heartbeats := range c.heartbeats {
			asked[activity] = true
			for _, d := range heartbeats {
				if d != 10*time.Second {
					t.Fatalf("scenario %q: %s has a heartbeat timeout of %s, want 10s", s.name, activity, d)
				}
			}
		}
	}
	for _, activity := range []string{
		"Prepare", "SelectTargets", "CreateChaosPods", "AwaitInjection", "AskProbes", "CleanChaosPods", "VerifyNodes", "ReportPhase", "OperateTargets", "EndOperations", "Finish",
	} {
		if !asked[activity] {
			t.Errorf("no scenario asked for %s: that shows nothing of it", activity)
		}
	}
}
