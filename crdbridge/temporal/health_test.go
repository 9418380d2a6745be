package temporal

import (
	"testing"

	"go.temporal.io/api/serviceerror"
)

func TestHealthTellsOnlyWhenItChanges(t *testing.T) {
	away := serviceerror.NewUnavailable("refused")
	h := newHealth(nil, 0)
	steps := []struct {
		name   string
		answer error
		told   bool
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
		told := len(h.Changed) == 1
		if told {
			<-h.Changed
		}
		if told != step.told || (h.Err() != nil) != step.away {
			t.Errorf("%s: told %t, away %v; want %t, %t", step.name, told, h.Err(), step.told, step.away)
		}
	}
}
