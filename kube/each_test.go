package kube

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("the second fails")
		var now, most atomic.Int32
		outcomes := Each(6, 2, func(i int) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			if i == 1 {
				return wrong
			}
			return nil
		})
		if len(outcomes) != 6 || outcomes[1] != wrong || errors.Join(outcomes...).Error() != wrong.Error() {
			t.Errorf("outcomes %v, want six, the second an error", outcomes)
		}
		if most.Load() != 2 {
			t.Errorf("%d calls at a time, want 2", most.Load())
		}
	})
}
