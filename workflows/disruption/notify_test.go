package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/notification"
)

// hook is a webhook that receives all notifications.
var hook = notify.Recipient{Way: notify.Webhook, Least: v1beta1.NotificationInfo}

// notifying names the activities of notifications; it is never called.
var notifying *notify.Activities

// notified sends the disruption's notifications to a webhook.
func (w *world) notified(t *testing.T) {
	t.Helper()
	w.plan.Notify, w.plan.Requester = &notify.Audience{Recipients: []notify.Recipient{hook}, Purpose: "to be sure of the retries"}, "ann"
	registerNotification(w.env)
}

func registerNotification(env *testsuite.TestWorkflowEnvironment) {
	env.RegisterWorkflowWithOptions(notification.Workflow, workflow.RegisterOptions{Name: contract.NotificationWorkflowType})
	env.RegisterActivity(&notify.Activities{})
}

// receives records the notifications to a webhook that always answers.
func (w *world) receives(t *testing.T) (received func() []string) {
	t.Helper()
	w.notified(t)
	return recording(w.env, func(n notify.Notification) string {
		if want := contract.NotificationID(ref, n.Reason, 1); n.Object != ref || n.Requester != "ann" || n.Purpose != "to be sure of the retries" || !strings.HasPrefix(n.ID, want[:len(want)-1]) {
			t.Errorf("told of %+v", n)
		}
		return fmt.Sprintf("%s %s: %s", n.Type, n.ID, n.Message)
	})
}

// recording records the notifications to a webhook that always answers, each as a line.
func recording(env *testsuite.TestWorkflowEnvironment, line func(notify.Notification) string) (received func() []string) {
	var mu sync.Mutex
	var all []string
	env.OnActivity(notifying.Notify, anything(2)...).Return(func(_ context.Context, in notify.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, line(in.Notification))
		return nil
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// rule M1
func TestNotificationsOfADisruption(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(w *world)
		want []string
	}{
		{"it expires", func(*world) {}, []string{
			"Info u1/began-1: Targets are chosen from 2026-11-20 12:00:00 UTC on; it ends at 2026-11-20 13:00:00 UTC.",
			"Success u1/injected-1: Disrupting 2 targets until 2026-11-20 13:00:00 UTC.",
			"Info u1/ending-1: Cleaning up all targets: expired.",
			"Completion u1/finished-1: 2 targets disrupted, ended (expired), nothing is left.",
		}},
		{"it is stopped", func(w *world) {
			w.after(time.Minute, func() { w.env.SignalWorkflow(contract.SignalEnd, contract.End{Reason: fireStop}) })
		}, []string{
			"Info u1/began-1: Targets are chosen from 2026-11-20 12:00:00 UTC on; it ends at 2026-11-20 13:00:00 UTC.",
			"Success u1/injected-1: Disrupting 2 targets until 2026-11-20 13:00:00 UTC.",
			"Warning u1/ending-1: Cleaning up all targets: emergency stop fire: payment is down.",
			"Completion u1/finished-1: 2 targets disrupted, ended (emergency stop fire: payment is down), nothing is left.",
		}},
		{"it fails and is not clean", func(w *world) {
			w.createError = temporal.NewNonRetryableApplicationError("no room", "", nil)
			w.injecting = time.Hour
			w.cleans = []clean.Result{{UnverifiedNodes: []string{"n1"}}}
			w.found = []string{"node n1: it is not ready"}
		}, []string{
			"Info u1/began-1: Targets are chosen from 2026-11-20 12:00:00 UTC on; it ends at 2026-11-20 13:00:00 UTC.",
			"Error u1/ending-1: Cleaning up all targets: failed: no room.",
			"Warning u1/finished-1: 2 targets disrupted, ended (failed: no room); no chaos pod is left, but not every node is known to be clean. Not all targets were injected.",
		}},
		{"the API server goes away before the watch of the injection answers", func(w *world) {
			w.injecting, w.wasInjected = 2*time.Hour, true
			w.unreachableUntil = w.env.Now().Add(2 * time.Hour)
		}, []string{
			"Info u1/began-1: Targets are chosen from 2026-11-20 12:00:00 UTC on; it ends at 2026-11-20 13:00:00 UTC.",
			"Info u1/ending-1: Cleaning up all targets: expired.",
			"Completion u1/finished-1: 2 targets disrupted, ended (expired), nothing is left.",
		}},
		{"it is not injected before it expires", func(w *world) { w.injecting = 2 * time.Hour }, []string{
			"Info u1/began-1: Targets are chosen from 2026-11-20 12:00:00 UTC on; it ends at 2026-11-20 13:00:00 UTC.",
			"Info u1/ending-1: Cleaning up all targets: expired.",
			"Warning u1/finished-1: 2 targets disrupted, ended (expired), nothing is left. Not all targets were injected.",
		}},
		{"it is rejected", func(w *world) { w.plan.Rejected = "count: must be positive" }, []string{
			"Error u1/rejected-1: Nothing is injected: count: must be positive",
		}},
		{"what an earlier workflow began is cleaned", func(w *world) { w.plan.CleanOnly = earlierRun }, []string{
			"Completion u1/finished-1: 0 targets disrupted, ended (an earlier workflow began it), nothing is left.",
		}},
		{"it is stuck, twice", func(w *world) {
			other := failedPod
			other.Pod = "chaos-2"
			w.cleans = []clean.Result{stuckPods, stuckPods, stuckPods, {Remaining: 1, Left: []chaospod.LeftPod{other}},
				{Remaining: 1, Left: []chaospod.LeftPod{other}}, {Remaining: 1, Left: []chaospod.LeftPod{other}}, {}}
			w.after(2*time.Hour, func() {
				w.env.SignalWorkflow(contract.SignalResume, contract.Resume{Action: contract.ActionRelease, By: "ann", Reason: "scrap"})
			})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			received := w.receives(t)
			c.play(w)
			w.run(t)
			got := received()
			if c.want == nil {
				wantStuckNotified(t, got)
				return
			}
			if diff := cmp.Diff(sorted(c.want), sorted(got)); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

func wantStuckNotified(t *testing.T, got []string) {
	t.Helper()
	all := strings.Join(got, "\n")
	for _, want := range []string{"Error u1/stuck-1: Not clean: 1 chaos pod, such as chaos-1 of target web-1 on node n1: qdisc busy. Fix the node", "Completion u1/finished-1: "} {
		if !strings.Contains(all, want) {
			t.Errorf("nobody was told %q:\n%s", want, all)
		}
	}
}

// No recipient gets notifications below its threshold, and without recipients nothing is
// started.
func TestNotificationsBelowTheThresholdAreNotSent(t *testing.T) {
	w := newWorld(t)
	received := w.receives(t)
	w.plan.Notify.Recipients[0].Least = v1beta1.NotificationCompletion
	w.run(t)
	if got := received(); len(got) != 1 || !strings.HasPrefix(got[0], "Completion u1/finished-1") {
		t.Errorf("told %q, want the end alone", got)
	}
	w = newWorld(t)
	received = w.receives(t)
	w.plan.Notify = nil
	w.run(t)
	if got := received(); got != nil {
		t.Errorf("told %q, and nobody wants to hear", got)
	}
}

// Rule M2: with a webhook that never answers everything takes as long as without one, by
// the workflow's clock.
func TestAWebhookThatNeverAnswersDelaysNothing(t *testing.T) {
	took := func(notified bool) (time.Duration, []string) {
		w := newWorld(t)
		if notified {
			w.notified(t)
			w.env.OnActivity(notifying.Notify, anything(2)...).After(time.Minute).Return(errors.New("the webhook cannot be reached"))
			w.env.OnActivity(notifying.GiveUpNotification, anything(2)...).Return(nil)
		}
		w.after(10*time.Minute, w.end)
		began := w.env.Now()
		w.run(t)
		return w.finishedAt.Sub(began), w.calls
	}
	alone, calls := took(false)
	beside, same := took(true)
	if diff := cmp.Diff(calls, same); diff != "" {
		t.Errorf("activities without and with a webhook that never answers:\n%s", diff)
	}
	if beside > alone+time.Second {
		t.Errorf("with a webhook that never answers it ended after %s, alone after %s", beside, alone)
	}
}

// A notification that fails does not stop the disruption.
func TestADisruptionGoesOnWithoutItsNotification(t *testing.T) {
	w := newWorld(t)
	w.notified(t)
	w.env.OnWorkflow(contract.NotificationWorkflowType, anything(2)...).Return(notification.Result{}, errors.New("it is broken"))
	if result := w.run(t); !strings.Contains(result.Summary, "nothing is left") {
		t.Errorf("result = %+v", result)
	}
	w.want(t, "prepare", "select", "create", "clean", "finish")
}
