package prober

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The limit is that of the probe of During that is the quickest to fail.
func TestBlindLimit(t *testing.T) {
	spec := v1beta1.SteadyState{Probes: []v1beta1.Probe{
		{PeriodSeconds: 60}, {PeriodSeconds: 1}, {PeriodSeconds: 1, FailureThreshold: 1, Phases: []v1beta1.ProbePhase{v1beta1.ProbeAfter}},
	}}.WithDefaults()
	if got := blindLimit(spec); got != 23*time.Second {
		t.Errorf("limit %s, want 23s", got)
	}
}
