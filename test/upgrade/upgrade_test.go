package upgrade

import (
	"fmt"
	"os"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// many is how many targets there are, and middle how many chaos pods of them are
// made, or gone, when the old worker ends.
const many, middle = 200, 50

// upgrade is a disruption's life under two workers.
type upgrade struct {
	*world.World
	old, today *world.Program
	// gate holds the old worker in the middle of its work.
	gate *world.Gate
}

// TestDisruptionOfAnOldWorker ends the old worker at several moments of a
// disruption's life, with SIGKILL, or with SIGTERM once today's runs beside it,
// and lets today's go on (T5, T1, T3).
func TestDisruptionOfAnOldWorker(t *testing.T) {
	commit, binary := oldWorker(t)
	t.Logf("the old worker is that of %s", commit)
	w := world.Start(t)
	w.Worker() // build once
	w.Bridge().Start()
	w.Targets(many)
	for _, when := range []struct {
		name string
		test func(upgrade)
	}{
		{"killed while it holds", upgrade.holds},
		{"killed while it injects", upgrade.injects},
		{"killed while it cleans", upgrade.cleans},
		{"replaced by a rolling update while it injects", upgrade.rolledInjecting},
		{"replaced by a rolling update while it cleans", upgrade.rolledCleaning},
	} {
		t.Run(when.name, func(t *testing.T) {
			here := w.In(t)
			gate := here.Gate()
			u := upgrade{here, here.Worker(gate.Setting()), here.Worker(), gate}
			u.old.Name, u.old.Path = "the old worker", binary
			u.today.Name = "today's worker"
			u.old.Start()
			when.test(u)
		})
	}
}

func (u upgrade) holds() {
	d := u.Create(u.Disruption("holds", 2))
	u.Injected(d)
	u.handOver()
	u.Must(u.Disruptions.Delete(u.Context(), d))
	u.ends(d)
}

func (u upgrade) injects() {
	u.gate.HoldAfter(middle, u.CreatesChaosPod)
	d := u.Create(u.Disruption("injects", many))
	u.amid(middle)
	u.handOver()
	u.Injected(d)
	u.Must(u.Disruptions.Delete(u.Context(), d))
	u.ends(d)
}

func (u upgrade) cleans() {
	d := u.Create(u.Disruption("cleans", many))
	u.Injected(d)
	u.gate.HoldAfter(middle, u.ReleasesChaosPod)
	u.Must(u.Disruptions.Delete(u.Context(), d))
	u.amid(many - middle)
	u.handOver()
	u.ends(d)
}

// amid waits until n chaos pods are there, and the old worker is held.
func (u upgrade) amid(n int) {
	u.Helper()
	world.Eventually(u, u.Patience, fmt.Sprintf("%d chaos pods are there", n), func() bool {
		return u.gate.Passed() == middle && u.Kubelets.There(u.Chaos) == n
	})
}

// rolledInjecting, rolledCleaning: both workers run for a moment, then the old
// one is asked to end.
func (u upgrade) rolledInjecting() {
	u.gate.HoldAfter(middle, u.CreatesChaosPod)
	d := u.Create(u.Disruption("rolled-injecting", many))
	u.amid(middle)
	u.today.Start()
	u.roll()
	u.Injected(d)
	if n := u.Kubelets.There(u.Chaos); n != many {
		u.Errorf("%d chaos pods for %d targets", n, many)
	}
	u.Must(u.Disruptions.Delete(u.Context(), d))
	u.ends(d)
}

func (u upgrade) rolledCleaning() {
	d := u.Create(u.Disruption("rolled-cleaning", many))
	u.Injected(d)
	u.gate.HoldAfter(middle, u.ReleasesChaosPod)
	u.Must(u.Disruptions.Delete(u.Context(), d))
	u.amid(many - middle)
	u.today.Start()
	u.roll()
	u.ends(d)
}

// roll asks the old worker to end while its calls are held, and lets them go on.
func (u upgrade) roll() {
	u.Helper()
	ended := u.old.Terminate()
	u.gate.Open()
	u.Must(ended())
}

func (u upgrade) handOver() {
	u.old.Kill()
	u.today.Start()
}

// ends wants the whole of a good end: nothing is left, and the history, of
// which the old worker wrote the beginning, replays.
func (u upgrade) ends(d *v1beta1.Disruption) {
	u.Helper()
	u.Vanishes(d)
	u.NothingLeft(d)
	if result := u.Completed(d); result.Ending == "" {
		u.Errorf("result = %+v, want an ending", result)
	}
	u.OneRun(d)
	u.History(d)
}
