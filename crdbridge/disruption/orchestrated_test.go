package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/start"
)

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status metav1.ConditionStatus
		reason string
	}{
		{"no error", nil, metav1.ConditionTrue, condition.ReasonReached},
		{"the connection is refused", fmt.Errorf("start: %w", serviceerror.NewUnavailable("refused")), metav1.ConditionFalse, condition.ReasonUnreachable},
		{"no answer in time", fmt.Errorf("start: %w", context.DeadlineExceeded), metav1.ConditionFalse, condition.ReasonUnreachable},
		{"the server gives up", serviceerror.NewDeadlineExceeded("late"), metav1.ConditionFalse, condition.ReasonUnreachable},
		{"no such namespace", serviceerror.NewNamespaceNotFound("x"), metav1.ConditionFalse, reasonRefused},
		{"no right", serviceerror.NewPermissionDenied("no", ""), metav1.ConditionFalse, reasonRefused},
		{"a search attribute is missing", serviceerror.NewInvalidArgument("no mapping for SquallPhase"), metav1.ConditionFalse, reasonRefused},
		{"the workflow is over", start.ErrCompleted, metav1.ConditionFalse, reasonEnded},
		{"somebody deleted the namespace", fmt.Errorf("%w: namespace squall-chaos is missing", errNoChaosNamespace), metav1.ConditionFalse, reasonNoChaosNamespace},
		{"of another cluster", start.OtherCluster("there", "here"), metav1.ConditionFalse, reasonOtherCluster},
		{"no worker", temporal.ErrNoWorker, metav1.ConditionFalse, condition.ReasonNoWorker},
		{"no prober", temporal.ErrNoProber, metav1.ConditionFalse, condition.ReasonNoProber},
		{"the workflow cannot go on", fmt.Errorf("%w: NonDeterministicError", temporal.ErrTaskFailing), metav1.ConditionFalse, reasonTaskFailing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, reason, message := verdict(test.err)
			if status != test.status || reason != test.reason || message == "" {
				t.Errorf("verdict(%v) = %s, %s, %q; want %s, %s", test.err, status, reason, message, test.status, test.reason)
			}
		})
	}
	t.Run("a refusal is quoted, and not at any length", func(t *testing.T) {
		_, _, message := verdict(serviceerror.NewInvalidArgument("SquallPhase " + strings.Repeat("x", 5000)))
		if !strings.Contains(message, "SquallPhase") || len(message) > 600 {
			t.Errorf("message of %d bytes: %q", len(message), message)
		}
	})
}

func TestOrchestratedIsWrittenOnlyWhenItChanges(t *testing.T) {
	away := serviceerror.NewUnavailable("refused")
	with := func(errs ...error) *v1beta1.Disruption {
		d := &v1beta1.Disruption{}
		for _, err := range errs {
			c, _ := orchestrated(d, err)
			c.LastTransitionTime = metav1.NewTime(time.Unix(1, 0))
			meta.SetStatusCondition(&d.Status.Conditions, c)
		}
		return d
	}
	tests := []struct {
		name    string
		have    *v1beta1.Disruption
		err     error
		changed bool
	}{
		{"all was well and is", with(), nil, false},
		{"away for the first time", with(), away, true},
		{"still away", with(away), away, false},
		{"away with another message", with(away), serviceerror.NewUnavailable("port 1 refused"), false},
		{"back", with(away), nil, true},
		{"still back", with(away, nil), nil, false},
		{"there, and it refuses", with(away), serviceerror.NewPermissionDenied("no", ""), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, changed := orchestrated(test.have, test.err); changed != test.changed {
				t.Errorf("orchestrated = %+v, %t; want %t", got, changed, test.changed)
			}
		})
	}
	t.Run("another reason is no transition", func(t *testing.T) {
		got, _ := orchestrated(with(away), errors.New("no"))
		if got.LastTransitionTime.Unix() != 1 {
			t.Errorf("transition at %s", got.LastTransitionTime)
		}
	})
}
