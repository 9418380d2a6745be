package probe

import (
	"context"
	"errors"
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
	// Run is how many results in a row were the same, this one included; an answer without
	// a result does not change it.
	Run int32
}

// slot divides the time of a manager. Questions are due at multiples of it, so that
// each wake-up of the process asks many. If a hundred questions each wake it
// separately, the wake-ups cost most of their processor time.
const slot = 50 * time.Millisecond

// worker asks one probe of one place. Its fields do not change.
type worker struct {
	key   Key
	probe v1beta1.Probe
	// epoch is when the manager began; slots count from there.
	epoch time.Time
	*Manager
}

// run asks until ctx ends, or until there is nothing more to ask. It returns true in
// the second case.
func (w *worker) run(ctx context.Context) (over bool) {
	state, known := w.Results.get(w.key)
	if state = state.in(w.Phase); !known {
		state = begin(w.key, w.Phase, "")
	}
	if w.key.Target == "" || state.ContainerID != "" {
		w.Results.set(ctx, state, "")
	}
	// Workers that begin together must not ask together (rule P4): the first question is
	// due in a random slot of a period.
	due := time.Since(w.epoch).Truncate(slot) + slot*(1+rand.N(w.probe.Period()/slot))
	timer := time.NewTimer(due - time.Since(w.epoch))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		if state, over = w.tick(ctx, state); over {
			return true
		}
		now := time.Since(w.epoch)
		due = nextDue(due, now, w.probe.Period())
		timer.Reset(due - now)
	}
}

// nextDue returns when the question after due is due, as a ticker would: a missed
// question is asked at once, and only the last of several.
func nextDue(due, now, period time.Duration) time.Duration {
	return due + max(period, (now-due).Truncate(period))
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
			target = &Target{Pod: pod, Container: w.key.Container, Current: func() bool { return w.current(state, pod) }}
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
	if ctx.Err() != nil || errors.Is(answer.Err, errOutdated) {
		return state, false // it was cancelled
	}
	if answer.Err == nil {
		state = state.after(answer.Result, w.probe, time.Now())
		w.Results.set(ctx, state, answer.Text)
	}
	if w.OnAnswer != nil {
		w.OnAnswer(Tick{Key: w.key, Phase: w.Phase, Answer: answer, Run: state.Run})
	}
	return state, false
}

// current is true while the target is still to be asked in the same container, at the
// same address.
func (w *worker) current(state State, pod *corev1.Pod) bool {
	now := w.Pod(w.key.Target)
	again, next, _ := state.look(w.probe, now, time.Now())
	return next == ask && again.ContainerID == state.ContainerID && now.Status.PodIP == pod.Status.PodIP
}
