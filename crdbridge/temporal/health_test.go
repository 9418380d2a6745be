package temporal

import (
	"testing"

	"go.temporal.io/api/serviceerror"
)

func TestHealthSendsAnEventOnlyWhenItChanges(t *testing.T) {
	away := serviceerror.NewUnavailable("refused")
	h := newHealth(nil, 0)
	steps := []struct {
		name   string
		answer error
		event  bool
		away   bool
	}{
		{"an answer, as ever", nil, false, false},
		{"no answer", away, true, true},
		{"still none", away, false, true},
		{"an answer that is a refusal", serviceerror.NewPermissionDenied("no", ""), true, false},
		{"an answer", nil, false, false},
	}
	for _, step := range steps {
		h.set(step.answer)
		event := len(h.Changed) == 1
		if event {
			<-h.Changed
		}
		if event != step.event || (h.Err() != nil) != step.away {
			t.Errorf("%s: event %t, away %v; want %t, %t", step.name, event, h.Err(), step.event, step.away)
		}
	}
}
