package kube

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clocksAgree is the greatest difference at which two clocks count as equal: the header
// Date has whole seconds, and an answer takes its time.
const clocksAgree = 2 * time.Second

// Clock knows the API server's time from its answers. Callers compare it with times
// that the API server has written, such as a pod's deletion, because the clock of this
// machine may differ. The zero value, and nil, use the clock of this machine until the
// first answer.
type Clock struct {
	ahead atomic.Int64 // the API server's clock minus ours, in nanoseconds
}

// Wrap returns a transport that passes each answer of the API server to the clock, for
// rest.Config.Wrap.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper {
	return observed{clock: c, next: next}
}

// Now is the time of the API server.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

func (c *Clock) observe(answer *http.Response) {
	server, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return // a proxy without the header has answered
	}
	ahead := time.Until(server)
	if ahead.Abs() <= clocksAgree {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

type observed struct {
	clock *Clock
	next  http.RoundTripper
}

func (o observed) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(request)
	if err == nil {
		o.clock.observe(answer)
	}
	return answer, err
}
