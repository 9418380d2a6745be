package world

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/poll"
)

// Eventually waits for a condition of the world; it fails the test when it
// does not come to hold within the time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	if err := poll.Until(t.Context(), within, holds); err != nil {
		t.Fatalf("%v: %s", err, what)
	}
}

// Must ends the test at an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
