package run

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

var noon = contract.CronRef{Namespace: "shop", Name: "noon", UID: "c1"}

// The run of a rollout is for its release, and has the time when that was seen.
func TestCronOfARelease(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivity(&crons.Activities{})
	ref := contract.CronRef{Namespace: "shop", Name: "releases", UID: "r1", Kind: v1beta1.KindDisruptionRollout}
	release := contract.Release{Number: 3, SeenAt: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Containers: "c0ffee"}
	env.OnActivity(a.BeginRun, mock.Anything, mock.Anything).Return(func(_ context.Context, in crons.BeginInput) (crons.Begun, error) {
		if in.Cron != ref || !in.ScheduledAt.Equal(release.SeenAt) || in.Release == nil || *in.Release != release {
			t.Errorf("begins %+v, want the run for %+v", in, release)
		}
		return crons.Begun{Reason: crons.Superseded, Message: "there was a later release"}, nil
	})
	env.ExecuteWorkflow(Workflow, contract.CronInput{Cron: ref, Release: &release})
	var r Result
	if err := env.GetWorkflowResult(&r); err != nil {
		t.Fatal(err)
	}
	if want := "nothing began (Superseded): there was a later release"; r.Summary != want {
		t.Errorf("%q, want %q", r.Summary, want)
	}
}

func TestCron(t *testing.T) {
	for _, c := range []struct {
		name  string
		begun crons.Begun
		want  string
		looks int
	}{
		{"a run that is waited for", crons.Begun{Reason: crons.Began, UID: "u1"}, "it ended: expired, Passed", 5},
		{"one that does not begin is not", crons.Begun{Reason: crons.EmergencyStop, Message: "fire"}, "nothing began (EmergencyStop): fire", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterActivity(&crons.Activities{})
			at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
			if err := env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(scheduledTime.ValueSet(at))); err != nil {
				t.Fatal(err)
			}
			looks := 0
			env.OnActivity(a.BeginRun, mock.Anything, mock.Anything).Return(func(_ context.Context, in crons.BeginInput) (crons.Begun, error) {
				if in.Cron != noon || !in.ScheduledAt.Equal(at) {
					t.Errorf("begins %+v, want the run of %s", in, at)
				}
				return c.begun, nil
			})
			env.OnActivity(a.AwaitRun, mock.Anything, mock.Anything).Return(func(_ context.Context, in crons.AwaitInput) (crons.Ended, error) {
				if looks++; looks < c.looks {
					return crons.Ended{}, temporal.NewApplicationErrorWithOptions("", crons.GoesOn, temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Second})
				}
				return crons.Ended{Ending: "expired", Verdict: v1beta1.VerdictPassed}, nil
			})
			env.ExecuteWorkflow(Workflow, contract.CronInput{Cron: noon})
			var r Result
			if err := env.GetWorkflowResult(&r); err != nil {
				t.Fatal(err)
			}
			if r.Summary != c.want || looks != c.looks {
				t.Errorf("%q after %d looks, want %q after %d", r.Summary, looks, c.want, c.looks)
			}
		})
	}
}
