package bridgetest

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/poll"
)

// Soon is how long a test waits for what takes milliseconds, on a machine that
// is busy with other tests.
const Soon = time.Minute

// Eventually polls until true, and fails the test after the time given.
func Eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	if err := poll.Until(t.Context(), within, is); err != nil {
		t.Fatalf("%v: %s", err, what)
	}
}
