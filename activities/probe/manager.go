package probe

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Manager asks the probes of one phase. It starts a worker for each probe and each
// place that the probe asks. Its fields must not change while it runs.
type Manager struct {
	Phase v1beta1.ProbePhase
	// Began is when the phase began. With scope Once the initial delay counts from there,
	// also in a process that resumes the work of another.
	Began time.Time
	// Probes of the disruption, with their defaults. Run skips probes of other phases.
	Probes []v1beta1.Probe
	// Ask is usually Prober.Ask.
	Ask func(context.Context, v1beta1.Probe, *Target) Answer
	// Pod returns the target's pod as it is now: nil if it is unknown. A pod with another
	// UID means that the target is gone.
	Pod func(types.UID) *corev1.Pod
	// Results receive the results of the workers.
	Results *Results
	// OnAnswer is called with each answer, unless it is nil. It must not block.
	OnAnswer func(Tick)
}

// TargetContainer is the container that a probe with scope PerTarget asks.
type TargetContainer struct {
	Pod types.UID
	// Container by name. Empty means the first.
	Container string
}

// running is a worker's goroutine.
type running struct {
	stop context.CancelFunc
	done chan struct{}
}

// Run asks until ctx ends, and returns when no worker runs any more. Workers end at
// once, even during a question (rule P19). Each list of targets replaces the one
// before; Run forgets a target that left it. After Run, Results still has the states of
// all others.
func (m *Manager) Run(ctx context.Context, targets <-chan []TargetContainer) {
	epoch := time.Now()
	var all sync.WaitGroup
	defer all.Wait()
	workers := map[Key]running{}
	start := func(key Key, probe v1beta1.Probe) {
		if _, there := workers[key]; there {
			return
		}
		ctx, stop := context.WithCancel(ctx)
		w := running{stop, make(chan struct{})}
		workers[key] = w
		all.Go(func() {
			defer close(w.done)
			defer stop()
			if (&worker{key, probe, epoch, m}).run(ctx) {
				m.Results.remove(key)
			}
		})
	}
	for _, probe := range m.of(v1beta1.ProbeOnce) {
		start(Key{Probe: probe.Name}, probe)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case now, open := <-targets:
			if !open {
				targets = nil // the targets so far stay
				continue
			}
			wanted := m.keys(now)
			for key, probe := range wanted {
				start(key, probe)
			}
			for key, w := range workers {
				if _, stays := wanted[key]; key.Target != "" && !stays {
					w.stop()
					<-w.done
					delete(workers, key)
					m.Results.remove(key)
				}
			}
		}
	}
}

// keys are the questions for these targets.
func (m *Manager) keys(targets []TargetContainer) map[Key]v1beta1.Probe {
	keys := map[Key]v1beta1.Probe{}
	for _, probe := range m.of(v1beta1.ProbePerTarget) {
		for _, target := range targets {
			keys[Key{probe.Name, target.Pod, target.Container}] = probe
		}
	}
	return keys
}

// of returns the probes of the phase with a scope.
func (m *Manager) of(scope v1beta1.ProbeScope) []v1beta1.Probe {
	var probes []v1beta1.Probe
	for _, probe := range m.Probes {
		for _, phase := range probe.Phases {
			if phase == m.Phase && probe.Scope == scope {
				probes = append(probes, probe)
			}
		}
	}
	return probes
}
