package workflows

import (
	"testing"

	"github.com/squall-chaos/squall/activities/chaospod"
)

// A cleaner has ended before the workflow stops waiting for it, whatever time the
// installation gives it: otherwise a slow node looks like one that cannot be cleaned.
func TestACleanerEndsBeforeAPersonIsAsked(t *testing.T) {
	if waits := cleaningRounds * cleaningPatience; chaospod.MostNodeTimeout >= waits {
		t.Errorf("a cleaner may have %s, and the workflow waits %s for it", chaospod.MostNodeTimeout, waits)
	}
}
