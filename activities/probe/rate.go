package probe

import (
	"context"
	"sync"
	"time"
)

// Rate bounds how many questions a worker asks in a second, and shares them among
// namespaces. Waiting questions are asked in turns, one of each namespace. So a
// namespace never waits for the many questions of another one, and may use what others
// leave. Several goroutines may use it. nil bounds nothing.
type Rate struct {
	perSecond float64

	mu sync.Mutex
	// tokens are the questions that may be asked at the time counted.
	tokens  float64
	counted time.Time
	// waiting are the questions of each namespace, oldest first. order holds each of these
	// namespaces once; the first one is next.
	waiting map[string][]*waiter
	order   []string
	// planned is true while a timer will call grant.
	planned bool
}

// waiter is a question that waits.
type waiter struct {
	turn chan struct{}
	// gone is true if the question was cancelled.
	gone bool
}

// NewRate allows perSecond questions in a second, at least 1, and a tenth of a second's
// at once.
func NewRate(perSecond int) *Rate {
	r := &Rate{perSecond: float64(perSecond), counted: time.Now(), waiting: map[string][]*waiter{}}
	r.tokens = r.burst()
	return r
}

func (r *Rate) burst() float64 { return max(1, r.perSecond/10) }

// Wait returns when a probe of the namespace may ask a question, and true if it had to
// wait for that. The error is the error of ctx.
func (r *Rate) Wait(ctx context.Context, namespace string) (waited bool, err error) {
	if r == nil {
		return false, ctx.Err()
	}
	w := r.enqueue(namespace)
	if w == nil {
		return false, ctx.Err()
	}
	select {
	case <-w.turn:
		return true, nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		w.gone = true
		return true, ctx.Err()
	}
}

// enqueue returns nil if the question may be asked now.
func (r *Rate) enqueue(namespace string) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refill()
	if len(r.order) == 0 && r.tokens >= 1 {
		r.tokens--
		return nil
	}
	w := &waiter{turn: make(chan struct{})}
	if len(r.waiting[namespace]) == 0 {
		r.order = append(r.order, namespace)
	}
	r.waiting[namespace] = append(r.waiting[namespace], w)
	r.plan()
	return w
}

func (r *Rate) refill() {
	now := time.Now()
	r.tokens = min(r.burst(), r.tokens+r.perSecond*now.Sub(r.counted).Seconds())
	r.counted = now
}

// plan schedules grant for the time when a question may be asked again, but at least a
// slot from now: each wake-up costs more than a question.
func (r *Rate) plan() {
	if r.planned || len(r.order) == 0 {
		return
	}
	r.planned = true
	missing := time.Duration((1 - r.tokens) / r.perSecond * float64(time.Second))
	time.AfterFunc(max(slot, missing+time.Millisecond), r.grant)
}

// grant releases as many waiting questions as there are tokens.
func (r *Rate) grant() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned = false
	r.refill()
	for len(r.order) > 0 && r.tokens >= 1 {
		if w := r.next(); !w.gone {
			r.tokens--
			close(w.turn)
		}
	}
	r.plan()
}

// next takes the oldest question of the namespace whose turn it is.
func (r *Rate) next() *waiter {
	namespace := r.order[0]
	r.order = r.order[1:]
	w, rest := r.waiting[namespace][0], r.waiting[namespace][1:]
	if len(rest) == 0 {
		delete(r.waiting, namespace)
		return w
	}
	r.waiting[namespace] = rest
	r.order = append(r.order, namespace)
	return w
}
