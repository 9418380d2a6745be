// Package poll decides how long a waiting test rests between two checks.
package poll

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// least is the rest after a look at something in memory, and so how exact a
	// measured time is.
	least = 2 * time.Millisecond
	// inMemory is the longest time of a check in memory. A longer check asks a server,
	// which has other clients.
	inMemory = time.Millisecond
	// looks is how many times that look the rest is at least.
	looks = 5
	// share is the part of what was waited for already that the rest is at least: who
	// has waited a minute for a server need not know to the millisecond when it is over.
	share = 20
	// most bounds both.
	most = 250 * time.Millisecond
)

// Rest is how long to wait before the next look, after one that took as long as given
// and with all that was waited for so far. It is between 2 and 250 ms.
func Rest(waited, look time.Duration) time.Duration {
	if look <= inMemory {
		return least
	}
	return min(max(looks*look, waited/share), most)
}

// Until checks until it holds, the last time when the time is over. The error
// reports that it did not hold within the time, or that the test ended before.
func Until(ctx context.Context, within time.Duration, holds func() bool) error {
	began := time.Now()
	for {
		looked := time.Now()
		if holds() {
			return nil
		}
		waited := time.Since(began)
		if waited >= within {
			return fmt.Errorf("not within %s", within)
		}
		select {
		case <-ctx.Done():
			return errors.New("the test ended before")
		case <-time.After(min(Rest(waited, time.Since(looked)), within-waited)):
		}
	}
}
