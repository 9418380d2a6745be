package bridgetest

import (
	"testing"
	"time"
)

// Soon is how long a test waits for what takes milliseconds, on a machine that
// is busy with other tests.
const Soon = time.Minute

// Eventually polls until true, and fails the test after the time given.
func Eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within %s: %s", within, what)
}

// Never polls for the whole time given, and fails the test as soon as it is true.
func Never(t *testing.T, during time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(during); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if is() {
			t.Fatalf("happened: %s", what)
		}
	}
}
