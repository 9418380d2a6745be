package probe

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// mostUpdates bounds the updates that wait for a slow reader; when it is reached,
// workers wait for the reader.
const mostUpdates = 20

// Update is the first result of a probe, or a changed one.
type Update struct {
	Key
	Phase  v1beta1.ProbePhase
	Result Result
	// Text of the deciding answer; empty if no answer decided.
	Text string
	At   time.Time
}

// Results are the states of all workers of a phase. They report only results that
// changed. Several goroutines may use them.
type Results struct {
	updates chan Update

	mu     sync.Mutex
	states map[Key]State
	sent   map[Key]Result
}

// NewResults begins with the states of a process that ended. It reports their results
// once more, because that process may have ended before it could.
func NewResults(states ...State) *Results {
	results := &Results{updates: make(chan Update, mostUpdates), states: map[Key]State{}, sent: map[Key]Result{}}
	for _, state := range states {
		results.states[state.Key] = state
	}
	return results
}

// Updates are the results that changed; those of a key are in order.
func (r *Results) Updates() <-chan Update { return r.updates }

// States returns all states, in order.
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

// set keeps a state and, if its result is new, the text, and sends an Update. It waits
// for a slow reader of Updates until ctx ends. The process that resumes the state sends
// an update that was not sent.
func (r *Results) set(ctx context.Context, state State, text string) {
	r.mu.Lock()
	sent, before := r.sent[state.Key]
	same := before && sent == state.Result
	if state.Text = text; same {
		state.Text = r.states[state.Key].Text
	}
	r.states[state.Key], r.sent[state.Key] = state, state.Result
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
	delete(r.sent, key)
}
