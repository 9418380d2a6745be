package steadystate

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/squall-chaos/squall/activities/probe"
)

func TestSnapshotOf(t *testing.T) {
	left := Snapshot{States: []probe.State{{Key: probe.Key{Probe: "a"}, Result: probe.Success, Last: probe.Failure, Run: 2}}}
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"a worker died", temporal.NewHeartbeatTimeoutError(left), true},
		{"a worker died at once", temporal.NewHeartbeatTimeoutError(), false},
		{"a worker stopped", temporal.NewApplicationErrorWithOptions("stops", errorProberStopped, temporal.ApplicationErrorOptions{Details: []any{left}}), true},
		{"something else", temporal.NewApplicationErrorWithOptions("no", "Other", temporal.ApplicationErrorOptions{Details: []any{left}}), false},
		{"anything", errors.New("no"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := SnapshotOf(test.err)
			if (got != nil) != test.want || got != nil && got.States[0].Run != 2 {
				t.Errorf("SnapshotOf = %+v, want one: %t", got, test.want)
			}
		})
	}
}

// A lost heartbeat is no cancellation by the workflow: the workflow needs an error, so that
// another prober continues.
func TestHeartbeatLost(t *testing.T) {
	for name, c := range map[string]struct {
		cause error // nil if the activity is not cancelled
		want  bool
	}{
		"nothing":                           {nil, false},
		"its workflow":                      {temporal.NewCanceledError(), false},
		"a test's end":                      {context.Canceled, false},
		"a heartbeat that was not answered": {context.DeadlineExceeded, true},
		"Temporal, which is away":           {serviceerror.NewUnavailable("away"), true},
		"Temporal, which has given it up":   {serviceerror.NewNotFound("activity not found"), true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, callOff := context.WithCancelCause(t.Context())
			defer callOff(nil)
			if c.cause != nil {
				callOff(c.cause)
			}
			if got := heartbeatLost(ctx); got != c.want {
				t.Errorf("heartbeatLost = %t, want %t", got, c.want)
			}
		})
	}
}

// rule P21: the first failure of a run and some of the later ones become events.
func TestWhichFailuresAreRecorded(t *testing.T) {
	f := failureEvents{map[string]time.Time{}, map[probe.Key]bool{}}
	at, recorded := time.Now(), []int{}
	answer := func(second int, target string, a probe.Answer) {
		tick := probe.Tick{Key: probe.Key{Probe: "a", Target: "uid-1"}, Answer: a}
		if target != "" {
			tick.Target = "uid-2"
		}
		if f.worth(tick, at.Add(time.Duration(second)*time.Second)) {
			recorded = append(recorded, second)
		}
	}
	bad, good := probe.Answer{Result: probe.Failure}, probe.Answer{Result: probe.Success}
	erred := probe.Answer{Result: probe.Unknown, Err: errors.New("the probe cannot be asked")}
	answer(0, "", good)
	answer(1, "", bad)
	answer(2, "", bad)
	answer(3, "other", bad) // too soon after the first
	answer(10, "", good)
	answer(40, "", erred)
	answer(200, "", erred)
	answer(341, "", bad)
	if want := []int{1, 40, 341}; !reflect.DeepEqual(recorded, want) {
		t.Errorf("events at the seconds %v, want %v", recorded, want)
	}
}
