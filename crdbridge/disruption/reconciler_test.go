package disruption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/zapr"
	"go.temporal.io/api/serviceerror"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// rules 1, 4
func TestCreatingADisruptionStartsItsWorkflow(t *testing.T) {
	b := newBridge(t)
	finalizer := make(chan bool, 1)
	b.Temporal.Answers(func(ctx context.Context, call string) error {
		if call == "start" {
			var list v1beta1.DisruptionList
			if err := b.Kube.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil || len(list.Items) != 1 {
				t.Errorf("list: %v, %d items", err, len(list.Items))
				return nil
			}
			finalizer <- controllerutil.ContainsFinalizer(&list.Items[0], v1beta1.DisruptionFinalizer)
		}
		return nil
	})
	b.start()
	d := b.Disrupt("first")
	b.Informed(d)
	if !<-finalizer {
		t.Error("the workflow was started before the API server had the finalizer")
	}
	system := &corev1.Namespace{}
	b.Must(b.Kube.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	ref := d.Ref()
	ref.Cluster = system.UID // rule S4
	if got, want := b.Temporal.Inputs[contract.WorkflowID(ref)], (contract.Input{Disruption: ref}); got != want || system.UID == "" {
		t.Errorf("input = %+v, want %+v", got, want)
	}
	if n := b.Temporal.Starts(d); n != 1 {
		t.Errorf("starts = %d, want 1", n)
	}
}

// rules 2, 5
func TestDeletingADisruptionSendsEndOnce(t *testing.T) {
	b := newBridge(t).start()
	d := b.Disrupt("deleted")
	b.Informed(d)
	b.Must(b.Kube.Delete(t.Context(), d))
	bridgetest.Eventually(t, bridgetest.Soon, "end is sent", func() bool { return len(b.Temporal.Signals(d, contract.SignalEnd)) == 1 })
	// The status that the workflow writes while it cleans up must not end it again.
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseCleaning })
	b.Handled(d)
	if n := len(b.Temporal.Signals(d, contract.SignalEnd)); n != 1 {
		t.Errorf("end was sent %d times, want once", n)
	}
	if got := b.Get(d); got.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(got, v1beta1.DisruptionFinalizer) {
		t.Errorf("the object is not waiting for its cleaning: %+v", got.ObjectMeta)
	}
}

func TestADeletedDisruptionThatWasNeverStartedIsStartedToBeCleaned(t *testing.T) {
	b := newBridge(t)
	d := b.Disrupt("early", func(d *v1beta1.Disruption) { d.Finalizers = []string{v1beta1.DisruptionFinalizer} })
	b.Must(b.Kube.Delete(t.Context(), d))
	b.start()
	bridgetest.Eventually(t, bridgetest.Soon, "it is started and ended", func() bool {
		return b.Temporal.Starts(d) == 1 && len(b.Temporal.Signals(d, contract.SignalEnd)) == 1
	})
}

func TestAFinishedDisruptionIsLeftAlone(t *testing.T) {
	for _, phase := range []v1beta1.Phase{v1beta1.PhaseFinished, v1beta1.PhaseRejected} {
		t.Run(string(phase), func(t *testing.T) {
			b := newBridge(t)
			d := b.Disrupt("finished")
			b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = phase })
			b.start()
			b.Handled(d)
			if n, got := b.Temporal.Starts(d), b.Get(d).Finalizers; n > 0 || len(got) > 0 {
				t.Errorf("%d starts and the finalizers %v, want none", n, got)
			}
			b.Must(b.Kube.Delete(t.Context(), d))
			if err := b.Kube.Get(t.Context(), client.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
				t.Errorf("get after delete = %v, want not found", err)
			}
		})
	}
}

// rules 36, 37
func TestTheEndOfAChaosPodIsReportedAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		change func(*bridge, *corev1.Pod)
	}{
		{"deleted from outside", func(b *bridge, p *corev1.Pod) { b.Must(b.Kube.Delete(t.Context(), p)) }},
		{"failed", func(b *bridge, p *corev1.Pod) { b.SetPhase(p, corev1.PodFailed) }},
		{"succeeded", func(b *bridge, p *corev1.Pod) { b.SetPhase(p, corev1.PodSucceeded) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBridge(t).start()
			target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
			d := b.Disrupt("held")
			chaos := b.ChaosPod(d, "chaos", target)
			b.Informed(d)
			b.Quiet()
			changed := time.Now()
			test.change(b, chaos)
			bridgetest.Eventually(t, bridgetest.Soon, "the workflow is informed of one ended chaos pod", func() bool {
				return b.Temporal.LastObservation(d).Ended == 1
			})
			t.Logf("reported after %s", time.Since(changed))
		})
	}
}

func TestALostTargetIsReportedAtOnce(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	b.ChaosPod(d, "chaos", target)
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
		s.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
			"shop": {v1beta1.KindContainerFailure: {TargetUID: target.UID}},
		}
	})
	b.Informed(d)
	b.Quiet()
	lost := func() bool { return b.Temporal.LastObservation(d).TargetsLost == 1 }
	t.Run("when it loses its label", func(t *testing.T) {
		b.Must(b.Kube.Patch(t.Context(), target, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":null}}`))))
		bridgetest.Eventually(t, bridgetest.Soon, "the target is lost", lost)
	})
	t.Run("not any more when its label is back", func(t *testing.T) {
		b.Must(b.Kube.Patch(t.Context(), target, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"app":"shop"}}}`))))
		bridgetest.Eventually(t, bridgetest.Soon, "the target stays", func() bool { return !lost() })
	})
	t.Run("when it is deleted", func(t *testing.T) {
		b.Must(b.Kube.Delete(t.Context(), target, client.GracePeriodSeconds(0)))
		bridgetest.Eventually(t, bridgetest.Soon, "the target is lost", lost)
	})
}

// Two more pods matched for a moment, between two observations, and the workflow chose two
// of four. The caches then show what they showed before: two, of which one is surplus.
func TestAChoiceBetweenTwoObservationsIsNotKept(t *testing.T) {
	b := newBridge(t).start()
	half := intstr.FromString("50%")
	d := b.Disrupt("held", func(d *v1beta1.Disruption) { d.Spec.Count = &half })
	for _, name := range []string{"one", "two"} {
		b.ChaosPod(d, "chaos-"+name, b.Pod(b.Namespace, name, map[string]string{"app": "shop"}))
	}
	b.Informed(d)
	b.Chose(d, 1, 1)
	b.Quiet()
	before := len(b.Temporal.Signals(d, contract.SignalObserved))
	b.Chose(d, 2, 2)
	bridgetest.Eventually(t, repeatAfter+bridgetest.Soon, "the workflow is informed again", func() bool {
		return len(b.Temporal.Signals(d, contract.SignalObserved)) == before+1
	})
}

func TestNodesAreWatchedForDisruptionsOfNodes(t *testing.T) {
	b := newBridge(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: map[string]string{"app": "shop"}}}
	b.Must(b.Kube.Create(t.Context(), node))
	t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), node) })
	ready := func(status corev1.ConditionStatus) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		b.Must(b.Kube.Status().Update(t.Context(), node))
	}
	ready(corev1.ConditionTrue)
	b.start()
	d := b.Disrupt("nodes", func(d *v1beta1.Disruption) {
		d.Spec.Level = v1beta1.LevelNode
		d.Spec.Faults = v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}
	})
	b.Informed(d)
	if got := b.Temporal.LastObservation(d).Candidates; got != 1 {
		t.Errorf("candidates = %d, want 1", got)
	}
	ready(corev1.ConditionFalse)
	bridgetest.Eventually(t, bridgetest.Soon, "there is no candidate", func() bool { return b.Temporal.LastObservation(d).Candidates == 0 })
}

// A chaos pod of a large disruption disappears between two reconciles. A person removes its
// finalizer and deletes it while the bridge is busy with another change.
func TestAChaosPodTakenAwayByHandFromALargeDisruption(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("large")
	chaos := []*corev1.Pod{b.ChaosPod(d, "chaos-a", target), b.ChaosPod(d, "chaos-b", target)}
	b.Informed(d)
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
		s.Phase, s.SpecHash, s.Kinds = v1beta1.PhaseHolding, d.Spec.Hash(), "container-failure"
		s.SelectedTargetsCount, s.InjectedTargetsCount = 2, 2 // as of one that is too large for a list
	})
	b.Quiet()
	busy, free := make(chan struct{}, 1), make(chan struct{})
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call == contract.SignalObserved {
			busy <- struct{}{}
			<-free
		}
		return nil
	})
	b.Pod(b.Namespace, "another", map[string]string{"app": "shop"})
	<-busy
	b.Must(b.Kube.Patch(t.Context(), chaos[0], client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
	b.Must(b.Kube.Delete(t.Context(), chaos[0], client.GracePeriodSeconds(0)))
	bridgetest.Eventually(t, bridgetest.Soon, "the cache knows", func() bool {
		return apierrors.IsNotFound(b.Manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(chaos[0]), &corev1.Pod{}))
	})
	b.Temporal.Back()
	close(free)
	bridgetest.Eventually(t, statusLate+bridgetest.Soon, "it is reported", func() bool { return b.Temporal.LastObservation(d).Ended == 1 })
}

func TestWhatTheWorkflowReadsItselfIsNotReported(t *testing.T) {
	b := newBridge(t).start()
	for _, name := range []string{"one", "two", "three"} {
		b.Pod(b.Namespace, name, map[string]string{"app": "shop"})
	}
	d := b.Create("fresh")
	observed := func() int { return len(b.Temporal.Signals(d, contract.SignalObserved)) }
	bridgetest.Eventually(t, bridgetest.Soon, "the workflow is started", func() bool { return b.Temporal.Starts(d) == 1 })
	b.Handled(d)
	if n := observed(); n > 0 {
		t.Errorf("%d observations before it chose, want none", n)
	}
	b.Chose(d, 1, 2)
	b.Handled(d)
	if n := observed(); n > 0 {
		t.Errorf("%d observations of what it saw when it chose, want none", n)
	}
	b.Pod(b.Namespace, "four", map[string]string{"app": "shop"})
	bridgetest.Eventually(t, bridgetest.Soon, "a candidate that came later is reported", func() bool { return observed() == 1 && b.Temporal.LastObservation(d).Candidates == 4 })
}

// rules 9, 10
func TestOnlyAChangeOfTheSpecIsReportedOfTheDisruptionItself(t *testing.T) {
	b := newBridge(t).start()
	d := b.Disrupt("edited")
	b.Informed(d)
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.SpecHash, s.Phase = d.Spec.Hash(), v1beta1.PhaseHolding })
	b.Quiet()
	before := len(b.Temporal.Signals(d, contract.SignalObserved))
	b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`))))
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.InjectedTargetsCount = 1 })
	b.Handled(d)
	if n := len(b.Temporal.Signals(d, contract.SignalObserved)) - before; n != 0 {
		t.Errorf("%d observations of labels, annotations or status, want none", n)
	}
	b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"spec":{"count":2}}`))))
	bridgetest.Eventually(t, bridgetest.Soon, "the changed spec is reported", func() bool { return b.Temporal.LastObservation(d).SpecChanged })
	if n := b.Temporal.Starts(d); n != 1 {
		t.Errorf("starts = %d, want 1", n)
	}
}

func TestAThousandMeaninglessUpdatesAreNotReported(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	chaos := b.ChaosPod(d, "chaos", target)
	b.Informed(d)
	b.Chose(d, 1, 0)
	b.Quiet()
	calls := b.Temporal.Total()
	b.Traffic.Reset()
	for i := range 500 {
		for _, p := range []*corev1.Pod{target, chaos} {
			p.Status.Message = time.Duration(i).String()
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: []corev1.ConditionStatus{"True", "False"}[i%2]}}
			b.Must(b.Kube.Status().Update(t.Context(), p))
		}
	}
	b.Seen(chaos)
	// The server ends a watch now and then, and it is begun again.
	isWatch := func(request string) bool { return strings.HasPrefix(request, "WATCH") }
	if requests := slices.DeleteFunc(b.Traffic.All(), isWatch); len(requests) != 0 {
		t.Errorf("requests to the API server: %v", requests)
	}
	b.SetPhase(chaos, corev1.PodFailed) // arrives after all of them
	bridgetest.Eventually(t, bridgetest.Soon, "the bridge signals that the chaos pod has ended", func() bool { return b.Temporal.LastObservation(d).Ended == 1 })
	if n := b.Temporal.Total() - calls; n != 1 {
		t.Errorf("%d calls of Temporal, want the one for the end of the chaos pod", n)
	}
}

func TestManyChangesAreReportedTogether(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	var chaos []*corev1.Pod
	for i := range 40 {
		chaos = append(chaos, b.ChaosPod(d, "chaos-"+string(rune('a'+i%26))+string(rune('a'+i/26)), target))
	}
	b.Informed(d)
	b.Quiet()
	before := len(b.Temporal.Signals(d, contract.SignalObserved))
	began := time.Now()
	for _, p := range chaos {
		b.SetPhase(p, corev1.PodFailed)
	}
	bridgetest.Eventually(t, bridgetest.Soon, "all are reported", func() bool { return b.Temporal.LastObservation(d).Ended == len(chaos) })
	took := time.Since(began)
	sent := b.Temporal.Signals(d, contract.SignalObserved)[before:]
	const want = 250 * time.Millisecond
	if most := int(took/want) + 2; len(sent) > most {
		t.Errorf("%d signals in %s, want at most %d", len(sent), took, most)
	}
	for i := 1; i < len(sent); i++ {
		if pause := sent[i].At.Sub(sent[i-1].At); pause < want {
			t.Errorf("signals %d and %d are %s apart, want %s", i-1, i, pause, want)
		}
	}
	t.Logf("%d changes in %s: %d signals, the first after %s", len(chaos), took, len(sent), sent[0].At.Sub(began))
}

// rule T8
func TestTheDisruptionReportsThatTemporalIsAway(t *testing.T) {
	b := newBridge(t)
	b.Temporal.Away()
	b.start()
	d := b.Disrupt("waiting")
	bridgetest.Eventually(t, bridgetest.Soon, "Orchestrated is False", func() bool {
		return bridgetest.Condition(b.Get(d)).Status == metav1.ConditionFalse
	})
	if got := bridgetest.Condition(b.Get(d)); got.Reason != condition.ReasonUnreachable {
		t.Errorf("reason = %s, want %s", got.Reason, condition.ReasonUnreachable)
	}
	written := b.Get(d).ResourceVersion
	tries := b.Temporal.Total()
	bridgetest.Eventually(t, bridgetest.Soon, "three more tries", func() bool { return b.Temporal.Total() >= tries+3 })
	if b.Get(d).ResourceVersion != written {
		t.Error("a retry wrote the condition again")
	}
	b.Must(b.Kube.Delete(t.Context(), d))
	b.Handled(d)
	if len(b.Get(d).Finalizers) == 0 {
		t.Error("it lost its finalizer while Temporal was away")
	}
	b.Temporal.Back()
	bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "it is started, ended, and reports it", func() bool {
		return b.Temporal.Starts(d) == 1 && len(b.Temporal.Signals(d, contract.SignalEnd)) == 1 &&
			bridgetest.Condition(b.Get(d)).Status == metav1.ConditionTrue
	})
	if owner := owners(b.Get(d)); owner != fieldManager {
		t.Errorf("the condition belongs to %q, want %q", owner, fieldManager)
	}
}

// rule T8
func TestAReconcileThatIsTooEarlyReportsNothingOfTemporal(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	chaos := b.ChaosPod(d, "chaos", target)
	b.Informed(d)
	b.Quiet()
	b.Temporal.Away()
	b.SetPhase(chaos, corev1.PodFailed)
	bridgetest.Eventually(t, bridgetest.Soon, "Orchestrated is False", func() bool { return bridgetest.Condition(b.Get(d)).Status == metav1.ConditionFalse })
	// Each write of the condition makes the bridge reconcile again at once.
	b.Traffic.Reset()
	b.Handled(d)
	if n := b.Traffic.Writes(); n > 0 || bridgetest.Condition(b.Get(d)).Status != metav1.ConditionFalse {
		t.Errorf("%d writes while Temporal is away, the last of them %+v", n, bridgetest.Condition(b.Get(d)))
	}
}

func TestAWorkflowThatWasTerminatedIsStartedAgain(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	chaos := b.ChaosPod(d, "chaos", target)
	b.Informed(d)
	b.Quiet()
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call != "start" && b.Temporal.Starts(d) == 1 {
			return serviceerror.NewNotFound("workflow execution already completed")
		}
		return nil
	})
	b.SetPhase(chaos, corev1.PodFailed)
	bridgetest.Eventually(t, bridgetest.Soon, "it is started again and informed", func() bool {
		return b.Temporal.Starts(d) == 2 && b.Temporal.LastObservation(d).Ended == 1
	})
	if c := bridgetest.Condition(b.Get(d)); c.Type != "" {
		t.Errorf("condition = %+v, want none: Temporal was there", c)
	}
}

// The bridge notices it although nothing changes in the cluster, by one query for all
// disruptions.
func TestATerminatedWorkflowIsNoticedWhileNothingChanges(t *testing.T) {
	b := newBridge(t).start()
	var waiting []*v1beta1.Disruption
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		waiting = append(waiting, b.Disrupt(name))
	}
	for _, d := range waiting {
		b.Informed(d)
		b.Quiet()
	}
	calls := b.Temporal.Total()
	b.Temporal.Mu.Lock()
	asked, began := b.Temporal.Listed, time.Now()
	b.Temporal.Gone = map[string]string{
		contract.WorkflowID(waiting[1].Ref()): "run-1", "disruption/other/cluster/uid": "run-2", "somebody-elses": "run-3",
	}
	b.Temporal.Mu.Unlock()
	bridgetest.Eventually(t, bridgetest.Soon, "it is started again and informed", func() bool {
		return b.Temporal.Starts(waiting[1]) == 2 && len(b.Temporal.Signals(waiting[1], contract.SignalObserved)) == 2
	})
	b.Temporal.Mu.Lock()
	listed := b.Temporal.Listed
	b.Temporal.Mu.Unlock()
	took := time.Since(began)
	bridgetest.Eventually(t, bridgetest.Soon, "it is asked again", func() bool {
		b.Temporal.Mu.Lock()
		defer b.Temporal.Mu.Unlock()
		return b.Temporal.Listed > listed
	})
	// at most one early and one late
	queries, most := listed-asked, int(took/bridgetest.PollInterval)+2
	if n := b.Temporal.Total() - calls; n != 2 || queries > most {
		t.Errorf("%d calls and %d queries in %s, want a start, a signal, and one query in %s for all", n, queries, took, bridgetest.PollInterval)
	}
}

func TestAWorkflowThatCompletedWithoutItsLastStepIsShown(t *testing.T) {
	b := newBridge(t)
	b.Temporal.Answers(func(_ context.Context, call string) error {
		return serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "")
	})
	b.start()
	d := b.Disrupt("left")
	bridgetest.Eventually(t, bridgetest.Soon, "the condition reports it", func() bool { return bridgetest.Condition(b.Get(d)).Reason == reasonEnded })
}

// rule T8
func TestAnIdleDisruptionReportsThatTemporalIsAway(t *testing.T) {
	b := newBridge(t).start()
	d := b.Disrupt("quiet")
	b.Informed(d)
	b.Quiet()
	calls := b.Temporal.Total()
	b.Temporal.Away()
	bridgetest.Eventually(t, bridgetest.Soon, "Orchestrated is False", func() bool { return bridgetest.Condition(b.Get(d)).Reason == condition.ReasonUnreachable })
	b.Temporal.Back()
	bridgetest.Eventually(t, bridgetest.Soon, "Orchestrated is True", func() bool { return bridgetest.Condition(b.Get(d)).Status == metav1.ConditionTrue })
	if n := b.Temporal.Total(); n != calls {
		t.Errorf("calls for the workflow = %d, want %d: there was nothing to send", n, calls)
	}
}

// Nothing in the cluster changes while a workflow is blocked. The Disruption must show why
// it stands still.
func TestADisruptionReportsThatItsWorkflowIsBlocked(t *testing.T) {
	b := newBridge(t).start()
	d, other := b.Disrupt("still"), b.Disrupt("other")
	b.Quiet()
	b.Temporal.Fails(d, true)
	bridgetest.Eventually(t, bridgetest.Soon, "it reports it", func() bool {
		c := bridgetest.Condition(b.Get(d))
		return c.Reason == reasonTaskFailing && strings.Contains(c.Message, "NonDeterministicError")
	})
	if c := bridgetest.Condition(b.Get(other)); c.Reason != "" {
		t.Errorf("the other disruption reports %s, %q: its workflow is not blocked", c.Reason, c.Message)
	}
	b.Quiet() // the caches have the condition: without it the bridge would write it again
	b.Traffic.Reset()
	polls := b.Temporal.Polls()
	bridgetest.Eventually(t, bridgetest.Soon, "it is asked again", func() bool { return b.Temporal.Polls() >= polls+2 })
	if n := b.Traffic.Writes(); n > 0 {
		t.Errorf("%d writes while nothing changes: %q", n, b.Traffic.All())
	}
	b.Temporal.Fails(d, false)
	bridgetest.Eventually(t, bridgetest.Soon, "it reports that it is not blocked", func() bool {
		return bridgetest.Condition(b.Get(d)).Reason == condition.ReasonReached
	})
}

// A person deletes the namespace of chaos pods: the disruption that still runs reports it,
// and what to do. N16
func TestTheNamespaceOfChaosPodsIsDeleted(t *testing.T) {
	b := newBridge(t).start()
	d := b.Disrupt("goes-on")
	b.Informed(d)
	b.Must(b.Kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ChaosNamespace}}))
	for _, name := range []string{"goes-on", "new"} {
		if name == "new" {
			d = b.Disrupt(name)
		}
		bridgetest.Eventually(t, bridgetest.Soon, name+" reports it", func() bool {
			c := bridgetest.Condition(b.Get(d))
			return c.Reason == reasonNoChaosNamespace && strings.Contains(c.Message, b.ChaosNamespace+" is being deleted")
		})
	}
}

// The workers of the other cluster run and refuse every request of this one. So only the
// owner of the Temporal namespace shows why nothing begins. N13
func TestADisruptionInTheTemporalNamespaceOfAnotherCluster(t *testing.T) {
	b := newBridge(t)
	b.Temporal.BelongsTo("another")
	b.start()
	bridgetest.Eventually(t, bridgetest.Soon, "the bridge asks for the owner of the Temporal namespace", func() bool { return b.Temporal.AskedOwner() > 0 })
	d := b.Disrupt("second")
	bridgetest.Eventually(t, bridgetest.Soon, "it reports it", func() bool {
		c := bridgetest.Condition(b.Get(d))
		return c.Reason == reasonOtherCluster && strings.Contains(c.Message, "SQUALL_TEMPORAL_NAMESPACE")
	})
	if n := b.Temporal.Total(); n != 0 {
		t.Errorf("%d calls for its workflow, want none", n)
	}
	b.Must(b.Kube.Delete(t.Context(), d))
	bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "one that is deleted goes", func() bool {
		return apierrors.IsNotFound(b.Kube.Get(t.Context(), client.ObjectKeyFromObject(d), &v1beta1.Disruption{}))
	})
	next := b.Disrupt("next")
	b.Temporal.BelongsTo("")
	bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "it begins", func() bool { return b.Temporal.Starts(next) > 0 })
}

// No workflow removes the finalizer, and nothing needs it. A namespace would stay in
// Terminating for ever.
func TestADeletedDisruptionThatNoWorkflowLetsGo(t *testing.T) {
	refused := serviceerror.NewPermissionDenied("no", "")
	completed := serviceerror.NewWorkflowExecutionAlreadyStarted("", "", "")
	away := serviceerror.NewUnavailable("connection refused")
	for _, test := range []struct {
		name   string
		answer error
		left   func(b *bridge, d *v1beta1.Disruption)
		gone   bool
		note   string
	}{
		{"refused for good, nothing is left", refused, nil, true, "no workflow began; it was deleted, and"},
		{"completed, nothing is left", completed, nil, true, "the workflow had completed; it was deleted, and"},
		{"refused for good, a chaos pod is left", refused, func(b *bridge, d *v1beta1.Disruption) {
			b.ChaosPod(d, "chaos", b.Pod(b.Namespace, "shop", nil))
		}, false, ""},
		{"completed, a record is left", completed, func(b *bridge, d *v1beta1.Disruption) {
			b.Must(b.Kube.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: b.ChaosNamespace, Name: contract.RecordName(d.UID), Labels: map[string]string{v1beta1.LabelDisruptionUID: string(d.UID)},
			}}))
		}, false, ""},
		{"Temporal is away", away, nil, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBridge(t)
			b.Temporal.Answers(func(context.Context, string) error { return test.answer })
			core, logged := observer.New(zapcore.InfoLevel)
			b.Options = func(o *manager.Options) { o.Logger = zapr.NewLogger(zap.New(core)) }
			b.start()
			d := b.Disrupt("refused", func(d *v1beta1.Disruption) { d.Annotations = v1beta1.Requester{User: "ann"}.Annotations() })
			bridgetest.Eventually(t, bridgetest.Soon, "it has the finalizer and reports why it stands still", func() bool {
				return bridgetest.Condition(b.Get(d)).Status == metav1.ConditionFalse
			})
			if test.left != nil {
				test.left(b, d)
			}
			last := b.lastStatus(d)
			b.Must(b.Kube.Delete(t.Context(), d))
			gone := func() bool {
				return apierrors.IsNotFound(b.Kube.Get(t.Context(), client.ObjectKeyFromObject(d), &v1beta1.Disruption{}))
			}
			if test.gone {
				bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "it is gone", gone)
				wantFinalizerLogged(t, logged)
				if c := bridgetest.Condition(last()); c.Status != metav1.ConditionFalse || c.Reason != v1beta1.ReasonNothingLeft || !strings.HasPrefix(c.Message, test.note) {
					t.Errorf("the last status has %+v, want NothingLeft: %s", c, test.note)
				}
				return
			}
			b.Handled(d)
			if gone() {
				t.Error("it is let go")
			}
		})
	}
}

// lastStatus watches d; the function that it returns waits until d is gone, and returns d
// as it was then.
func (b *bridge) lastStatus(d *v1beta1.Disruption) func() *v1beta1.Disruption {
	b.T.Helper()
	watcher, err := b.Kube.(client.WithWatch).Watch(b.T.Context(), &v1beta1.DisruptionList{}, client.InNamespace(d.Namespace))
	b.Must(err)
	b.T.Cleanup(watcher.Stop)
	return func() *v1beta1.Disruption {
		for event := range watcher.ResultChan() {
			if seen, ok := event.Object.(*v1beta1.Disruption); ok && seen.UID == d.UID && event.Type == watch.Deleted {
				return seen
			}
		}
		b.T.Fatal("the watch ended before the disruption was gone")
		return nil
	}
}

// wantFinalizerLogged wants one line that names the requester and the faults: the object
// that had them is gone.
func wantFinalizerLogged(t *testing.T, logged *observer.ObservedLogs) {
	t.Helper()
	var lines []observer.LoggedEntry
	bridgetest.Eventually(t, bridgetest.Soon, "the finalizer's removal is logged", func() bool {
		lines = logged.Filter(func(e observer.LoggedEntry) bool { return strings.HasPrefix(e.Message, "finalizer removed") }).All()
		return len(lines) > 0
	})
	fields := lines[0].ContextMap()
	if fields["requester"] != "ann" || fmt.Sprint(fields["faults"]) != "[container-failure]" {
		t.Errorf("logged %v, want the requester ann and the fault container-failure", fields)
	}
}

func TestAConditionDecidedOnAnOldStateIsNotWritten(t *testing.T) {
	b := newBridge(t)
	d := b.Disrupt("old")
	b.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
	c, _ := orchestrated(d, start.ErrCompleted)
	if err := condition.Apply(t.Context(), b.Kube, d, fieldManager, c); !apierrors.IsConflict(err) {
		t.Errorf("apply on an old state = %v, want a conflict", err)
	}
	b.Must(condition.Apply(t.Context(), b.Kube, b.Get(d), fieldManager, c))
}

// owners is the one field manager that applied to the status.
func owners(d *v1beta1.Disruption) string {
	for _, m := range d.ManagedFields {
		if m.Subresource == "status" && m.Operation == metav1.ManagedFieldsOperationApply {
			return m.Manager
		}
	}
	return ""
}
