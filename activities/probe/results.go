package probe

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// mostUpdates are kept for a reader that is slow; then workers wait for it.
const mostUpdates = 20

// Update tells that the result of a probe changed, or what it is at first.
type Update struct {
	Key
	Phase  v1beta1.ProbePhase
	Result Result
	// Text of the answer that decided; empty if none did.
	Text string
	At   time.Time
}

// Results are the states of all workers of a phase. They tell of results that
// changed and of nothing else. They may be used by several goroutines.
type Results struct {
	updates chan Update

	mu     sync.Mutex
	states map[Key]State
	told   map[Key]Result
}

// NewResults begins with the states of a process that ended. Their results are
// told once more: that process may have ended before it could.
func NewResults(states ...State) *Results {
	results := &Results{updates: make(chan Update, mostUpdates), states: map[Key]State{}, told: map[Key]Result{}}
	for _, state := range states {
		results.states[state.Key] = state
	}
	return results
}

// Updates are the results that changed, in the order in which those of a key did.
func (r *Results) Updates() <-chan Update { return r.updates }

// States are all there are, in order.
func (r *Results) States() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []State
	for _, state := range r.states {
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Probe, b.Probe), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Container, b.Container))
	})
	return all
}

func (r *Results) get(key Key) (State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, known := r.states[key]
	return state, known
}

// set keeps a state, with the text if its result is new, and tells of it then. It waits for a reader
// of Updates who is slow, until ctx ends; a result that was not told then is
// told by whoever goes on with the state.
func (r *Results) set(ctx context.Context, state State, text string) {
	r.mu.Lock()
	told, before := r.told[state.Key]
	same := before && told == state.Result
	if state.Text = text; same {
		state.Text = r.states[state.Key].Text
	}
	r.states[state.Key], r.told[state.Key] = state, state.Result
	r.mu.Unlock()
	if same {
		return
	}
	select {
	case r.updates <- Update{Key: state.Key, Phase: state.Phase, Result: state.Result, Text: text, At: time.Now()}:
	case <-ctx.Done():
	}
}

func (r *Results) remove(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, key)
	delete(r.told, key)
}
