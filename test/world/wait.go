package world

import (
	"testing"
	"time"
)

// lookGap is how often a condition is looked at, and so how exact a measured
// time is. What is looked at is in memory.
const lookGap = 2 * time.Millisecond

// Eventually waits for a condition of the world; it fails the test when it
// does not come to hold within the time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(within)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s", within, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended before: %s", what)
		case <-time.After(lookGap):
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
