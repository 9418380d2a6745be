package cron

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	temporalclient "go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// bridge has the controller of crons, and a real Temporal.
type bridge struct {
	*bridgetest.Bridge
	server    *temporalserver.Server
	schedules temporalclient.ScheduleClient
}

func start(t *testing.T) *bridge {
	t.Helper()
	return startOn(t, temporalserver.Shared(t))
}

func startOn(t *testing.T, server *temporalserver.Server) *bridge {
	t.Helper()
	there := server.Dial(temporalclient.DefaultNamespace)
	b := &bridge{server: server, schedules: there.ScheduleClient()}
	b.Bridge = bridgetest.New(t, bridgetest.Controllers(func(_ *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		workflows, err := temporal.Setup(m, there, prometheus.NewRegistry(), bridgetest.PollInterval)
		if err != nil {
			return err
		}
		return Setup(m, workflows, time.Minute)
	}))
	b.Start()
	return b
}

// create makes a cron that runs at noon.
func (b *bridge) create(name string) *v1beta1.DisruptionCron {
	b.T.Helper()
	one := intstr.FromInt(1)
	c := &v1beta1.DisruptionCron{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name},
		Spec: v1beta1.DisruptionCronSpec{
			Schedule: "30 12 13 * fri", TimeZone: "Europe/Berlin",
			Jitter: &v1beta1.Duration{Duration: time.Minute}, DelayedStartTolerance: &v1beta1.Duration{Duration: 7 * time.Minute},
			TargetResource: v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "shop"},
			DisruptionTemplate: v1beta1.DisruptionSpec{
				Faults: v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}}, Count: &one, Duration: &v1beta1.Duration{Duration: time.Minute},
			},
		},
	}
	b.Must(b.Kube.Create(b.T.Context(), c))
	left := c.DeepCopy()
	b.T.Cleanup(func() {
		_ = b.Kube.Delete(context.Background(), left)
		_ = b.Kube.Patch(context.Background(), left, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return c
}

// see reads c again; false if it is gone.
func (b *bridge) see(c *v1beta1.DisruptionCron) bool {
	b.T.Helper()
	now := &v1beta1.DisruptionCron{}
	err := b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(c), now)
	b.Must(client.IgnoreNotFound(err))
	*c = *now
	return err == nil
}

func (b *bridge) edit(c *v1beta1.DisruptionCron, spec string) {
	b.T.Helper()
	b.Must(b.Kube.Patch(b.T.Context(), c, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))))
}

// waitsFor waits until the condition of c has that reason, for its present spec.
func (b *bridge) waitsFor(c *v1beta1.DisruptionCron, reason string) metav1.Condition {
	b.T.Helper()
	var found metav1.Condition
	bridgetest.Eventually(b.T, bridgetest.Soon, c.Name+" has reason "+reason, func() bool {
		b.see(c)
		if condition := meta.FindStatusCondition(c.Status.Conditions, v1beta1.ConditionScheduled); condition != nil {
			found = *condition
		}
		return found.Reason == reason && found.ObservedGeneration == c.Generation
	})
	return found
}

// schedule is the schedule of c in Temporal; nil if it has none.
func (b *bridge) schedule(c *v1beta1.DisruptionCron) *temporalclient.Schedule {
	b.T.Helper()
	id := contract.CronScheduleID(contract.CronRef{Namespace: c.Namespace, Name: c.Name, UID: c.UID})
	found, err := b.schedules.GetHandle(b.T.Context(), id).Describe(b.T.Context())
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return nil
	}
	b.Must(err)
	return &found.Schedule
}

// rule C5
func TestACronHasItsSchedule(t *testing.T) {
	b := start(t)
	c := b.create("noon")
	b.waitsFor(c, reasonScheduled)
	if next := c.Status.NextScheduleTime; next == nil || next.Minute() != 30 || !next.After(time.Now()) {
		t.Errorf("next run %v, want one at half past in the future", next)
	}
	if !slices.Contains(c.Finalizers, v1beta1.CronFinalizer) {
		t.Errorf("finalizers %v, want ours", c.Finalizers)
	}
	s := b.schedule(c)
	action, ok := s.Action.(*temporalclient.ScheduleWorkflowAction)
	if !ok || action.Workflow != contract.CronWorkflowType || action.TaskQueue != contract.TaskQueue {
		t.Errorf("action = %+v, want a run", s.Action)
	}
	if s.Spec.TimeZoneName != "Europe/Berlin" || s.Spec.Jitter != time.Minute || len(s.Spec.Calendars) != 2 || s.State.Paused {
		t.Errorf("schedule = %+v, %+v, want two calendars of Berlin, since either day is enough", s.Spec, s.State)
	}
	if s.Policy.Overlap != enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL || s.Policy.CatchupWindow != 7*time.Minute {
		t.Errorf("policy = %+v", s.Policy)
	}

	b.edit(c, `{"schedule":"@every 2h"}`)
	bridgetest.Eventually(t, bridgetest.Soon, "an edit is in Temporal", func() bool {
		s := b.schedule(c)
		return len(s.Spec.Calendars) == 0 && len(s.Spec.Intervals) == 1 && s.Spec.Intervals[0].Every == 2*time.Hour
	})
	b.edit(c, `{"paused":true}`)
	b.waitsFor(c, reasonPaused)
	if c.Status.NextScheduleTime != nil {
		t.Errorf("next run %v of a cron that is paused", c.Status.NextScheduleTime)
	}
	bridgetest.Eventually(t, bridgetest.Soon, "it is paused in Temporal", func() bool { return b.schedule(c).State.Paused })
	b.edit(c, `{"paused":false}`)
	b.waitsFor(c, reasonScheduled)
	bridgetest.Eventually(t, bridgetest.Soon, "it is not paused any more", func() bool { return !b.schedule(c).State.Paused })

	for _, wrong := range []struct{ spec, reason string }{
		{`{"timeZone":"Mars/Base"}`, reasonInvalid}, {`{"timeZone":"","schedule":"* * * * *"}`, reasonTooFrequent},
	} {
		b.edit(c, wrong.spec)
		b.waitsFor(c, wrong.reason)
		if s := b.schedule(c); s != nil {
			t.Errorf("%s: Temporal has %+v, want none", wrong.reason, s.Spec)
		}
	}
	b.edit(c, `{"schedule":"@daily"}`)
	b.waitsFor(c, reasonScheduled)
	b.Must(b.Kube.Delete(t.Context(), c.DeepCopy()))
	bridgetest.Eventually(t, bridgetest.Soon, "the cron is gone", func() bool { return !b.see(c.DeepCopy()) })
	if s := b.schedule(c); s != nil {
		t.Errorf("the cron is gone, and Temporal has %+v", s.Spec)
	}
}

// Only the person who paused a schedule in Temporal unpauses it.
func TestAPauseInTemporalStays(t *testing.T) {
	b := start(t)
	c := b.create("noon")
	b.waitsFor(c, reasonScheduled)
	handle := b.schedules.GetHandle(t.Context(), contract.CronScheduleID(contract.CronRef{Namespace: c.Namespace, Name: c.Name, UID: c.UID}))
	b.Must(handle.Pause(t.Context(), temporalclient.SchedulePauseOptions{Note: "ann: a release"}))
	bridgetest.Eventually(t, bridgetest.Soon, "it is paused", func() bool { return b.schedule(c).State.Paused })
	b.edit(c, `{"schedule":"@daily"}`)
	if got := b.waitsFor(c, reasonPausedThere); !strings.Contains(got.Message, "ann: a release") || c.Status.NextScheduleTime != nil {
		t.Errorf("message %q, next run %v; want the note, and none", got.Message, c.Status.NextScheduleTime)
	}
	if s := b.schedule(c); !s.State.Paused || s.State.Note != "ann: a release" {
		t.Errorf("state = %+v, want it as ann left it", s.State)
	}
	b.Must(b.Kube.Delete(t.Context(), c))
}

// rule C5: the run is deleted first, and cleans up; another Disruption of its name stays.
func TestADeletedCronEndsItsRun(t *testing.T) {
	b := start(t)
	c, other := b.create("noon"), b.create("dusk")
	b.waitsFor(c, reasonScheduled)
	b.waitsFor(other, reasonScheduled)
	controller := true
	run := b.Create(c.ChildName(), func(d *v1beta1.Disruption) {
		d.Finalizers = []string{v1beta1.DisruptionFinalizer}
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionCron", Name: c.Name, UID: c.UID, Controller: &controller}}
	})
	namesake := b.Create(other.ChildName())
	b.Must(b.Kube.Delete(t.Context(), c.DeepCopy()))
	b.Must(b.Kube.Delete(t.Context(), other.DeepCopy()))
	bridgetest.Eventually(t, bridgetest.Soon, "the run is being deleted", func() bool { return b.Get(run).DeletionTimestamp != nil })
	bridgetest.Eventually(t, bridgetest.Soon, "the other cron is gone", func() bool { return !b.see(other.DeepCopy()) })
	b.waitsFor(c, reasonDeleted)
	if s := b.schedule(c); s != nil {
		t.Errorf("Temporal has %+v of a cron that is deleted", s.Spec)
	}
	b.Must(b.Kube.Patch(t.Context(), run, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	bridgetest.Eventually(t, bridgetest.Soon, "the cron is gone, after its run", func() bool { return !b.see(c.DeepCopy()) })
	if b.Get(namesake).DeletionTimestamp != nil {
		t.Error("a disruption that is no run of the cron was deleted")
	}
}

func TestACronReportsThatTemporalIsAway(t *testing.T) {
	b := startOn(t, temporalserver.New(t).Start())
	held := b.create("held")
	b.waitsFor(held, reasonScheduled)
	b.server.Kill()
	c := b.create("noon")
	b.waitsFor(c, "TemporalUnreachable")
	b.Must(b.Kube.Delete(t.Context(), held.DeepCopy()))
	b.waitsFor(held, "TemporalUnreachable")
	b.server.Start()
	b.waitsFor(c, reasonScheduled)
	bridgetest.Eventually(t, bridgetest.Soon, "the deleted one is gone", func() bool { return !b.see(held.DeepCopy()) })
	if s := b.schedule(held); s != nil {
		t.Errorf("Temporal has %+v of a cron that is gone", s.Spec)
	}
}
