package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rules I1, I12
func TestOneWatchPerTypeAndNoList(t *testing.T) {
	b := newBridge(t).start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	b.Informed(d)
	chaos := b.ChaosPod(d, "chaos", target)
	b.Quiet()
	b.Traffic.Reset()
	b.SetPhase(chaos, corev1.PodFailed)
	b.Must(b.Kube.Delete(t.Context(), d))
	b.Quiet()
	other := b.Create("another")
	bridgetest.Eventually(t, bridgetest.Soon, "its workflow is started", func() bool { return b.Temporal.Starts(other) == 1 })
	b.Chose(other, 0, 0)
	b.Informed(other)
	b.Quiet()
	// The server ends watches of types that are new to it, and the bridge begins them
	// again.
	isWatch := func(request string) bool { return strings.HasPrefix(request, "WATCH") }
	if diff := cmp.Diff([]string{"PATCH disruptions"}, slices.DeleteFunc(b.Traffic.All(), isWatch)); diff != "" {
		t.Errorf("requests for the whole life of a disruption but its status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"WATCH disruptioncrons": 1, "WATCH disruptionpolicies": 1, "WATCH disruptionrollouts": 1, "WATCH disruptions": 1, "WATCH disruptionscenarios": 1, "WATCH emergencystops": 1, "WATCH namespaces": 1, "WATCH nodes": 1, "WATCH poddisruptionbudgets": 1, "WATCH pods": 1}, b.Traffic.MostWatches()); diff != "" {
		t.Errorf("watches at one time (-want +got):\n%s", diff)
	}
}

// With watch-namespaces the bridge needs no right to the rest of the cluster.
func TestOneTeamsNamespaces(t *testing.T) {
	b := newBridge(t)
	theirs := b.MakeNamespace("other-")
	b.Watched = []string{b.Namespace}
	b.start()
	other := b.Disrupt("theirs", func(d *v1beta1.Disruption) { d.Namespace = theirs })
	t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), other) })
	ours := b.Disrupt("ours")
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	b.SetPhase(b.ChaosPod(ours, "chaos", target), corev1.PodFailed)
	bridgetest.Eventually(t, bridgetest.Soon, "the workflow of ours hears of its candidate and of its chaos pod's end", func() bool {
		o := b.Temporal.LastObservation(ours)
		return o.Candidates == 1 && o.Ended == 1
	})
	if n := b.Temporal.Starts(other); n > 0 || len(b.Get(other).Finalizers) > 0 {
		t.Errorf("a disruption of another namespace was started %d times and has finalizers %v", n, b.Get(other).Finalizers)
	}
}

// rule I2
func TestWhatHappenedWhileTheBridgeWasDown(t *testing.T) {
	b := newBridge(t).start()
	edited, deleted := b.Disrupt("edited"), b.Disrupt("deleted")
	b.Informed(edited)
	b.Informed(deleted)
	b.Must(b.Stop())

	b.SetStatus(edited, func(s *v1beta1.DisruptionStatus) { s.SpecHash = edited.Spec.Hash() })
	b.Must(b.Kube.Patch(t.Context(), edited, client.RawPatch(bridgetest.MergePatch, []byte(`{"spec":{"count":2}}`))))
	b.Must(b.Kube.Delete(t.Context(), deleted))
	created := b.Disrupt("created")
	gone := b.Disrupt("gone")
	b.Must(b.Kube.Delete(t.Context(), gone))

	b.Temporal = bridgetest.NewRecorder()
	b.start()
	b.Informed(created)
	bridgetest.Eventually(t, bridgetest.Soon, "the edit is signalled", func() bool { return b.Temporal.LastObservation(edited).SpecChanged })
	bridgetest.Eventually(t, bridgetest.Soon, "the deletion is signalled", func() bool { return len(b.Temporal.Signals(deleted, contract.SignalEnd)) == 1 })
	if n := b.Temporal.Starts(gone); n != 0 {
		t.Errorf("starts of a disruption that is gone = %d, want 0", n)
	}
}

// rule I3
func TestEditsWhileADisruptionIsLookedAtAreTakenTogether(t *testing.T) {
	b := newBridge(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var blocked atomic.Bool
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call == "start" && blocked.CompareAndSwap(false, true) {
			close(entered)
			<-release // also when the call's time is over
		}
		return nil
	})
	b.start()
	d := b.Disrupt("busy")
	<-entered
	const edits = 200
	for i := range edits {
		b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"edit":"`+time.Duration(i).String()+`"}}}`))))
	}
	// The bridge receives the change of another Disruption after those edits.
	last := b.Disrupt("last")
	bridgetest.Eventually(t, bridgetest.Soon, "all edits were handled", func() bool { return b.Temporal.Starts(last) == 1 })
	b.Quiet()
	before := reconciles(t)
	close(release)
	b.Quiet()
	// One of them is the reconcile that was blocked.
	if more := reconciles(t) - before; more < 1 || more > edits/10 {
		t.Errorf("%v looks after %d edits, want the blocked one and few more", more, edits)
	}
	if b.Temporal.Overlap {
		t.Error("the disruption was looked at twice at the same time")
	}
}

// rule I4
func TestABusyDisruptionDoesNotStarveAnother(t *testing.T) {
	b := newBridge(t).start()
	hot := b.Disrupt("hot")
	b.Informed(hot)
	ctx, cancel := context.WithCancel(t.Context())
	var editing sync.WaitGroup
	editing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = b.Kube.Patch(ctx, hot.DeepCopy(), client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"edit":"`+time.Duration(i).String()+`"}}}`)))
		}
	})
	defer editing.Wait()
	defer cancel()
	cold := b.Disrupt("cold")
	began := time.Now()
	bridgetest.Eventually(t, bridgetest.Soon, "the other one is started", func() bool { return b.Temporal.Starts(cold) == 1 })
	t.Logf("started after %s", time.Since(began))
}

// rules I5, I13, T8
func TestWhileTemporalHangsTheCacheStaysFresh(t *testing.T) {
	b := newBridge(t)
	deaf, hang := make(chan struct{}), make(chan struct{})
	b.Temporal.Answers(func(ctx context.Context, _ string) error {
		<-deaf // also when the call's time is over: no worker of the queue becomes free
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hang:
			return nil
		}
	})
	b.start()
	var waiting []*v1beta1.Disruption
	for i := range 3 * queue.Workers { // every worker of the queue hangs, and more wait
		waiting = append(waiting, b.Disrupt("waiting-"+string(rune('a'+i))))
	}
	bridgetest.Eventually(t, bridgetest.Soon, "all workers hang", func() bool { return b.Temporal.Total() >= queue.Workers })
	d := waiting[0]
	b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"newest":"yes"}}}`))))
	began := time.Now()
	bridgetest.Eventually(t, bridgetest.Soon, "the cache has the newest label", func() bool {
		var got v1beta1.Disruption
		err := b.Manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(d), &got)
		return err == nil && got.Labels["newest"] == "yes"
	})
	t.Logf("in the cache after %s", time.Since(began))
	if n := b.Temporal.Total(); n != queue.Workers {
		t.Errorf("%d calls, want %d that hang: a worker was free", n, queue.Workers)
	}
	close(deaf)
	// Calls are short once the health is known. At full length they would take turns for
	// much longer.
	bridgetest.Eventually(t, temporal.HealthInterval(bridgetest.PollInterval)+temporal.CallTimeout+bridgetest.Soon, "all that hang say so", func() bool {
		return !slices.ContainsFunc(waiting, func(w *v1beta1.Disruption) bool {
			return bridgetest.Condition(b.Get(w)).Reason != condition.ReasonUnreachable
		})
	})
	close(hang)
	for _, w := range waiting {
		bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "each is started", func() bool { return b.Temporal.Starts(w) == 1 })
	}
}

// rule I6
func TestAResyncWritesAndSendsNothing(t *testing.T) {
	b := newBridge(t)
	b.Options = func(o *manager.Options) {
		often := time.Second
		o.Cache.SyncPeriod = &often
	}
	b.start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	b.ChaosPod(d, "chaos", target)
	b.Informed(d)
	b.Chose(d, 1, 0)
	b.Quiet()
	resyncs := func(t *testing.T) {
		b.Traffic.Reset()
		before, calls := reconciles(t), b.Temporal.Total()
		bridgetest.Eventually(t, bridgetest.Soon, "some resyncs", func() bool { return reconciles(t)-before >= 4 })
		if n := b.Traffic.Writes(); n != 0 {
			t.Errorf("writes: %v", b.Traffic.All())
		}
		if n := b.Temporal.Total(); n != calls {
			t.Errorf("calls to Temporal: %d, want %d", n, calls)
		}
	}
	t.Run("while a disruption is held", resyncs)
	t.Run("while an emergency stop is made", func(t *testing.T) {
		stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
		b.Must(b.Kube.Create(t.Context(), stop))
		t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), stop) })
		bridgetest.Eventually(t, bridgetest.Soon, "the workflow is signalled to end", func() bool { return len(b.Temporal.Signals(d, contract.SignalEnd)) == 1 })
		bridgetest.Eventually(t, bridgetest.Soon, "the stop shows that it has stopped one, whose injector still runs", func() bool {
			b.Must(b.Kube.Get(t.Context(), client.ObjectKeyFromObject(stop), stop))
			return stop.Status.Stopped == 1 && stop.Status.Injectors == 1
		})
		b.Quiet()
		resyncs(t)
	})
}

// rule I7
func TestADeletionTheWatchMissedIsReported(t *testing.T) {
	now := client.GracePeriodSeconds(0)
	for _, test := range []struct {
		name     string
		unseen   func(b *bridge, target, chaos *corev1.Pod)
		reported func(contract.Observation) bool
	}{
		{"a target is gone", func(b *bridge, target, _ *corev1.Pod) {
			b.Must(b.Kube.Delete(b.T.Context(), target, now))
		}, func(o contract.Observation) bool { return o.TargetsLost == 1 && o.Candidates == 0 }},
		{"a target is gone, and another has its name", func(b *bridge, target, _ *corev1.Pod) {
			b.Must(b.Kube.Delete(b.T.Context(), target, now))
			b.Pod(target.Namespace, target.Name, target.Labels)
		}, func(o contract.Observation) bool { return o.TargetsLost == 1 && o.Candidates == 1 }},
		{"a chaos pod is gone, finalizer and all", func(b *bridge, _, chaos *corev1.Pod) {
			b.Must(b.Kube.Patch(b.T.Context(), chaos, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))))
			b.Must(b.Kube.Delete(b.T.Context(), chaos, now))
		}, func(o contract.Observation) bool { return o.Ended == 1 && o.TargetsLost == 0 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBridge(t)
			cut := bridgetest.NewCut("pods")
			b.Traffic.Before, b.Traffic.After = cut.Before, cut.After
			b.start()
			target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
			d := b.Disrupt("held")
			chaos := b.ChaosPod(d, "chaos", target)
			b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
				s.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{"shop": {v1beta1.KindContainerFailure: {
					TargetUID: target.UID, InjectorPodName: chaos.Name, InjectionStatus: v1beta1.Injected,
				}}}
			})
			b.Informed(d)
			b.Quiet()

			cut.Down()
			test.unseen(b, target, chaos)
			b.Handled(d)
			if test.reported(b.Temporal.LastObservation(d)) {
				t.Error("the bridge knows though its watch is cut")
			}
			cut.Up()
			bridgetest.Eventually(t, bridgetest.Soon, "it is reported", func() bool { return test.reported(b.Temporal.LastObservation(d)) })
			if !cut.ListedAgain() {
				t.Error("the watch went on where it was: nothing was missed")
			}
		})
	}
}

// rule I9
func TestNothingIsDoneBeforeTheCachesAreFull(t *testing.T) {
	// Without the stops the bridge would begin a disruption that must not begin.
	for _, late := range []string{"pods", "nodes", "emergencystops"} {
		t.Run(late, func(t *testing.T) {
			b := newBridge(t)
			full := make(chan struct{})
			b.Traffic.Before = func(r *http.Request) (*http.Response, error) {
				if what := bridgetest.Describe(r); what == "WATCH "+late || what == "LIST "+late {
					select {
					case <-full:
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}
				return nil, nil
			}
			d := b.Disrupt("early")
			b.start()
			bridgetest.Eventually(t, bridgetest.Soon, "the disruptions are watched", func() bool { return b.Traffic.Count("WATCH disruptions") > 0 })
			// Another bridge, started later, is faster than one that waits for its caches.
			other := newBridge(t).start()
			bridgetest.Eventually(t, bridgetest.Soon, "the other bridge starts the workflow", func() bool { return other.Temporal.Starts(d) > 0 })
			b.Must(other.Stop())
			if calls, writes := b.Temporal.Total(), b.Traffic.Writes(); calls > 0 || writes > 0 {
				t.Errorf("%d calls of Temporal and %d writes before the caches are full", calls, writes)
			}
			close(full)
			b.Informed(d)
		})
	}
}

// rule I11
func TestTheLeaseIsFreedAfterTheLastLookHasEnded(t *testing.T) {
	b := newBridge(t)
	b.config.LeaderElection, b.config.LeaderElectionNamespace = true, b.ChaosNamespace
	entered := make(chan struct{}, 1)
	var ended, freed time.Time
	b.Temporal.Answers(func(ctx context.Context, call string) error {
		if call != "start" {
			return nil
		}
		entered <- struct{}{}
		<-ctx.Done()
		<-time.After(300 * time.Millisecond) // the time a call needs to return
		ended = time.Now()
		return ctx.Err()
	})
	stopping := make(chan struct{})
	b.Traffic.After = func(r *http.Request, _ *http.Response) {
		select {
		case <-stopping:
			if bridgetest.Describe(r) == "PUT leases" {
				freed = time.Now()
			}
		default:
		}
	}
	b.start()
	b.Disrupt("busy")
	<-entered
	close(stopping)
	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	t.Logf("stopped after %s", time.Since(began))
	if ended.IsZero() || freed.IsZero() || freed.Before(ended) {
		t.Errorf("the look ended at %s, the lease was freed at %s", ended, freed)
	}
}

// rule I13
func TestRetriesBecomeRarerAndRestart(t *testing.T) {
	b := newBridge(t)
	b.Temporal.Away()
	b.start()
	d := b.Disrupt("waiting")
	bridgetest.Eventually(t, bridgetest.Soon, "eight tries", func() bool { return b.Temporal.Total() >= 8 })
	b.Temporal.Mu.Lock()
	tries := slices.Clone(b.Temporal.Calls)
	b.Temporal.Mu.Unlock()
	longest := time.Duration(0)
	for i := range tries[1:] {
		longest = max(longest, tries[i+1].Sub(tries[i]))
	}
	if longest < 8*queue.FirstRetry {
		t.Errorf("the longest gap of %d tries is %s, want eight times the first, of %s", len(tries), longest, queue.FirstRetry)
	}
	b.Temporal.Back()
	bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "it is started", func() bool { return b.Temporal.Starts(d) > 0 })
	b.Quiet()
	// The health stays as it was: a change of it reconciles all, whatever their pause.
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call == "health" {
			return nil
		}
		return serviceerror.NewUnavailable("connection refused")
	})
	before := b.Temporal.Total()
	b.Must(b.Kube.Delete(t.Context(), d))
	// The first attempt writes the condition, which causes the second; the others follow
	// after their pauses.
	bridgetest.Eventually(t, 2*queue.LastRetry+bridgetest.Soon, "four more tries", func() bool { return b.Temporal.Total() >= before+4 })
	b.Temporal.Mu.Lock()
	defer b.Temporal.Mu.Unlock()
	for i := before + 1; i < before+4; i++ {
		if pause := b.Temporal.Calls[i].Sub(b.Temporal.Calls[i-1]); pause > queue.LastRetry/2 {
			t.Errorf("after a success a pause is %s, want hardly more than %s: it has not become short again", pause, queue.FirstRetry)
		}
	}
}

// reconciles is how often any bridge of this process has reconciled a Disruption.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == "disruption" {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
