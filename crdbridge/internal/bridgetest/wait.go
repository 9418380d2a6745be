package bridgetest

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/patience"
)

// Soon is how long a test waits for events that take milliseconds, on a machine that is
// busy with other tests.
const Soon = time.Minute

// Eventually is patience.Within for conditions that give no reason.
func Eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	patience.Within(t, within, what, is)
}
