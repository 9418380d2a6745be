// Package poll says how long a test that waits for something rests between two looks.
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
	// inMemory is what such a look takes at most. One that takes longer asks a server,
	// which has others to answer.
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

// Until looks until it holds, at last when the time is over. The error says that it did
// not come to hold within the time, or that the test ended before.
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
