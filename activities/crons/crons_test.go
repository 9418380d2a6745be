package crons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(temporalserver.Tests{M: m})) }

// cluster is a namespace of an API server with a deployment, and a Temporal.
type cluster struct {
	*testing.T
	*Activities
	objects   *status.Disruptions
	env       *testsuite.TestActivityEnvironment
	temporal  client.Client
	namespace string
	// events are the recorded events, without the times.
	events recorded
}

type recorded []string

var anyTime = regexp.MustCompile(`\d{4}-\S+Z`)

func (t *recorded) Of(_ context.Context, kind string, object metav1.Object, eventType, reason, message, _ string) {
	*t = append(*t, strings.Join([]string{kind, object.GetName(), eventType, reason, anyTime.ReplaceAllString(message, "TIME")}, " "))
}

// servers are the servers that the parts of a test share.
func servers(t *testing.T) func(*testing.T) *cluster {
	t.Helper()
	config := apiserver.Start(t)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := status.NewDisruptions(config)
	if err != nil {
		t.Fatal(err)
	}
	there := temporalserver.Shared(t).Dial(client.DefaultNamespace)
	return func(t *testing.T) *cluster {
		var suite testsuite.WorkflowTestSuite
		c := &cluster{T: t, objects: objects, temporal: there, env: suite.NewTestActivityEnvironment(),
			Activities: &Activities{Kube: kube, Client: objects.Client(), Stops: objects, Temporal: there, Gap: 3 * time.Second}}
		c.Events = &c.events
		c.env.RegisterActivity(c.Activities)
		made, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crons-"}}, metav1.CreateOptions{})
		c.must(err)
		c.namespace = made.Name
		return c
	}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// deployment creates the workload shop, which selects tier and, by an expression, app.
func (c *cluster) deployment() {
	c.Helper()
	labels := map[string]string{"tier": "web", "app": "shop"}
	_, err := c.Kube.AppsV1().Deployments(c.namespace).Create(c.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}},
		},
	}, metav1.CreateOptions{})
	c.must(err)
}

// cron creates a DisruptionCron for the deployment.
func (c *cluster) cron(change ...func(*v1beta1.DisruptionCronSpec)) contract.CronRef {
	c.Helper()
	one := intstr.FromInt(1)
	made := &v1beta1.DisruptionCron{
		ObjectMeta: metav1.ObjectMeta{Name: "noon"},
		Spec: v1beta1.DisruptionCronSpec{
			Schedule: "@daily", TargetResource: v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "shop"},
			DisruptionTemplate: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &one, Selector: map[string]string{"few": "yes"}},
		},
	}
	for _, f := range change {
		f(&made.Spec)
	}
	c.must(c.Client.Post().Namespace(c.namespace).Resource(crons).Body(made).Do(c.Context()).Into(made))
	return contract.CronRef{Namespace: c.namespace, Name: made.Name, UID: made.UID}
}

func (c *cluster) see(ref contract.CronRef) *v1beta1.DisruptionCron {
	c.Helper()
	found, err := c.get(c.Context(), ref)
	c.must(err)
	return found.object.(*v1beta1.DisruptionCron)
}

func (c *cluster) run(ref contract.CronRef) *v1beta1.Disruption {
	c.Helper()
	found, err := c.child(c.Context(), ref)
	c.must(err)
	return found
}

func (c *cluster) begin(ref contract.CronRef, at time.Time) Begun {
	c.Helper()
	answer, err := c.env.ExecuteActivity(c.BeginRun, BeginInput{Cron: ref, ScheduledAt: at})
	c.must(err)
	var begun Begun
	c.must(answer.Get(&begun))
	return begun
}

func (c *cluster) await(ref contract.CronRef, uid types.UID) (ended Ended, over bool) {
	c.Helper()
	answer, err := c.env.ExecuteActivity(c.AwaitRun, AwaitInput{Cron: ref, UID: uid})
	if goes, ok := errors.AsType[*temporal.ApplicationError](err); ok && goes.Type() == GoesOn {
		if goes.NextRetryDelay() != c.Gap {
			c.Errorf("asks to be called again in %s, want %s", goes.NextRetryDelay(), c.Gap)
		}
		return ended, false
	}
	c.must(err)
	c.must(answer.Get(&ended))
	return ended, true
}

// wantLast requires the condition LastRun with the reason.
func (c *cluster) wantLast(ref contract.CronRef, reason string, texts ...string) {
	c.Helper()
	last := meta.FindStatusCondition(c.see(ref).Status.Conditions, v1beta1.ConditionLastRun)
	if last == nil || last.Reason != reason || (last.Status == metav1.ConditionTrue) != (reason == Began) {
		c.Fatalf("LastRun = %+v, want %s", last, reason)
	}
	for _, text := range texts {
		if !strings.Contains(last.Message, text) {
			c.Errorf("LastRun says %q, want %q in it", last.Message, text)
		}
	}
}

// finalize is the last deed of a run's workflow.
func (c *cluster) finalize(d *v1beta1.Disruption) {
	c.Helper()
	c.must(c.objects.RemoveFinalizer(c.Context(), d.Ref(), func(*v1beta1.Disruption) error { return nil }))
}

// finish ends a run, as its own workflow does.
func (c *cluster) finish(d *v1beta1.Disruption, ending string, verdict v1beta1.Verdict) {
	c.Helper()
	cleaned := metav1.Date(2026, 11, 23, 12, 10, 0, 0, time.UTC)
	d.Status.Phase, d.Status.Ending, d.Status.CleanedAt = v1beta1.PhaseFinished, ending, &cleaned
	d.Status.SteadyState = &v1beta1.SteadyStateStatus{Verdict: verdict}
	c.must(c.Client.Put().Namespace(d.Namespace).Resource(disruptions).Name(d.Name).SubResource("status").Body(d).Do(c.Context()).Into(d))
	c.finalize(d)
}

// rule C6: a worker may die between creating a run and reporting it. If the run is
// deleted then, only the note that was written before shows that it began.
func TestARunThatIsDeletedBeforeItsReportBeginsOnce(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.cron()
	at := time.Now().UTC().Truncate(time.Second)
	parent, err := c.get(t.Context(), ref)
	c.must(err)
	d, _, err := c.Activities.begin(t.Context(), parent, BeginInput{Cron: ref, ScheduledAt: at}, nil)
	c.must(err)
	c.must(c.remove(t.Context(), d))
	if still := c.run(ref); still == nil || still.DeletionTimestamp == nil {
		t.Fatalf("the run is %v: deleted before the bridge has seen it, nobody could note it", still)
	}
	c.must(Note(t.Context(), c.Client, d))
	c.finalize(d)
	if again := c.begin(ref, at); again.Reason != Began || again.UID != d.UID || c.run(ref) != nil {
		t.Errorf("begun again %+v, there is %v", again, c.run(ref))
	}
	c.wantLast(ref, Began, at.Format(time.RFC3339))
	reported := c.see(ref)
	if s := reported.Status; len(s.History) != 1 || s.History[0].UID != d.UID || s.LastScheduleTime == nil || !s.LastScheduleTime.Time.Equal(at) {
		t.Errorf("status %+v, want the run in it", s)
	}
	c.must(Note(t.Context(), c.Client, d))
	if diff := cmp.Diff(reported.Status, c.see(ref).Status); diff != "" {
		t.Errorf("noted once more (-before +after):\n%s", diff)
	}
}

// rule C6: a run begins once for each time, one at a time, marked as its
// DisruptionCron's, and only on the pods of the workload.
func TestARunIsBegunOnce(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.cron()
	at := time.Now().Truncate(time.Second)
	begun := c.begin(ref, at)
	d := c.run(ref)
	if begun.Reason != Began || d == nil || begun.UID != d.UID {
		t.Fatalf("begun = %+v, disruption %v", begun, d)
	}
	if !c.see(ref).Owns(d) || d.Labels[v1beta1.LabelCron] != "noon" || d.Annotations[v1beta1.AnnotationScheduledAt] != at.UTC().Format(time.RFC3339) || d.Name != "disruption-cron-noon" {
		t.Errorf("the run is not marked as one: %+v", d.ObjectMeta)
	}
	if diff := cmp.Diff(map[string]string{"few": "yes", "tier": "web"}, d.Spec.Selector); diff != "" || len(d.Spec.AdvancedSelector) != 1 || d.Spec.AdvancedSelector[0].Key != "app" {
		t.Errorf("selects %v and %v, want the template's and the workload's", d.Spec.Selector, d.Spec.AdvancedSelector)
	}
	c.wantLast(ref, Began, at.UTC().Format(time.RFC3339))
	if last := c.see(ref).Status.LastScheduleTime; last == nil || !last.Time.Equal(at) {
		t.Errorf("lastScheduleTime = %v, want %s", last, at)
	}
	if again := c.begin(ref, at); again != begun || len(c.see(ref).Status.History) != 1 {
		t.Errorf("begun again: %+v, history %+v; want the same, once", again, c.see(ref).Status.History)
	}
	if next := c.begin(ref, at.Add(time.Second)); next.Reason != Overlap {
		t.Errorf("begun while the run before goes on: %+v", next)
	}
	c.wantLast(ref, Overlap)

	if _, over := c.await(ref, d.UID); over {
		t.Error("it is said to be over, and goes on")
	}
	c.finish(d, "expired", v1beta1.VerdictPassed)
	ended, over := c.await(ref, d.UID)
	if !over || ended != (Ended{"expired", v1beta1.VerdictPassed}) {
		t.Errorf("ended = %+v, %t", ended, over)
	}
	history := c.see(ref).Status.History
	if len(history) != 1 || history[0].Verdict != v1beta1.VerdictPassed || history[0].Ending != "expired" || history[0].EndedAt == nil || !history[0].ScheduledAt.Time.Equal(at) {
		t.Errorf("history = %+v", history)
	}
	want := recorded{
		"DisruptionCron noon Normal RunBegan the run of TIME: its disruption was created",
		"DisruptionCron noon Warning RunOverlap the run of TIME: the run before it is not over",
		"DisruptionCron noon Normal RunEnded the run of TIME: its disruption is over: expired, Passed",
	}
	if diff := cmp.Diff(want, c.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// The next run gets the name.
	next := c.begin(ref, at.Add(2*time.Second))
	if now := c.run(ref); next.Reason != Began || now.UID == d.UID || len(c.see(ref).Status.History) != 2 {
		t.Errorf("begun = %+v, %s after %s", next, now.UID, d.UID)
	}
	// The run is deleted, and the answer to the first attempt was lost.
	deleted := c.run(ref)
	c.must(c.remove(t.Context(), deleted))
	c.finalize(deleted)
	if again := c.begin(ref, at.Add(2*time.Second)); again != next || c.run(ref) != nil {
		t.Errorf("begun = %+v, want %+v and nothing new", again, next)
	}
	if ended, over := c.await(ref, next.UID); !over || ended.Ending != v1beta1.EndingNeverBegan {
		t.Errorf("ended = %+v, %t, want %s: it has no workflow", ended, over, v1beta1.EndingNeverBegan)
	}
	if history := c.see(ref).Status.History; history[1].Ending != v1beta1.EndingNeverBegan {
		t.Errorf("history = %+v, want that the last run never began", history)
	}
}

// rule C6
func TestWhatKeepsARunFromBeginning(t *testing.T) {
	in := servers(t)
	now := time.Now().Truncate(time.Second)
	for _, part := range []struct {
		name, reason string
		texts        []string
		test         func(*cluster) (contract.CronRef, time.Time)
	}{
		{"its time is long over", TooLate, []string{"delayedStartTolerance is 5m0s"}, func(c *cluster) (contract.CronRef, time.Time) {
			c.deployment()
			return c.cron(), now.Add(-6 * time.Minute)
		}},
		{"it is paused", Paused, nil, func(c *cluster) (contract.CronRef, time.Time) {
			c.deployment()
			return c.cron(func(s *v1beta1.DisruptionCronSpec) { s.Paused = true }), now
		}},
		{"there is no workload", TargetMissing, []string{"deployment shop"}, func(c *cluster) (contract.CronRef, time.Time) { return c.cron(), now }},
		{"there is no such set", TargetMissing, []string{"statefulset shop"}, func(c *cluster) (contract.CronRef, time.Time) {
			c.deployment()
			return c.cron(func(s *v1beta1.DisruptionCronSpec) { s.TargetResource.Kind = v1beta1.TargetStatefulSet }), now
		}},
		{"somebody else's disruption has the name", NameTaken, []string{"disruption-cron-noon"}, func(c *cluster) (contract.CronRef, time.Time) {
			c.deployment()
			ref := c.cron()
			d := disruptionOf(ofCron(c.see(ref)), metav1.LabelSelector{}, now)
			d.OwnerReferences = nil
			c.must(c.Client.Post().Namespace(c.namespace).Resource(disruptions).Body(d).Do(c.Context()).Error())
			return ref, now
		}},
		{"the API server refuses it", Refused, []string{"at most 64"}, func(c *cluster) (contract.CronRef, time.Time) {
			c.deployment()
			return c.cron(func(s *v1beta1.DisruptionCronSpec) {
				for i := range 64 {
					s.DisruptionTemplate.Selector[fmt.Sprint("label-", i)] = "x"
				}
				delete(s.DisruptionTemplate.Selector, "few")
			}), now
		}},
	} {
		t.Run(part.name, func(t *testing.T) {
			c := in(t)
			ref, at := part.test(c)
			if begun := c.begin(ref, at); begun.Reason != part.reason {
				t.Errorf("begun = %+v, want %s", begun, part.reason)
			}
			if d := c.run(ref); d != nil && c.see(ref).Owns(d) {
				t.Error("it began nevertheless")
			}
			c.wantLast(ref, part.reason, part.texts...)
			if missing := c.see(ref).Status.TargetResourcePreviouslyMissing; (missing != nil) != (part.reason == TargetMissing) {
				t.Errorf("targetResourcePreviouslyMissing = %v", missing)
			}
		})
	}
	t.Run("jitter is no lateness", func(t *testing.T) {
		c := in(t)
		c.deployment()
		ref := c.cron(func(s *v1beta1.DisruptionCronSpec) { s.Jitter = &v1beta1.Duration{Duration: time.Hour} })
		if begun := c.begin(ref, now.Add(-time.Hour)); begun.Reason != Began {
			t.Errorf("begun = %+v", begun)
		}
	})
}

// rule C6: an emergency stop holds schedules.
func TestNoRunDuringAnEmergencyStop(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.cron()
	stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "crons"}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"}}
	c.must(c.Client.Post().Resource("emergencystops").Body(stop).Do(t.Context()).Error())
	remove := func() error {
		return c.Client.Delete().Resource("emergencystops").Name(stop.Name).Do(t.Context()).Error()
	}
	t.Cleanup(func() { _ = c.Client.Delete().Resource("emergencystops").Name(stop.Name).Do(t.Context()).Error() })
	at := time.Now().Truncate(time.Second)
	if begun := c.begin(ref, at); begun.Reason != EmergencyStop || c.run(ref) != nil {
		t.Errorf("begun = %+v, %v, want nothing", begun, c.run(ref))
	}
	c.wantLast(ref, EmergencyStop, "payment is down")
	c.must(remove())
	if begun := c.begin(ref, at.Add(time.Second)); begun.Reason != Began {
		t.Errorf("begun = %+v once it is called off", begun)
	}
}

// An emergency stop that came and went while a run waited ends that run, and does not
// affect later runs.
func TestARunThatMetAnEmergencyStopNeverBegins(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	met := time.Now().Truncate(time.Second)
	cron, rollout := c.cron(), c.rollout(1)
	for resource, name := range map[string]string{crons: cron.Name, rollouts: rollout.Name} {
		mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1beta1.AnnotationStopped, v1beta1.StoppedMark(met, "emergency stop fire: payment is down"))
		c.must(c.Client.Patch(types.MergePatchType).Namespace(cron.Namespace).Resource(resource).Name(name).Body([]byte(mark)).Do(t.Context()).Error())
	}
	if begun := c.begin(cron, met); begun.Reason != EmergencyStop || c.run(cron) != nil {
		t.Errorf("begun = %+v, want nothing", begun)
	}
	c.wantLast(cron, EmergencyStop, "payment is down")
	if begun := c.begin(cron, met.Add(time.Second)); begun.Reason != Began {
		t.Errorf("begun = %+v for a time after the stop", begun)
	}
	// The release waited for its rollout when the stop was created.
	release := c.rolledOut(true, 1, met)
	if begun := c.beginFor(rollout, release); begun.Reason != EmergencyStop || c.run(rollout) != nil {
		t.Errorf("begun = %+v, want nothing", begun)
	}
	c.wantRollout(rollout, EmergencyStop, "payment is down")
	release.Number, release.SeenAt = 2, met.Add(time.Second)
	if begun := c.beginFor(rollout, release); begun.Reason != Began {
		t.Errorf("begun = %+v for a release after the stop", begun)
	}
}

// rollout creates a DisruptionRollout for the deployment, which has seen so many
// releases.
func (c *cluster) rollout(releases int64, change ...func(*v1beta1.DisruptionRolloutSpec)) contract.CronRef {
	c.Helper()
	one := intstr.FromInt(1)
	made := &v1beta1.DisruptionRollout{
		ObjectMeta: metav1.ObjectMeta{Name: "releases"},
		Spec: v1beta1.DisruptionRolloutSpec{
			TargetResource:     v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "shop"},
			DisruptionTemplate: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Count: &one},
		},
	}
	for _, f := range change {
		f(&made.Spec)
	}
	c.must(c.Client.Post().Namespace(c.namespace).Resource(rollouts).Body(made).Do(c.Context()).Into(made))
	made.Status.Releases = releases
	c.must(c.Client.Put().Namespace(c.namespace).Resource(rollouts).Name(made.Name).SubResource("status").Body(made).Do(c.Context()).Into(made))
	return contract.CronRef{Namespace: c.namespace, Name: made.Name, UID: made.UID, Kind: v1beta1.KindDisruptionRollout}
}

// rolledOut gives the deployment a status in which all of its pods are new, or none,
// and returns its release.
func (c *cluster) rolledOut(done bool, number int64, at time.Time) contract.Release {
	c.Helper()
	d, err := c.Kube.AppsV1().Deployments(c.namespace).Get(c.Context(), "shop", metav1.GetOptions{})
	c.must(err)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
	if done {
		d.Status.UpdatedReplicas = 1
	}
	_, err = c.Kube.AppsV1().Deployments(c.namespace).UpdateStatus(c.Context(), d, metav1.UpdateOptions{})
	c.must(err)
	release := kube.ReleaseOf(d.Spec.Template.Spec)
	return contract.Release{Number: number, SeenAt: at, Containers: release.Containers, InitContainers: release.InitContainers}
}

// beginFor begins the run for a release; begun has no reason while the run waits.
func (c *cluster) beginFor(ref contract.CronRef, r contract.Release) (begun Begun) {
	c.Helper()
	answer, err := c.env.ExecuteActivity(c.BeginRun, BeginInput{Cron: ref, ScheduledAt: r.SeenAt, Release: &r})
	if goes, ok := errors.AsType[*temporal.ApplicationError](err); ok && goes.Type() == GoesOn {
		return Begun{}
	}
	c.must(err)
	c.must(answer.Get(&begun))
	return begun
}

// wantRollout requires the condition LastRun of a DisruptionRollout with the reason.
func (c *cluster) wantRollout(ref contract.CronRef, reason string, texts ...string) *v1beta1.DisruptionRollout {
	c.Helper()
	found, err := c.get(c.Context(), ref)
	c.must(err)
	last := meta.FindStatusCondition(*found.conditions, v1beta1.ConditionLastRun)
	if last == nil || last.Reason != reason {
		c.Fatalf("LastRun = %+v, want %s", last, reason)
	}
	for _, text := range texts {
		if !strings.Contains(last.Message, text) {
			c.Errorf("LastRun says %q, want %q in it", last.Message, text)
		}
	}
	return found.object.(*v1beta1.DisruptionRollout)
}

// rule C9: the run for a release waits until that is rolled out and the run before it
// is over.
func TestTheRunForARelease(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.rollout(1)
	at := time.Now().Truncate(time.Second)
	one := c.rolledOut(false, 1, at)
	if begun := c.beginFor(ref, one); begun.Reason != "" || c.run(ref) != nil {
		t.Errorf("begun = %+v before its release is rolled out", begun)
	}
	c.wantRollout(ref, Waiting, "not rolled out", "0 are of the new template")
	c.rolledOut(true, 1, at)
	begun := c.beginFor(ref, one)
	d := c.run(ref)
	r := c.wantRollout(ref, Began)
	if begun.Reason != Began || d == nil || !r.Owns(d) || d.Name != "disruption-rollout-releases" || d.Labels[v1beta1.LabelRollout] != "releases" || d.Spec.Selector["tier"] != "web" {
		t.Fatalf("begun = %+v, %+v", begun, d)
	}
	if again := c.beginFor(ref, one); again != begun {
		t.Errorf("begun again: %+v, want %+v", again, begun)
	}
	two := one
	two.Number, two.SeenAt = 2, at.Add(time.Second)
	if begun := c.beginFor(ref, two); begun.Reason != "" {
		t.Errorf("begun = %+v while the run before goes on", begun)
	}
	c.wantRollout(ref, Waiting, "the run before it is not over")
	c.finish(d, "expired", v1beta1.VerdictPassed)
	if ended, over := c.await(ref, d.UID); !over || ended.Ending != "expired" {
		t.Errorf("ended = %+v, %t", ended, over)
	}
	if begun := c.beginFor(ref, two); begun.Reason != Began {
		t.Errorf("begun = %+v once the run before is over", begun)
	}
	if r := c.wantRollout(ref, Began); len(r.Status.History) != 2 || r.Status.History[0].Verdict != v1beta1.VerdictPassed {
		t.Errorf("history = %+v", r.Status.History)
	}
}

// rule C9
func TestWhatKeepsTheRunForAReleaseFromBeginning(t *testing.T) {
	in := servers(t)
	now := time.Now().Truncate(time.Second)
	for _, part := range []struct {
		name, reason, texts string
		done                bool
		change              func(*v1beta1.DisruptionRolloutSpec, *contract.Release)
	}{
		{"it is paused", Paused, "spec.paused", true, func(s *v1beta1.DisruptionRolloutSpec, _ *contract.Release) { s.Paused = true }},
		{"it never is rolled out", TooLate, "of 1 pods wanted 0 are of the new template", false, func(_ *v1beta1.DisruptionRolloutSpec, r *contract.Release) { r.SeenAt = now.Add(-time.Hour) }},
		{"it is taken back", TooLate, "changed again", true, func(_ *v1beta1.DisruptionRolloutSpec, r *contract.Release) {
			r.SeenAt, r.Containers = now.Add(-time.Hour), "another"
		}},
		{"Squall was away", TooLate, "delayedStartTolerance is 15m0s", true, func(_ *v1beta1.DisruptionRolloutSpec, r *contract.Release) { r.SeenAt = now.Add(-time.Hour) }},
		{"there is no such set", TargetMissing, "statefulset shop", true, func(s *v1beta1.DisruptionRolloutSpec, _ *contract.Release) {
			s.TargetResource.Kind = v1beta1.TargetStatefulSet
		}},
		{"a later one was seen", Superseded, "", true, func(_ *v1beta1.DisruptionRolloutSpec, r *contract.Release) { r.Number = 1 }},
	} {
		t.Run(part.name, func(t *testing.T) {
			c := in(t)
			c.deployment()
			release := c.rolledOut(part.done, 2, now)
			ref := c.rollout(2, func(s *v1beta1.DisruptionRolloutSpec) { part.change(s, &release) })
			if begun := c.beginFor(ref, release); begun.Reason != part.reason || c.run(ref) != nil {
				t.Errorf("begun = %+v, %v; want %s and nothing", begun, c.run(ref), part.reason)
			}
			if part.reason != Superseded {
				c.wantRollout(ref, part.reason, part.texts)
			}
		})
	}
}

// rules C5, C6: an emergency stop holds DisruptionRollouts, and a DisruptionRollout
// that is gone has no run.
func TestARolloutIsHeldAndGoes(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.rollout(1)
	release := c.rolledOut(true, 1, time.Now().Truncate(time.Second))
	stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "rollouts"}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"}}
	c.must(c.Client.Post().Resource("emergencystops").Body(stop).Do(t.Context()).Error())
	t.Cleanup(func() {
		_ = c.Client.Delete().Resource("emergencystops").Name(stop.Name).Do(context.Background()).Error()
	})
	if begun := c.beginFor(ref, release); begun.Reason != EmergencyStop || c.run(ref) != nil {
		t.Errorf("begun = %+v, want nothing", begun)
	}
	c.wantRollout(ref, EmergencyStop, "payment is down")
	c.must(c.Client.Delete().Resource("emergencystops").Name(stop.Name).Do(t.Context()).Error())
	release.Number, release.SeenAt = 2, release.SeenAt.Add(time.Second)
	begun := c.beginFor(ref, release)
	c.must(c.Client.Delete().Namespace(ref.Namespace).Resource(rollouts).Name(ref.Name).Do(t.Context()).Error())
	if _, over := c.await(ref, begun.UID); over || c.run(ref).DeletionTimestamp == nil {
		t.Errorf("over = %t, want the run deleted", over)
	}
	c.finalize(c.run(ref))
	if gone := c.beginFor(ref, release); gone.Reason != Gone {
		t.Errorf("begun = %+v, want nothing", gone)
	}
}

// rule C6: a run that began is reported so, also if its DisruptionCron is being deleted
// by then.
func TestARunOfACronThatGoes(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.cron()
	live := c.see(ref)
	live.Finalizers = []string{v1beta1.CronFinalizer}
	c.must(c.Client.Put().Namespace(ref.Namespace).Resource(crons).Name(ref.Name).Body(live).Do(t.Context()).Error())
	at := time.Now()
	begun := c.begin(ref, at)
	c.must(c.Client.Delete().Namespace(ref.Namespace).Resource(crons).Name(ref.Name).Do(t.Context()).Error())
	if again := c.begin(ref, at); again != begun {
		t.Errorf("begun = %+v, want %+v", again, begun)
	}
	if gone := c.begin(ref, at.Add(time.Minute)); gone.Reason != Gone {
		t.Errorf("begun = %+v, want nothing", gone)
	}
	c.wantLast(ref, Began)
}

// rule C5: the rest of a DisruptionCron whose finalizer was removed by force ends.
func TestACronThatIsGone(t *testing.T) {
	c := servers(t)(t)
	c.deployment()
	ref := c.cron()
	live := c.see(ref)
	times, err := schedule.Parse(live.Spec)
	c.must(err)
	_, _, err = start.KeepSchedule(t.Context(), c.temporal.ScheduleClient(), ref, live.Spec, times)
	c.must(err)
	begun := c.begin(ref, time.Now())
	c.must(c.Client.Delete().Namespace(ref.Namespace).Resource(crons).Name(ref.Name).Do(t.Context()).Error())

	if _, over := c.await(ref, begun.UID); over || c.run(ref).DeletionTimestamp == nil {
		t.Errorf("over = %t, want the run deleted, and waited for", over)
	}
	if gone := c.begin(ref, time.Now()); gone.Reason != Gone {
		t.Errorf("begun = %+v, want nothing", gone)
	}
	_, err = c.temporal.ScheduleClient().GetHandle(t.Context(), contract.CronScheduleID(ref)).Describe(t.Context())
	if _, none := errors.AsType[*serviceerror.NotFound](err); !none {
		t.Errorf("its schedule: %v, want none", err)
	}
}

// A run whose object is gone ended as its workflow reports, once that has ended.
func TestTheEndOfARunWithoutItsObject(t *testing.T) {
	c := servers(t)(t)
	ref := c.cron()
	w := worker.New(c.temporal, "played", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (Ended, error) {
		workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
		return Ended{"expired", v1beta1.VerdictFailed}, nil
	}, workflow.RegisterOptions{Name: "played"})
	c.must(w.Start())
	t.Cleanup(w.Stop)
	id := contract.WorkflowID(v1beta1.DisruptionRef{Namespace: ref.Namespace, Name: "disruption-cron-noon", UID: "u1"})
	_, err := c.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "played", WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}, "played")
	c.must(err)
	if _, over := c.await(ref, "u1"); over {
		t.Error("over, and its workflow still cleans")
	}
	c.must(c.temporal.SignalWorkflow(t.Context(), id, "", "end", nil))
	c.must(c.temporal.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
	if ended, over := c.await(ref, "u1"); !over || ended != (Ended{"expired", v1beta1.VerdictFailed}) {
		t.Errorf("ended = %+v, %t, want what its workflow says", ended, over)
	}
	if _, err := c.get(t.Context(), contract.CronRef{Namespace: ref.Namespace, Name: ref.Name, UID: "another"}); !apierrors.IsNotFound(err) {
		t.Errorf("another cron of the name: %v, want not found", err)
	}
}

// The workload's labels never widen the template's selector.
func TestLabelsOfTheWorkloadNarrowDown(t *testing.T) {
	c := &v1beta1.DisruptionCron{ObjectMeta: metav1.ObjectMeta{Name: "noon"}}
	c.Spec.DisruptionTemplate.Selector = map[string]string{"app": "cart"}
	c.Spec.Reporting = &v1beta1.Reporting{SlackChannel: "team"}
	c.Annotations = v1beta1.Requester{User: "ann", Groups: []string{"shop"}}.Annotations()
	c.Annotations[v1beta1.AnnotationEnvironment] = "staging"
	d := disruptionOf(ofCron(c), metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop", "tier": "web"}}, time.Now())
	if diff := cmp.Diff(map[string]string{"app": "cart", "tier": "web"}, d.Spec.Selector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	want := []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"shop"}}}
	if diff := cmp.Diff(want, d.Spec.AdvancedSelector); diff != "" {
		t.Errorf("advancedSelector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.Annotations, v1beta1.JudgedAnnotations(d)); diff != "" || d.Annotations[v1beta1.AnnotationScheduledAt] == "" {
		t.Errorf("annotations %v, want who asked for the cron, and its environment (-want +got):\n%s", d.Annotations, diff)
	}
	if d.Spec.Reporting == nil || d.Spec.Reporting.SlackChannel != "team" {
		t.Errorf("reporting = %v, want that of the cron", d.Spec.Reporting)
	}
	if len(c.Spec.DisruptionTemplate.Selector) != 1 || c.Spec.DisruptionTemplate.AdvancedSelector != nil {
		t.Error("the cron itself was changed")
	}
}
