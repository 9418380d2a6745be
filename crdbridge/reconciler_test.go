package main

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

const mergePatch = types.MergePatchType

// rules 1, 4
func TestCreatingADisruptionStartsItsWorkflow(t *testing.T) {
	b := newBridge(t)
	finalizer := make(chan bool, 1)
	b.temporal.answers(func(ctx context.Context, call string) error {
		if call == "start" {
			var list v1beta1.DisruptionList
			if err := b.kube.List(ctx, &list, client.InNamespace(b.namespace)); err != nil || len(list.Items) != 1 {
				t.Errorf("list: %v, %d items", err, len(list.Items))
				return nil
			}
			finalizer <- controllerutil.ContainsFinalizer(&list.Items[0], v1beta1.DisruptionFinalizer)
		}
		return nil
	})
	b.start()
	d := b.disrupt("first")
	b.told(d)
	if !<-finalizer {
		t.Error("the workflow was started before the API server had the finalizer")
	}
	if got, want := b.temporal.inputs[contract.WorkflowID(d.Ref())], (contract.Input{Disruption: d.Ref()}); got != want {
		t.Errorf("input = %+v, want %+v", got, want)
	}
	if n := b.temporal.starts(d); n != 1 {
		t.Errorf("starts = %d, want 1", n)
	}
}

// rules 2, 5
func TestDeletingADisruptionSendsEndOnce(t *testing.T) {
	b := newBridge(t).start()
	d := b.disrupt("deleted")
	b.told(d)
	b.must(b.kube.Delete(t.Context(), d))
	eventually(t, soon, "end is sent", func() bool { return len(b.temporal.signals(d, contract.SignalEnd)) == 1 })
	// What the workflow writes while it cleans must not end it again.
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseCleaning })
	never(t, 500*time.Millisecond, "end is sent again", func() bool { return len(b.temporal.signals(d, contract.SignalEnd)) != 1 })
	if got := b.get(d); got.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(got, v1beta1.DisruptionFinalizer) {
		t.Errorf("the object is not waiting for its cleaning: %+v", got.ObjectMeta)
	}
}

func TestADeletedDisruptionThatWasNeverStartedIsStartedToBeCleaned(t *testing.T) {
	b := newBridge(t)
	d := b.disrupt("early", func(d *v1beta1.Disruption) { d.Finalizers = []string{v1beta1.DisruptionFinalizer} })
	b.must(b.kube.Delete(t.Context(), d))
	b.start()
	eventually(t, soon, "it is started and ended", func() bool {
		return b.temporal.starts(d) == 1 && len(b.temporal.signals(d, contract.SignalEnd)) == 1
	})
}

func TestAFinishedDisruptionIsLeftAlone(t *testing.T) {
	for _, phase := range []v1beta1.Phase{v1beta1.PhaseFinished, v1beta1.PhaseRejected} {
		t.Run(string(phase), func(t *testing.T) {
			b := newBridge(t)
			d := b.disrupt("finished")
			b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = phase })
			b.start()
			other := b.disrupt("other")
			b.told(other)
			b.must(b.kube.Patch(t.Context(), d, client.RawPatch(mergePatch, []byte(`{"metadata":{"labels":{"seen":"again"}}}`))))
			never(t, 500*time.Millisecond, "it gets a workflow or a finalizer", func() bool {
				return b.temporal.starts(d) > 0 || len(b.get(d).Finalizers) > 0
			})
			b.must(b.kube.Delete(t.Context(), d))
			if err := b.kube.Get(t.Context(), client.ObjectKeyFromObject(d), d); !apierrors.IsNotFound(err) {
				t.Errorf("get after delete = %v, want not found", err)
			}
		})
	}
}

// rules 36, 37
func TestTheEndOfAChaosPodIsToldAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		change func(*bridge, *corev1.Pod)
	}{
		{"deleted from outside", func(b *bridge, p *corev1.Pod) { b.must(b.kube.Delete(t.Context(), p)) }},
		{"failed", func(b *bridge, p *corev1.Pod) { b.setPhase(p, corev1.PodFailed) }},
		{"succeeded", func(b *bridge, p *corev1.Pod) { b.setPhase(p, corev1.PodSucceeded) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBridge(t).start()
			target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
			d := b.disrupt("held")
			chaos := b.chaosPod(d, "chaos", target)
			b.told(d)
			b.quiet(d)
			changed := time.Now()
			test.change(b, chaos)
			eventually(t, soon, "the workflow is told of one ended chaos pod", func() bool {
				return b.temporal.lastObservation(d).Ended == 1
			})
			t.Logf("told after %s", time.Since(changed))
		})
	}
}

func TestALostTargetIsToldAtOnce(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	b.chaosPod(d, "chaos", target)
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) {
		s.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
			"shop": {v1beta1.KindContainerFailure: {TargetUID: target.UID}},
		}
	})
	b.told(d)
	b.quiet(d)
	t.Run("not by losing its label", func(t *testing.T) {
		b.must(b.kube.Patch(t.Context(), target, client.RawPatch(mergePatch, []byte(`{"metadata":{"labels":null}}`))))
		eventually(t, soon, "there is no candidate", func() bool { return b.temporal.lastObservation(d).Candidates == 0 })
		if lost := b.temporal.lastObservation(d).TargetsLost; lost != 0 {
			t.Errorf("targets lost = %d, want 0", lost)
		}
	})
	t.Run("though it matches no longer", func(t *testing.T) {
		b.must(b.kube.Delete(t.Context(), target, client.GracePeriodSeconds(0)))
		eventually(t, soon, "the target is lost", func() bool { return b.temporal.lastObservation(d).TargetsLost == 1 })
	})
}

func TestNodesAreWatchedForDisruptionsOfNodes(t *testing.T) {
	b := newBridge(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-", Labels: map[string]string{"app": "shop"}}}
	b.must(b.kube.Create(t.Context(), node))
	t.Cleanup(func() { _ = b.kube.Delete(context.Background(), node) })
	ready := func(status corev1.ConditionStatus) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		b.must(b.kube.Status().Update(t.Context(), node))
	}
	ready(corev1.ConditionTrue)
	b.start()
	d := b.disrupt("nodes", func(d *v1beta1.Disruption) {
		d.Spec.Level = v1beta1.LevelNode
		d.Spec.Faults = v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}
	})
	b.told(d)
	if got := b.temporal.lastObservation(d).Candidates; got != 1 {
		t.Errorf("candidates = %d, want 1", got)
	}
	ready(corev1.ConditionFalse)
	eventually(t, soon, "there is no candidate", func() bool { return b.temporal.lastObservation(d).Candidates == 0 })
}

// A chaos pod of a large disruption goes between two looks: its finalizer is
// taken off by hand and it is deleted at once, while the bridge is busy telling
// something else.
func TestAChaosPodTakenAwayByHandFromALargeDisruption(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("large")
	chaos := []*corev1.Pod{b.chaosPod(d, "chaos-a", target), b.chaosPod(d, "chaos-b", target)}
	b.told(d)
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) {
		s.Phase, s.SpecHash, s.Kinds = v1beta1.PhaseHolding, d.Spec.Hash(), "container-failure"
		s.SelectedTargetsCount, s.InjectedTargetsCount = 2, 2 // as of one that is too large for a list
	})
	b.quiet(d)
	busy, free := make(chan struct{}, 1), make(chan struct{})
	b.temporal.answers(func(_ context.Context, call string) error {
		if call == contract.SignalObserved {
			busy <- struct{}{}
			<-free
		}
		return nil
	})
	b.pod(b.namespace, "another", map[string]string{"app": "shop"})
	<-busy
	b.must(b.kube.Patch(t.Context(), chaos[0], client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
	b.must(b.kube.Delete(t.Context(), chaos[0], client.GracePeriodSeconds(0)))
	eventually(t, soon, "the cache knows", func() bool {
		return apierrors.IsNotFound(b.manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(chaos[0]), &corev1.Pod{}))
	})
	b.temporal.back()
	close(free)
	eventually(t, 2*statusLate, "it is told", func() bool { return b.temporal.lastObservation(d).Ended == 1 })
}

func TestWhatTheWorkflowSeesItselfIsNotTold(t *testing.T) {
	b := newBridge(t).start()
	for _, name := range []string{"one", "two", "three"} {
		b.pod(b.namespace, name, map[string]string{"app": "shop"})
	}
	d := b.create("fresh")
	observed := func() int { return len(b.temporal.signals(d, contract.SignalObserved)) }
	eventually(t, soon, "the workflow is started", func() bool { return b.temporal.starts(d) == 1 })
	never(t, 500*time.Millisecond, "told before it chose", func() bool { return observed() > 0 })
	b.chose(d, 1, 2)
	never(t, 500*time.Millisecond, "told what it saw when it chose", func() bool { return observed() > 0 })
	b.pod(b.namespace, "four", map[string]string{"app": "shop"})
	eventually(t, soon, "a candidate that came later is told", func() bool { return observed() == 1 && b.temporal.lastObservation(d).Candidates == 4 })
}

// rules 9, 10
func TestOnlyAChangeOfTheSpecIsToldOfTheDisruptionItself(t *testing.T) {
	b := newBridge(t).start()
	d := b.disrupt("edited")
	b.told(d)
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.SpecHash, s.Phase = d.Spec.Hash(), v1beta1.PhaseHolding })
	b.quiet(d)
	before := len(b.temporal.signals(d, contract.SignalObserved))
	b.must(b.kube.Patch(t.Context(), d, client.RawPatch(mergePatch, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`))))
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.InjectedTargetsCount = 1 })
	never(t, 500*time.Millisecond, "labels, annotations or status are told", func() bool {
		return len(b.temporal.signals(d, contract.SignalObserved)) != before
	})
	b.must(b.kube.Patch(t.Context(), d, client.RawPatch(mergePatch, []byte(`{"spec":{"count":2}}`))))
	eventually(t, soon, "the changed spec is told", func() bool { return b.temporal.lastObservation(d).SpecChanged })
	if n := b.temporal.starts(d); n != 1 {
		t.Errorf("starts = %d, want 1", n)
	}
}

func TestAThousandMeaninglessUpdatesAreNotTold(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	chaos := b.chaosPod(d, "chaos", target)
	b.told(d)
	b.quiet(d)
	calls := b.temporal.total()
	b.traffic.reset()
	for i := range 500 {
		for _, p := range []*corev1.Pod{target, chaos} {
			p.Status.Message = time.Duration(i).String()
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: []corev1.ConditionStatus{"True", "False"}[i%2]}}
			b.must(b.kube.Status().Update(t.Context(), p))
		}
	}
	b.seen(chaos)
	never(t, 300*time.Millisecond, "Temporal is called", func() bool { return b.temporal.total() != calls })
	if n := len(b.traffic.all()); n != 0 {
		t.Errorf("requests to the API server: %v", b.traffic.all())
	}
}

func TestManyChangesAreToldTogether(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	var chaos []*corev1.Pod
	for i := range 40 {
		chaos = append(chaos, b.chaosPod(d, "chaos-"+string(rune('a'+i%26))+string(rune('a'+i/26)), target))
	}
	b.told(d)
	b.quiet(d)
	before := len(b.temporal.signals(d, contract.SignalObserved))
	began := time.Now()
	for _, p := range chaos {
		b.setPhase(p, corev1.PodFailed)
	}
	eventually(t, soon, "all are told", func() bool { return b.temporal.lastObservation(d).Ended == len(chaos) })
	took := time.Since(began)
	sent := b.temporal.signals(d, contract.SignalObserved)[before:]
	const want = 250 * time.Millisecond
	if most := int(took/want) + 2; len(sent) > most {
		t.Errorf("%d signals in %s, want at most %d", len(sent), took, most)
	}
	for i := 1; i < len(sent); i++ {
		if pause := sent[i].at.Sub(sent[i-1].at); pause < want {
			t.Errorf("signals %d and %d are %s apart, want %s", i-1, i, pause, want)
		}
	}
	t.Logf("%d changes in %s: %d signals, the first after %s", len(chaos), took, len(sent), sent[0].at.Sub(began))
}

// rule T8
func TestWhileTemporalIsAwayTheDisruptionSaysSo(t *testing.T) {
	b := newBridge(t)
	b.temporal.away()
	b.start()
	d := b.disrupt("waiting")
	eventually(t, soon, "Orchestrated is False", func() bool {
		return condition(b.get(d)).Status == metav1.ConditionFalse
	})
	if got := condition(b.get(d)); got.Reason != reasonUnreachable {
		t.Errorf("reason = %s, want %s", got.Reason, reasonUnreachable)
	}
	written := b.get(d).ResourceVersion
	never(t, 2*time.Second, "it is written again", func() bool { return b.get(d).ResourceVersion != written })
	b.must(b.kube.Delete(t.Context(), d))
	never(t, 300*time.Millisecond, "it is gone", func() bool { return len(b.get(d).Finalizers) == 0 })
	b.temporal.back()
	eventually(t, lastRetry, "it is started, ended, and says so", func() bool {
		return b.temporal.starts(d) == 1 && len(b.temporal.signals(d, contract.SignalEnd)) == 1 &&
			condition(b.get(d)).Status == metav1.ConditionTrue
	})
	if owner := owners(b.get(d)); owner != fieldManager {
		t.Errorf("the condition belongs to %q, want %q", owner, fieldManager)
	}
}

// rule T8
func TestALookThatIsTooEarlySaysNothingOfTemporal(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	chaos := b.chaosPod(d, "chaos", target)
	b.told(d)
	b.quiet(d)
	b.temporal.away()
	b.setPhase(chaos, corev1.PodFailed)
	eventually(t, soon, "Orchestrated is False", func() bool { return condition(b.get(d)).Status == metav1.ConditionFalse })
	// Each write of the condition makes the bridge look again at once.
	never(t, time.Second, "it is True while Temporal is away", func() bool { return condition(b.get(d)).Status == metav1.ConditionTrue })
}

func TestAWorkflowThatWasTerminatedIsStartedAgain(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	chaos := b.chaosPod(d, "chaos", target)
	b.told(d)
	b.quiet(d)
	b.temporal.answers(func(_ context.Context, call string) error {
		if call != "start" && b.temporal.starts(d) == 1 {
			return serviceerror.NewNotFound("workflow execution already completed")
		}
		return nil
	})
	b.setPhase(chaos, corev1.PodFailed)
	eventually(t, soon, "it is started again and told", func() bool {
		return b.temporal.starts(d) == 2 && b.temporal.lastObservation(d).Ended == 1
	})
	if c := condition(b.get(d)); c.Type != "" {
		t.Errorf("condition = %+v, want none: Temporal was there", c)
	}
}

// Nothing changes in the cluster, and still it is noticed, by one query for
// all disruptions.
func TestATerminatedWorkflowIsNoticedWhileNothingChanges(t *testing.T) {
	b := newBridge(t).start()
	waiting := []*v1beta1.Disruption{b.disrupt("a"), b.disrupt("b"), b.disrupt("c")}
	for _, d := range waiting {
		b.told(d)
		b.quiet(d)
	}
	calls := b.temporal.total()
	b.temporal.mu.Lock()
	b.temporal.gone = map[string]string{
		contract.WorkflowID(waiting[1].Ref()): "run-1", "disruption/other/cluster/uid": "run-2", "somebody-elses": "run-3",
	}
	b.temporal.mu.Unlock()
	eventually(t, 2*terminatedEvery, "it is started again and told", func() bool {
		return b.temporal.starts(waiting[1]) == 2 && len(b.temporal.signals(waiting[1], contract.SignalObserved)) == 2
	})
	b.temporal.mu.Lock()
	listed := b.temporal.listed
	b.temporal.mu.Unlock()
	eventually(t, 2*terminatedEvery, "it is asked again", func() bool {
		b.temporal.mu.Lock()
		defer b.temporal.mu.Unlock()
		return b.temporal.listed > listed
	})
	if n := b.temporal.total() - calls; n != 2 || listed > 2 {
		t.Errorf("%d calls and %d queries, want a start, a signal, and one query for all", n, listed)
	}
}

func TestAWorkflowThatCompletedWithoutItsLastStepIsShown(t *testing.T) {
	b := newBridge(t)
	b.temporal.answers(func(_ context.Context, call string) error {
		return serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "")
	})
	b.start()
	d := b.disrupt("left")
	eventually(t, soon, "the condition says so", func() bool { return condition(b.get(d)).Reason == reasonEnded })
}

// rule T8
func TestADisruptionWithNothingToTellSaysThatTemporalIsAway(t *testing.T) {
	b := newBridge(t).start()
	d := b.disrupt("quiet")
	b.told(d)
	b.quiet(d)
	calls := b.temporal.total()
	b.temporal.away()
	eventually(t, 4*pulseEvery, "Orchestrated is False", func() bool { return condition(b.get(d)).Reason == reasonUnreachable })
	b.temporal.back()
	eventually(t, 4*pulseEvery, "Orchestrated is True", func() bool { return condition(b.get(d)).Status == metav1.ConditionTrue })
	if n := b.temporal.total(); n != calls {
		t.Errorf("calls for the workflow = %d, want %d: there was nothing to tell", n, calls)
	}
}

func TestAConditionDecidedOnAnOldStateIsNotWritten(t *testing.T) {
	b := newBridge(t)
	d := b.disrupt("old")
	r := &reconciler{client: b.kube}
	b.setStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
	c, _ := orchestrated(d, start.ErrCompleted)
	if err := r.apply(t.Context(), d, c); !apierrors.IsConflict(err) {
		t.Errorf("apply on an old state = %v, want a conflict", err)
	}
	b.must(r.apply(t.Context(), b.get(d), c))
}

func (b *bridge) setStatus(d *v1beta1.Disruption, change func(*v1beta1.DisruptionStatus)) {
	b.t.Helper()
	eventually(b.t, soon, "the status is written", func() bool {
		got := b.get(d)
		change(&got.Status)
		err := b.kube.Status().Update(b.t.Context(), got)
		if err != nil && !apierrors.IsConflict(err) {
			b.t.Fatal(err)
		}
		return err == nil
	})
}

// quiet waits until everything the cluster shows now was told.
func (b *bridge) quiet(d *v1beta1.Disruption) {
	b.t.Helper()
	last, since := -1, time.Now()
	eventually(b.t, soon, "Temporal is told nothing more", func() bool {
		if n := b.temporal.total(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 2*gap
	})
}

// seen waits until the bridge's cache has this version of the pod.
func (b *bridge) seen(p *corev1.Pod) {
	b.t.Helper()
	eventually(b.t, soon, "the cache is up to date", func() bool {
		var got corev1.Pod
		err := b.manager.GetClient().Get(b.t.Context(), client.ObjectKeyFromObject(p), &got)
		return err == nil && got.ResourceVersion == p.ResourceVersion
	})
}

func condition(d *v1beta1.Disruption) metav1.Condition {
	if c := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated); c != nil {
		return *c
	}
	return metav1.Condition{}
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
