package upgrade

import (
	"os"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// many is so many targets that a worker can be killed before it is done.
const many = 200

// upgrade is a disruption's life under two workers.
type upgrade struct {
	*world.World
	old, today *world.Program
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
			u := upgrade{here, here.Worker(), here.Worker()}
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
	d := u.Create(u.Disruption("injects", many))
	world.Eventually(u, time.Minute, "some chaos pods are made", func() bool { return u.Kubelets.There(u.Chaos) > many/20 })
	u.old.Kill()
	if made := u.Kubelets.There(u.Chaos); made >= many {
		u.Fatalf("all %d chaos pods were there before the old worker was dead: this proves nothing", made)
	}
	u.today.Start()
	u.Injected(d)
	u.Must(u.Disruptions.Delete(u.Context(), d))
	u.ends(d)
}

func (u upgrade) cleans() {
	d := u.Create(u.Disruption("cleans", many))
	u.Injected(d)
	u.Must(u.Disruptions.Delete(u.Context(), d))
	world.Eventually(u, time.Minute, "some chaos pods are gone", func() bool { return u.Kubelets.There(u.Chaos) < many-many/20 })
	u.handOver()
	u.ends(d)
}

// rolledInjecting, rolledCleaning: both workers run for a moment, then the old
// one is asked to end.
func (u upgrade) rolledInjecting() {
	d := u.Create(u.Disruption("rolled-injecting", many))
	world.Eventually(u, time.Minute, "some chaos pods are made", func() bool { return u.Kubelets.There(u.Chaos) > many/20 })
	u.today.Start()
	made := u.Kubelets.There(u.Chaos)
	u.old.Stop()
	u.Logf("asked to end at about %d chaos pods of %d", made, many)
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
	u.today.Start()
	u.Must(u.Disruptions.Delete(u.Context(), d))
	world.Eventually(u, time.Minute, "some chaos pods are gone", func() bool { return u.Kubelets.There(u.Chaos) < many-many/20 })
	u.old.Stop()
	u.ends(d)
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
