package emergencystop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/workflows/contract"
)

const fire = "emergency stop fire: payment is down"

func TestAnEmergencyStopEndsWhatRuns(t *testing.T) {
	b := newBridge(t).start()
	first, firstPod := b.running("first")
	second, secondPod := b.running("second")
	cleaner := b.ChaosPod(first, "cleaner", firstPod)
	b.Must(b.Kube.Patch(t.Context(), cleaner, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"`+v1beta1.LabelCleaner+`":"true"}}}`))))
	failed := b.ChaosPod(first, "failed", firstPod)
	b.SetPhase(failed, corev1.PodFailed)
	stranger := b.Pod(b.ChaosNamespace, "stranger", nil)

	b.StopAll("fire")
	b.deleted(firstPod, secondPod)
	for _, pod := range []*corev1.Pod{firstPod, secondPod} {
		if !controllerutil.ContainsFinalizer(b.live(pod), v1beta1.ChaosPodFinalizer) {
			t.Errorf("chaos pod %s lost its finalizer: no workflow would judge it", pod.Name)
		}
	}
	for _, d := range []*v1beta1.Disruption{first, second} {
		b.endedBy(d, fire)
		if got := b.Get(d).Stopped(); got != fire {
			t.Errorf("%s was stopped by %q, want %q", d.Name, got, fire)
		}
	}
	for name, pod := range map[string]*corev1.Pod{"a cleaner": cleaner, "one that failed to clean": failed, "a stranger": stranger} {
		if b.live(pod).DeletionTimestamp != nil {
			t.Errorf("%s was deleted", name)
		}
	}
	b.Handled(first)
	if n := len(b.Temporal.Signals(first, contract.SignalEnd)); n != 1 {
		t.Errorf("end was sent %d times, want once", n)
	}
}

// While Temporal is unreachable or hangs, injectors are ended, however many
// Disruptions have signals to send.
func TestAnEmergencyStopNeedsNoTemporal(t *testing.T) {
	for name, answer := range map[string]error{
		"away":  serviceerror.NewUnavailable("connection refused"),
		"hangs": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t).start()
			var pods []*corev1.Pod
			var all []*v1beta1.Disruption
			for i := range 3 * queue.Workers {
				d, pod := b.running(fmt.Sprintf("held-%d", i))
				all, pods = append(all, d), append(pods, pod)
			}
			stopped := make(chan struct{})
			stop := sync.OnceFunc(func() { close(stopped) })
			t.Cleanup(stop) // before the bridge ends
			b.Temporal.Answers(func(context.Context, string) error {
				if name == "hangs" {
					<-stopped // also when the call's time is over: a worker that waits for Temporal waits for ever
				}
				return answer
			})
			for _, d := range all { // every worker of the queue has a signal to send
				b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.SpecHash = "another" })
			}
			began := time.Now()
			b.StopAll("fire")
			b.deleted(pods...)
			t.Logf("%d chaos pods of as many disruptions deleted %s after the stop", len(pods), time.Since(began))
			b.Temporal.Back()
			stop()
			for _, d := range all {
				b.endedBy(d, fire)
			}
		})
	}
}

func TestNothingBeginsDuringAnEmergencyStop(t *testing.T) {
	b := newBridge(t)
	b.StopAll("fire")
	b.Traffic.Before = func(r *http.Request) (*http.Response, error) {
		if bridgetest.Describe(r) == "PATCH disruptions/status" {
			<-time.After(500 * time.Millisecond) // the mark takes a while
		}
		return nil, nil
	}
	b.start()
	stopped := make(chan string, 10)
	b.Temporal.Answers(func(ctx context.Context, call string) error {
		if call == "start" {
			var list v1beta1.DisruptionList
			if err := b.Kube.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil || len(list.Items) != 1 {
				t.Errorf("list: %v, %d items", err, len(list.Items))
				return nil
			}
			stopped <- list.Items[0].Stopped()
		}
		return nil
	})
	// No admission policy refuses it, as after a person removed the policy.
	d := b.Disrupt("sneaked-in")
	b.endedBy(d, fire)
	if got := <-stopped; got != fire {
		t.Errorf("when its workflow was started it was stopped by %q: it could have injected", got)
	}
}

// A stopped disruption does not inject again when Temporal returns.
func TestADeletedEmergencyStopResurrectsNothing(t *testing.T) {
	b := newBridge(t).start()
	old, pod := b.running("old")
	b.Temporal.Away()
	stop := b.StopAll("fire")
	b.deleted(pod)
	b.Must(b.Kube.Delete(t.Context(), stop))

	b.deleted(b.latePod(string(old.UID))) // by a worker that had begun before
	b.Must(b.Stop())                      // and the bridge loses its state
	b.Temporal = bridgetest.NewRecorder()
	b.start()
	b.endedBy(old, fire)

	fresh := b.Disrupt("fresh")
	b.Informed(fresh)
	freshPod := b.ChaosPod(fresh, "fresh", pod)
	b.Quiet()
	if why := b.Get(fresh).Stopped(); why != "" || b.live(freshPod).DeletionTimestamp != nil || len(b.Temporal.Signals(fresh, contract.SignalEnd)) > 0 {
		t.Errorf("a disruption created after the stop was deleted is stopped by %q", why)
	}
}

// Each stop marks everything that begins disruptions once, also objects created while the
// stop exists. A stop is not clean before the scenarios have ended.
func TestAnEmergencyStopMarksWhatBeginsDisruptions(t *testing.T) {
	b := newBridge(t).start()
	one := intstr.FromInt32(1)
	template := v1beta1.DisruptionSpec{Selector: map[string]string{"app": "shop"}, Count: &one, Faults: v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}}}
	target := v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "shop"}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: b.Namespace, Name: name} }
	scenario := func(name string) *v1beta1.DisruptionScenario {
		steps := []v1beta1.ScenarioStep{{Name: "calm", Wait: &v1beta1.Duration{Duration: time.Hour}}}
		return &v1beta1.DisruptionScenario{ObjectMeta: named(name), Spec: v1beta1.DisruptionScenarioSpec{Steps: steps}}
	}
	over := scenario("over")
	parents := []client.Object{
		scenario("day"),
		&v1beta1.DisruptionRollout{ObjectMeta: named("rollout"), Spec: v1beta1.DisruptionRolloutSpec{TargetResource: target, DisruptionTemplate: template}},
		&v1beta1.DisruptionCron{ObjectMeta: named("cron"), Spec: v1beta1.DisruptionCronSpec{Schedule: "0 3 * * *", TargetResource: target, DisruptionTemplate: template}},
	}
	for _, o := range append(parents, over) {
		b.Must(b.Kube.Create(t.Context(), o))
		t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), o) })
	}
	finish := func(s *v1beta1.DisruptionScenario) {
		b.Must(b.Kube.Status().Patch(t.Context(), s, client.RawPatch(bridgetest.MergePatch, []byte(`{"status":{"phase":"Finished"}}`))))
	}
	finish(over)
	stop := b.StopAll("fire")
	late := scenario("late")
	b.Must(b.Kube.Create(t.Context(), late))
	t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), late) })
	met := func(o client.Object) (time.Time, string) {
		b.Must(b.Kube.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		return v1beta1.MetStop(o)
	}
	for _, o := range append(parents, late) {
		bridgetest.Eventually(t, bridgetest.Soon, o.GetName()+" is marked", func() bool {
			at, why := met(o)
			return why == fire && !at.Before(stop.CreationTimestamp.Time)
		})
	}
	if _, why := met(over); why != "" {
		t.Errorf("a scenario that is over is marked: %q", why)
	}
	clean := func() (string, metav1.ConditionStatus) {
		b.Must(b.Kube.Get(t.Context(), client.ObjectKeyFromObject(stop), stop))
		c := meta.FindStatusCondition(stop.Status.Conditions, v1beta1.ConditionClean)
		if c == nil {
			return "", ""
		}
		return c.Message, c.Status
	}
	bridgetest.Eventually(t, bridgetest.Soon, "the stop names the scenarios", func() bool {
		message, status := clean()
		return status == metav1.ConditionFalse && strings.Contains(message, b.Namespace+"/day") && !strings.Contains(message, "/over")
	})
	b.Quiet()
	b.Traffic.Reset()
	finish(late)
	finish(parents[0].(*v1beta1.DisruptionScenario))
	bridgetest.Eventually(t, bridgetest.Soon, "the stop is clean", func() bool { _, status := clean(); return status == metav1.ConditionTrue })
	if n := b.Traffic.Count("PATCH disruptionscenarios", "PATCH disruptionrollouts", "PATCH disruptioncrons"); n > 0 {
		t.Errorf("%d writes to what was marked before: %v", n, b.Traffic.All())
	}
}

// The caches show a stop that is gone, and a Disruption begun after it.
func TestAStopThatIsGoneMarksNothing(t *testing.T) {
	b := newBridge(t)
	d := b.Disrupt("after")
	s := &stopReconciler{client: b.Kube, live: b.Kube, chaosNamespace: b.ChaosNamespace}
	pass := func(want string) {
		t.Helper()
		o := &stopSnapshot{stops: make([]v1beta1.EmergencyStop, 1), disruptions: []v1beta1.Disruption{*b.Get(d)}, marked: map[types.UID]bool{}}
		b.Must(s.markAll(t.Context(), o))
		if got := b.Get(d).Stopped(); got != want || o.marked[d.UID] != (want != "") {
			t.Errorf("stopped by %q, marked %t, want %q", got, o.marked[d.UID], want)
		}
	}
	pass("")
	b.StopAll("fire")
	pass(fire)
}

func TestAnEmergencyStopMadeWhileTheBridgeWasDown(t *testing.T) {
	b := newBridge(t).start()
	d, pod := b.running("held")
	b.Must(b.Stop())
	b.StopAll("fire")
	b.start()
	b.deleted(pod)
	b.endedBy(d, fire)
	b.deleted(b.latePod(string(d.UID)), b.latePod("nobody"))
}

// A bridge of one team stops only that team's disruptions. It cannot mark the others, and
// an unmarked disruption would select other targets.
func TestAnEmergencyStopLeavesOtherBridgesTheirs(t *testing.T) {
	b := newBridge(t)
	b.Watched = []string{b.Namespace}
	b.start()
	d, _ := b.running("held")
	labelled := func(namespace string) *corev1.Pod {
		pod := b.latePod(string(d.UID))
		b.Must(b.Kube.Patch(t.Context(), pod, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"`+v1beta1.LabelDisruptionNamespace+`":"`+namespace+`"}}}`))))
		return pod
	}
	ours, theirs := labelled(b.Namespace), labelled("another-team")
	b.StopAll("fire")
	b.deleted(ours)
	b.deleted(labelled(b.Namespace)) // in a later pass: the pass that deleted ours has ended
	if b.live(theirs).DeletionTimestamp != nil {
		t.Error("another bridge's chaos pod is deleted")
	}
}

func TestAnEmergencyStopReportsItsProgress(t *testing.T) {
	b := newBridge(t).start()
	d, pod := b.running("held")
	b.Temporal.Away()
	stop := b.StopAll("fire")
	b.shows(stop, metav1.ConditionFalse, "injectors that still run: 1; disruptions that have not ended: 1", 1, 1, 1)
	b.SetPhase(b.live(pod), corev1.PodSucceeded)
	b.shows(stop, metav1.ConditionFalse, "Temporal cannot be reached", 1, 1, 0)
	b.Temporal.Back()
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseStuck, true })
	b.shows(stop, metav1.ConditionFalse, "a person must decide about: "+d.Namespace+"/held", 1, 1, 0)

	b.Must(b.Kube.Patch(t.Context(), pod, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
	_ = b.Kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0)) // the kubelet's part
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
		s.Phase, s.IsStuckOnRemoval, s.Ending = v1beta1.PhaseFinished, false, fire
	})
	b.Must(b.Kube.Patch(t.Context(), b.Get(d), client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
	b.shows(stop, metav1.ConditionTrue, "every disruption has ended and no chaos pod is left", 1, 0, 0)
	b.Quiet() // the caches have the status
	b.Traffic.Reset()
	b.Handled(d)
	b.Handled(stop)
	if n := b.Traffic.Writes(); n > 0 {
		t.Errorf("%d writes though nothing changes: %q", n, b.Traffic.All())
	}
}

func TestOfManyChaosPodsAllAreStoppedAtOnce(t *testing.T) {
	b := newBridge(t).start()
	d, pod := b.running("large")
	var pods []*corev1.Pod
	for i := range 300 {
		pods = append(pods, b.ChaosPod(d, fmt.Sprintf("many-%d", i), pod))
	}
	b.Quiet()
	began := time.Now()
	b.StopAll("fire")
	b.deleted(pods...)
	t.Logf("300 chaos pods deleted %s after the stop", time.Since(began))
	if n := b.Traffic.Count("DELETE pods"); n > 301 {
		t.Errorf("%d deletions for 301 chaos pods", n)
	}
}

// The caches show a pod as it was before the pass that deleted it.
func TestAChaosPodIsDeletedOnce(t *testing.T) {
	b := newBridge(t)
	pod := b.latePod("nobody")
	deletes := &deleteClient{Client: b.Kube}
	s := &stopReconciler{client: deletes}
	pass := func() error { return s.deleteAll(t.Context(), []*corev1.Pod{pod.DeepCopy()}) }
	if err := pass(); err == nil {
		t.Error("a deletion that failed is none")
	}
	b.Must(pass())
	b.Must(pass())
	b.Must(pass())
	if deletes.n != 2 || b.live(pod).DeletionTimestamp == nil {
		t.Errorf("%d deletions, want one that failed and one that did not", deletes.n)
	}
}

// deleteClient counts deletions, of which the first fails.
type deleteClient struct {
	client.Client
	n int
}

func (c *deleteClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if c.n++; c.n == 1 {
		return errors.New("the API server is busy")
	}
	return c.Client.Delete(ctx, object, options...)
}

func TestWhichChaosPodsAStopDeletes(t *testing.T) {
	disruption := func(uid types.UID, change func(*v1beta1.Disruption)) v1beta1.Disruption {
		d := v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		change(&d)
		return d
	}
	now := metav1.Now()
	disruptions := []v1beta1.Disruption{
		disruption("marked", func(*v1beta1.Disruption) {}),
		disruption("unmarked", func(*v1beta1.Disruption) {}), // its mark failed
		disruption("deleted", func(d *v1beta1.Disruption) { d.DeletionTimestamp = &now }),
		disruption("expired", func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseCleaning }),
	}
	var pods []corev1.Pod
	for _, owner := range []string{"marked", "unmarked", "deleted", "expired", "nobody"} {
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: owner, Labels: map[string]string{v1beta1.LabelDisruptionUID: owner}}})
	}
	for name, c := range map[string]struct {
		stops []v1beta1.EmergencyStop
		want  []string
	}{
		"a stop exists: all but those that could be replaced": {make([]v1beta1.EmergencyStop, 1), []string{"deleted", "expired", "marked", "nobody"}},
		"it is gone: what it stopped":                         {nil, []string{"marked"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &stopSnapshot{stops: c.stops, disruptions: disruptions, chaosPods: pods, marked: map[types.UID]bool{"marked": true}}
			var got []string
			for _, pod := range o.toDelete() {
				got = append(got, pod.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("chaos pods to delete (-want +got):\n%s", diff)
			}
		})
	}
}

// running is a disruption that holds, and its chaos pod.
func (b *bridge) running(name string) (*v1beta1.Disruption, *corev1.Pod) {
	b.T.Helper()
	target := b.Pod(b.Namespace, "target-of-"+name, map[string]string{"app": "shop"})
	d := b.Disrupt(name)
	b.Informed(d)
	pod := b.ChaosPod(d, "chaos-"+name, target)
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseHolding })
	return d, pod
}

// latePod is a chaos pod that appears during a stop, as the API server first sees it.
func (b *bridge) latePod(uid string) *corev1.Pod {
	b.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.ChaosNamespace, GenerateName: "late-", Finalizers: []string{v1beta1.ChaosPodFinalizer},
			Labels: map[string]string{v1beta1.LabelDisruptionUID: uid},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	b.Must(b.Kube.Create(b.T.Context(), pod))
	b.T.Cleanup(func() {
		_ = b.Kube.Patch(context.Background(), pod, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return pod
}

func (b *bridge) live(pod *corev1.Pod) *corev1.Pod {
	b.T.Helper()
	got := &corev1.Pod{}
	b.Must(b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(pod), got))
	return got
}

// deleted waits until all of the pods are.
func (b *bridge) deleted(pods ...*corev1.Pod) {
	b.T.Helper()
	bridgetest.Eventually(b.T, bridgetest.Soon, "the chaos pods are deleted", func() bool {
		return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return b.live(pod).DeletionTimestamp == nil })
	})
}

// endedBy waits until the workflow of d has the signal to end, with that reason.
func (b *bridge) endedBy(d *v1beta1.Disruption, why string) {
	b.T.Helper()
	bridgetest.Eventually(b.T, queue.LastRetry+bridgetest.Soon, "the workflow of "+d.Name+" is signalled to end", func() bool { return len(b.Temporal.Signals(d, contract.SignalEnd)) > 0 })
	if got, want := b.Temporal.Signals(d, contract.SignalEnd)[0].Arg, (contract.End{Reason: why}); got != want {
		b.T.Errorf("the workflow of %s is signalled to end with %+v, want %+v", d.Name, got, want)
	}
}

// shows waits for the columns of `kubectl get estop`.
func (b *bridge) shows(stop *v1beta1.EmergencyStop, clean metav1.ConditionStatus, message string, stopped, cleaning, injectors int) {
	b.T.Helper()
	want := fmt.Sprintf("%s %d stopped, %d cleaning, %d injectors", clean, stopped, cleaning, injectors)
	patience.Within(b.T, bridgetest.Soon, "the stop shows its progress", func() error {
		live := &v1beta1.EmergencyStop{}
		b.Must(b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(stop), live))
		condition := metav1.Condition{}
		if c := meta.FindStatusCondition(live.Status.Conditions, v1beta1.ConditionClean); c != nil {
			condition = *c
		}
		got := fmt.Sprintf("%s %d stopped, %d cleaning, %d injectors", condition.Status, live.Status.Stopped, live.Status.Cleaning, live.Status.Injectors)
		if got != want || !strings.Contains(condition.Message, message) {
			return fmt.Errorf("it shows %s (%s), want %s (%s)", got, condition.Message, want, message)
		}
		return nil
	})
}
