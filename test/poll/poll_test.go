package poll_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-chaos/squall/test/poll"
)

func TestRest(t *testing.T) {
	for name, c := range map[string]struct{ waited, look, want time.Duration }{
		"what is in memory is looked at often":         {time.Minute, 100 * time.Microsecond, 2 * time.Millisecond},
		"a server is asked a sixth of the time":        {0, 4 * time.Millisecond, 20 * time.Millisecond},
		"and rarely after a while":                     {2 * time.Second, 4 * time.Millisecond, 100 * time.Millisecond},
		"but four times a second":                      {time.Hour, 4 * time.Millisecond, 250 * time.Millisecond},
		"also when it takes long to answer on its own": {0, time.Second, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if got := poll.Rest(c.waited, c.look); got != c.want {
				t.Errorf("Rest(%s, %s) = %s, want %s", c.waited, c.look, got, c.want)
			}
		})
	}
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		after := func(d time.Duration) func() bool { return func() bool { return time.Since(began) >= d } }
		if err := poll.Until(t.Context(), time.Second, after(time.Second)); err != nil {
			t.Errorf("what holds when the time is over = %v, want nil", err)
		}
		if err := poll.Until(t.Context(), time.Second, after(time.Hour)); err == nil || err.Error() != "not within 1s" {
			t.Errorf("what holds later = %v, want that it does not within 1s", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("both took %s, want the second that each was given", took)
		}
		done, end := context.WithCancel(t.Context())
		end()
		if err := poll.Until(done, time.Hour, after(24*time.Hour)); err == nil || err.Error() != "the test ended before" || time.Since(began) > 3*time.Second {
			t.Errorf("when the test is done = %v, want at once that it has ended", err)
		}
	})
}
