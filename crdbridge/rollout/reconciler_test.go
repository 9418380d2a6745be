package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// bridge has the controller of rollouts, and a real Temporal.
type bridge struct {
	*bridgetest.Bridge
	server *temporalserver.Server
	there  temporalclient.Client
	apps   *kubernetes.Clientset
}

func begin(t *testing.T) *bridge {
	t.Helper()
	return beginOn(t, temporalserver.Shared(t))
}

func beginOn(t *testing.T, server *temporalserver.Server) *bridge {
	t.Helper()
	b := &bridge{server: server, there: server.Dial(temporalclient.DefaultNamespace)}
	b.Bridge = bridgetest.New(t, bridgetest.Controllers(func(_ *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		workflows, err := temporal.Setup(m, b.there, prometheus.NewRegistry(), bridgetest.PollInterval)
		if err != nil {
			return err
		}
		return Setup(m, workflows)
	}))
	apps, err := kubernetes.NewForConfig(apiserver.Start(t))
	b.Must(err)
	b.apps = apps
	b.Start()
	return b
}

// deploy makes the deployment shop, with a secret in its environment.
func (b *bridge) deploy() {
	b.T.Helper()
	labels := map[string]string{"app": "shop"}
	_, err := b.apps.AppsV1().Deployments(b.Namespace).Create(b.T.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "shop:1", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}},
			}}}},
		},
	}, metav1.CreateOptions{})
	b.Must(err)
}

// edit changes the deployment.
func (b *bridge) edit(patch string) {
	b.T.Helper()
	_, err := b.apps.AppsV1().Deployments(b.Namespace).Patch(b.T.Context(), "shop", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	b.Must(err)
}

// release gives the container another image.
func (b *bridge) release(n int) {
	b.T.Helper()
	b.edit(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"shop:%d"}]}}}}`, n))
}

func (b *bridge) create(name string) *v1beta1.DisruptionRollout {
	b.T.Helper()
	one := intstr.FromInt(1)
	r := &v1beta1.DisruptionRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name},
		Spec: v1beta1.DisruptionRolloutSpec{
			TargetResource:     v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "shop"},
			DisruptionTemplate: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}}, Count: &one},
		},
	}
	b.Must(b.Kube.Create(b.T.Context(), r))
	left := r.DeepCopy()
	b.T.Cleanup(func() {
		_ = b.Kube.Delete(context.Background(), left)
		_ = b.Kube.Patch(context.Background(), left, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return r
}

// see reads r again; false if it is gone.
func (b *bridge) see(r *v1beta1.DisruptionRollout) bool {
	b.T.Helper()
	now := &v1beta1.DisruptionRollout{}
	err := b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(r), now)
	b.Must(client.IgnoreNotFound(err))
	*r = *now
	return err == nil
}

// waitsFor waits until the condition of r has that reason, for its present spec.
func (b *bridge) waitsFor(r *v1beta1.DisruptionRollout, reason string) {
	b.T.Helper()
	bridgetest.Eventually(b.T, bridgetest.Soon, r.Name+" has reason "+reason, func() bool {
		b.see(r)
		found := meta.FindStatusCondition(r.Status.Conditions, v1beta1.ConditionWatching)
		return found != nil && found.Reason == reason && found.ObservedGeneration == r.Generation
	})
}

// released waits until n releases were seen and their workflows started.
func (b *bridge) released(r *v1beta1.DisruptionRollout, n int64) contract.Release {
	b.T.Helper()
	bridgetest.Eventually(b.T, bridgetest.Soon, fmt.Sprintf("release %d of %s was started for", n, r.Name), func() bool {
		b.see(r)
		return r.Status.StartedRelease >= n
	})
	if r.Status.Releases != n || r.Status.StartedRelease != n || (r.Status.LastContainerChangeTime == nil) != (n == 0) {
		b.T.Fatalf("%d releases, %d of them started for, the last at %v; want %d", r.Status.Releases, r.Status.StartedRelease, r.Status.LastContainerChangeTime, n)
	}
	release := contract.Release{Number: n, Containers: r.Status.LatestContainersHash, InitContainers: r.Status.LatestInitContainersHash}
	if n > 0 {
		release.SeenAt = r.Status.LastContainerChangeTime.UTC()
	}
	return release
}

// started is the input of the workflow for a release, nil if there is none.
func (b *bridge) started(r *v1beta1.DisruptionRollout, release contract.Release) *contract.CronInput {
	b.T.Helper()
	id := contract.RolloutWorkflowID(contract.CronRef{Namespace: r.Namespace, Name: r.Name, UID: r.UID}, release)
	history := b.there.GetWorkflowHistory(b.T.Context(), id, "", false, 0)
	event, err := history.Next()
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return nil
	}
	b.Must(err)
	attributes := event.GetWorkflowExecutionStartedEventAttributes()
	if attributes.WorkflowType.Name != contract.RolloutWorkflowType || attributes.TaskQueue.Name != contract.TaskQueue {
		b.T.Errorf("workflow %s is a %s", id, attributes.WorkflowType.Name)
	}
	var in contract.CronInput
	b.Must(converter.GetDefaultDataConverter().FromPayloads(attributes.Input, &in))
	return &in
}

// rules C7, C8
func TestAReleaseBeginsOneWorkflow(t *testing.T) {
	b := begin(t)
	b.deploy()
	r := b.create("releases")
	b.waitsFor(r, reasonWatching)
	first := b.released(r, 0) // the first sight is none
	if !slices.Contains(r.Finalizers, v1beta1.CronFinalizer) || first.Containers == "" || r.Status.ObservedTarget != "deployment shop" {
		t.Errorf("finalizers %v, status %+v", r.Finalizers, r.Status)
	}
	// No edit of these is a release; the edit after them is the first.
	b.edit(`{"spec":{"replicas":3}}`)
	b.edit(`{"metadata":{"labels":{"team":"web"}},"spec":{"template":{"metadata":{"labels":{"build":"7"},"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	b.release(2)
	one := b.released(r, 1)
	in := b.started(r, one)
	if in == nil || in.Release == nil || *in.Release != one || in.Cron.UID != r.UID || !in.Cron.Rollout() {
		t.Errorf("started with %+v, want %+v", in, one)
	}
	// A value of the environment is a release too, and is stored nowhere else.
	b.edit(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"PASSWORD","value":"hunter3"}]}]}}}}`)
	b.released(r, 2)
	text, err := yaml.Marshal(r.Status)
	b.Must(err)
	if strings.Contains(string(text), "hunter") || strings.Contains(string(text), "PASSWORD") || len(r.Status.LatestContainersHash) != 64 {
		t.Errorf("status tells what is in the containers:\n%s", text)
	}
	// An edit back to earlier containers is a release like any other, later than the one
	// before.
	b.edit(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"PASSWORD","value":"hunter2"}]}]}}}}`)
	if back := b.released(r, 3); back.Containers != one.Containers || !back.SeenAt.After(one.SeenAt) || b.started(r, back) == nil {
		t.Errorf("release 3 is %+v, and its workflow started with %+v", back, b.started(r, back))
	}
	b.edit(`{"spec":{"template":{"spec":{"initContainers":[{"name":"init","image":"init"}]}}}}`)
	b.released(r, 4)

	b.Must(b.Kube.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))))
	b.waitsFor(r, reasonPaused)
	b.Must(b.Kube.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":false,"targetResource":{"kind":"statefulset"}}}`))))
	b.waitsFor(r, reasonMissing)
	if r.Status.TargetResourcePreviouslyMissing == nil {
		t.Error("status lacks since when the workload is missing")
	}
	b.Must(b.Kube.Patch(t.Context(), r, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"targetResource":{"kind":"deployment"}}}`))))
	b.waitsFor(r, reasonWatching)
	if b.released(r, 4); r.Status.TargetResourcePreviouslyMissing != nil {
		t.Error("the workload exists, and status has it as missing")
	}
}

// rule C8: no release is lost while the bridge or Temporal is away, and only the last of
// several counts.
func TestAReleaseWhileTheBridgeIsAway(t *testing.T) {
	b := beginOn(t, temporalserver.New(t).Start())
	b.deploy()
	r := b.create("releases")
	b.waitsFor(r, reasonWatching)
	b.Stop()
	b.release(2)
	b.release(3)
	b.Start()
	one := b.released(r, 1)
	if b.started(r, one) == nil {
		t.Error("no workflow for the release of while the bridge was away")
	}
	b.server.Kill()
	b.release(4)
	b.waitsFor(r, "TemporalUnreachable")
	seen := r.Status.LastContainerChangeTime
	b.server.Start()
	two := b.released(r, 2)
	b.waitsFor(r, reasonWatching)
	if in := b.started(r, two); in == nil || !in.Release.SeenAt.Equal(seen.Time) {
		t.Errorf("started with %+v, want what was seen at %s", in, seen)
	}
}

// The bridge restarts a workflow that a person terminated, though nothing in the cluster
// changes; it does not restart one that completed. N6
func TestAWorkflowOfARolloutIsTerminated(t *testing.T) {
	b := begin(t)
	b.deploy()
	r := b.create("releases")
	b.waitsFor(r, reasonWatching)
	b.release(2)
	release := b.released(r, 1)
	id := contract.RolloutWorkflowID(contract.CronRef{Namespace: r.Namespace, Name: r.Name, UID: r.UID}, release)
	b.Must(b.there.TerminateWorkflow(t.Context(), id, "", "a person did it"))
	bridgetest.Eventually(t, bridgetest.Soon, "another workflow has begun", func() bool {
		found, err := b.there.DescribeWorkflowExecution(t.Context(), id, "")
		b.Must(err)
		return found.WorkflowExecutionInfo.CloseTime == nil
	})
	if in := b.started(r, release); in == nil || *in.Release != release {
		t.Errorf("started again with %+v, want %+v", in, release)
	}
}

func TestUnfinished(t *testing.T) {
	at, before := metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour))
	for name, c := range map[string]struct {
		history []v1beta1.DisruptionRun
		want    bool
	}{
		"no run":                      {nil, false},
		"its run has not ended":       {[]v1beta1.DisruptionRun{{ScheduledAt: &before, EndedAt: &at}, {ScheduledAt: &at}}, true},
		"its run has ended":           {[]v1beta1.DisruptionRun{{ScheduledAt: &at, EndedAt: &at}}, false},
		"a run of an earlier release": {[]v1beta1.DisruptionRun{{ScheduledAt: &before}}, false},
		"a run of an unknown release": {[]v1beta1.DisruptionRun{{}}, false},
	} {
		o := &v1beta1.DisruptionRollout{Status: v1beta1.DisruptionRolloutStatus{History: c.history, LastContainerChangeTime: &at}}
		if got := unfinished(o); got != c.want {
			t.Errorf("%s: unfinished = %t, want %t", name, got, c.want)
		}
	}
}

// rule C5: the run is deleted first, and cleans up; another Disruption of its name stays.
func TestADeletedRolloutEndsItsRun(t *testing.T) {
	b := begin(t)
	b.deploy()
	r, other := b.create("releases"), b.create("others")
	b.waitsFor(r, reasonWatching)
	b.waitsFor(other, reasonWatching)
	controller := true
	run := b.Create(r.ChildName(), func(d *v1beta1.Disruption) {
		d.Finalizers = []string{v1beta1.DisruptionFinalizer}
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindDisruptionRollout, Name: r.Name, UID: r.UID, Controller: &controller}}
	})
	namesake := b.Create(other.ChildName())
	b.Must(b.Kube.Delete(t.Context(), r.DeepCopy()))
	b.Must(b.Kube.Delete(t.Context(), other.DeepCopy()))
	bridgetest.Eventually(t, bridgetest.Soon, "the run is being deleted", func() bool { return b.Get(run).DeletionTimestamp != nil })
	bridgetest.Eventually(t, bridgetest.Soon, "the other rollout is gone", func() bool { return !b.see(other.DeepCopy()) })
	b.waitsFor(r, reasonDeleted)
	b.Must(b.Kube.Patch(t.Context(), run, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	bridgetest.Eventually(t, bridgetest.Soon, "the rollout is gone, after its run", func() bool { return !b.see(r.DeepCopy()) })
	if b.Get(namesake).DeletionTimestamp != nil {
		t.Error("a disruption that is no run of the rollout was deleted")
	}
}
