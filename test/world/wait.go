package world

import (
	"testing"
	"time"
)

// lookGap is how often a condition is looked at that is in memory, and so how
// exact a measured time is. A look that asks a server is repeated after
// restGaps times what it took: the servers have others to answer.
const (
	lookGap  = 2 * time.Millisecond
	restGaps = 5
	// longestGap bounds that on a machine that is busy.
	longestGap = 250 * time.Millisecond
)

// Eventually waits for a condition of the world; it fails the test when it
// does not come to hold within the time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(within)
	for {
		began := time.Now()
		if holds() {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s", within, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended before: %s", what)
		case <-time.After(max(lookGap, min(restGaps*time.Since(began), longestGap))):
		}
	}
}

// Must ends the test at an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
