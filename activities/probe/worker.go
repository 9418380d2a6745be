package probe

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Tick is an answer that a worker got, with or without a result.
type Tick struct {
	Key
	Phase  v1beta1.ProbePhase
	Answer Answer
	// Run is how many results in a row were the same, this one included; an
	// answer without a result does not change it.
	Run int32
}

// worker asks one probe of one place. Its fields do not change.
type worker struct {
	key   Key
	probe v1beta1.Probe
	*Manager
}

// run asks until ctx ends, or until there is nothing more to ask. It returns
// true in the second case.
func (w *worker) run(ctx context.Context) (over bool) {
	state, known := w.Results.get(w.key)
	if state = state.in(w.Phase); !known {
		state = begin(w.key, w.Phase, "")
	}
	if w.key.Target == "" || state.ContainerID != "" {
		w.Results.set(ctx, state, "")
	}
	// Workers that begin together must not ask together (rule P4).
	if !sleep(ctx, time.Duration(rand.Float64()*float64(w.probe.Period()))) {
		return false
	}
	ticker := time.NewTicker(w.probe.Period())
	defer ticker.Stop()
	for {
		if state, over = w.tick(ctx, state); over {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

// tick asks if it is time to, and returns the state afterwards.
func (w *worker) tick(ctx context.Context, state State) (_ State, over bool) {
	var target *Target
	next := ask
	if w.key.Target == "" {
		next = state.lookOnce(w.probe, time.Since(w.Began))
	} else {
		var pod *corev1.Pod
		if pod = w.Pod(w.key.Target); pod != nil {
			target = &Target{Pod: pod, Container: w.key.Container}
		}
		var why string
		if state, next, why = state.look(w.probe, pod, time.Now()); state.ContainerID != "" {
			w.Results.set(ctx, state, why)
		}
	}
	if next != ask {
		return state, next == end
	}
	answer := w.Ask(ctx, w.probe, target)
	if ctx.Err() != nil {
		return state, false // it was called off
	}
	if answer.Err == nil {
		state = state.after(answer.Result, w.probe, time.Now())
		w.Results.set(ctx, state, answer.Text)
	}
	if w.Told != nil {
		w.Told(Tick{Key: w.key, Phase: w.Phase, Answer: answer, Run: state.Run})
	}
	return state, false
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
