package world

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/patience"
)

// Eventually waits for a condition of the world; it fails the test when it
// does not come to hold within the time.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	patience.Within(t, within, what, holds)
}

// Must ends the test at an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
