package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
	b.Told(d)
	chaos := b.ChaosPod(d, "chaos", target)
	b.Quiet(d)
	var watches []string
	for _, r := range b.Traffic.All() {
		if strings.HasPrefix(r, "WATCH") {
			watches = append(watches, r)
		}
	}
	slices.Sort(watches)
	if diff := cmp.Diff([]string{"WATCH disruptions", "WATCH emergencystops", "WATCH nodes", "WATCH pods"}, watches); diff != "" {
		t.Errorf("watches (-want +got):\n%s", diff)
	}
	b.Traffic.Reset()
	b.SetPhase(chaos, corev1.PodFailed)
	b.Must(b.Kube.Delete(t.Context(), d))
	b.Quiet(d)
	other := b.Create("another")
	bridgetest.Eventually(t, bridgetest.Soon, "its workflow is started", func() bool { return b.Temporal.Starts(other) == 1 })
	b.Chose(other, 0, 0)
	b.Told(other)
	b.Quiet(other)
	if diff := cmp.Diff([]string{"PATCH disruptions"}, b.Traffic.All()); diff != "" {
		t.Errorf("requests for the whole life of a disruption but its status (-want +got):\n%s", diff)
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
	b.Told(edited)
	b.Told(deleted)
	b.Must(b.Stop())

	b.SetStatus(edited, func(s *v1beta1.DisruptionStatus) { s.SpecHash = edited.Spec.Hash() })
	b.Must(b.Kube.Patch(t.Context(), edited, client.RawPatch(bridgetest.MergePatch, []byte(`{"spec":{"count":2}}`))))
	b.Must(b.Kube.Delete(t.Context(), deleted))
	created := b.Disrupt("created")
	gone := b.Disrupt("gone")
	b.Must(b.Kube.Delete(t.Context(), gone))

	b.Temporal = bridgetest.NewRecorder()
	b.start()
	b.Told(created)
	bridgetest.Eventually(t, bridgetest.Soon, "the edit is told", func() bool { return b.Temporal.LastObservation(edited).SpecChanged })
	bridgetest.Eventually(t, bridgetest.Soon, "the deletion is told", func() bool { return len(b.Temporal.Signals(deleted, contract.SignalEnd)) == 1 })
	if n := b.Temporal.Starts(gone); n != 0 {
		t.Errorf("starts of a disruption that is gone = %d, want 0", n)
	}
}

// rule I3
func TestEditsWhileADisruptionIsLookedAtAreTakenTogether(t *testing.T) {
	b := newBridge(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.Temporal.Answers(func(_ context.Context, call string) error {
		if call == "start" {
			entered <- struct{}{}
			<-release // also when the call's time is over
		}
		return nil
	})
	b.start()
	d := b.Disrupt("busy")
	<-entered
	before := reconciles(t)
	for i := range 200 {
		b.Must(b.Kube.Patch(t.Context(), d, client.RawPatch(bridgetest.MergePatch, []byte(`{"metadata":{"labels":{"edit":"`+time.Duration(i).String()+`"}}}`))))
	}
	bridgetest.Eventually(t, bridgetest.Soon, "the cache has the last edit", func() bool {
		var got v1beta1.Disruption
		err := b.Manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(d), &got)
		return err == nil && got.Labels["edit"] == time.Duration(199).String()
	})
	close(release)
	b.Quiet(d)
	// One of them is the look that was blocked.
	if more := reconciles(t) - before; more < 1 || more > 3 {
		t.Errorf("looks after 200 edits = %v, want the blocked one and at most 2 more", more)
	}
	if b.Temporal.Overlap {
		t.Error("the disruption was looked at twice at the same time")
	}
}

// rule I4
func TestABusyDisruptionDoesNotStarveAnother(t *testing.T) {
	b := newBridge(t).start()
	hot := b.Disrupt("hot")
	b.Told(hot)
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
	hang := make(chan struct{})
	b.Temporal.Answers(func(ctx context.Context, _ string) error {
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
	bridgetest.Eventually(t, temporal.CallTimeout, "the cache has the newest label", func() bool {
		var got v1beta1.Disruption
		err := b.Manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(d), &got)
		return err == nil && got.Labels["newest"] == "yes"
	})
	t.Logf("in the cache after %s", time.Since(began))
	// Its health is noticed after temporal.HealthInterval and temporal.CallTimeout; from then on calls are
	// short. At full length they would take turns for much longer.
	bridgetest.Eventually(t, temporal.HealthInterval+temporal.CallTimeout+bridgetest.Soon, "all that hang say so", func() bool {
		return !slices.ContainsFunc(waiting, func(w *v1beta1.Disruption) bool {
			return bridgetest.Condition(b.Get(w)).Reason != condition.ReasonUnreachable
		})
	})
	close(hang)
	for _, w := range waiting {
		bridgetest.Eventually(t, queue.LastRetry, "each is started", func() bool { return b.Temporal.Starts(w) == 1 })
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
	b.Told(d)
	b.Quiet(d)
	b.Traffic.Reset()
	before, calls := reconciles(t), b.Temporal.Total()
	bridgetest.Eventually(t, bridgetest.Soon, "two resyncs", func() bool { return reconciles(t)-before >= 2 })
	if n := b.Traffic.Writes(); n != 0 {
		t.Errorf("writes: %v", b.Traffic.All())
	}
	if n := b.Temporal.Total(); n != calls {
		t.Errorf("calls to Temporal: %d, want %d", n, calls)
	}
}

// rule I7
func TestADeletionTheWatchMissedIsTold(t *testing.T) {
	b := newBridge(t)
	cut := bridgetest.NewCut("pods")
	b.Traffic.Before, b.Traffic.After = cut.Before, cut.After
	b.start()
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	d := b.Disrupt("held")
	b.ChaosPod(d, "chaos", target)
	b.Told(d)
	b.Quiet(d)

	cut.Down()
	b.Must(b.Kube.Delete(t.Context(), target, client.GracePeriodSeconds(0)))
	bridgetest.Never(t, 300*time.Millisecond, "the bridge knows", func() bool { return b.Temporal.LastObservation(d).TargetsLost > 0 })
	cut.Up()
	bridgetest.Eventually(t, 30*time.Second, "the lost target is told", func() bool { return b.Temporal.LastObservation(d).TargetsLost == 1 })
	if !cut.StartedAnew() {
		t.Error("the watch went on where it was: nothing was missed")
	}
}

// rule I9
func TestNothingIsDoneBeforeTheCachesAreFull(t *testing.T) {
	b := newBridge(t)
	full := make(chan struct{})
	b.Traffic.Before = func(r *http.Request) (*http.Response, error) {
		if what := bridgetest.Describe(r); what == "WATCH pods" || what == "LIST pods" {
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
	bridgetest.Never(t, time.Second, "Temporal is called or something is written", func() bool {
		return b.Temporal.Total() > 0 || b.Traffic.Writes() > 0
	})
	close(full)
	b.Told(d)
}

// rule I11
func TestTheLeaseIsFreedAfterTheLastLookHasEnded(t *testing.T) {
	b := newBridge(t)
	b.config.LeaderElection, b.config.LeaderElectionNamespace = true, b.ChaosNamespace
	entered := make(chan struct{}, 1)
	var ended, freed time.Time
	b.Temporal.Answers(func(ctx context.Context, _ string) error {
		entered <- struct{}{}
		<-ctx.Done()
		<-time.After(300 * time.Millisecond) // what a call needs to come back
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
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %s, want less than 3s", took)
	}
	if ended.IsZero() || freed.IsZero() || freed.Before(ended) {
		t.Errorf("the look ended at %s, the lease was freed at %s", ended, freed)
	}
}

// rule I13
func TestRetriesBecomeRarerAndStartAnew(t *testing.T) {
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
	bridgetest.Eventually(t, queue.LastRetry, "it is started", func() bool { return b.Temporal.Starts(d) > 0 })
	b.Quiet(d)
	b.Temporal.Away()
	before := b.Temporal.Total()
	b.Must(b.Kube.Delete(t.Context(), d))
	bridgetest.Eventually(t, 30*queue.FirstRetry, "it is tried three times at once", func() bool { return b.Temporal.Total() >= before+3 })
}

// reconciles is how often any bridge of this process has looked at anything.
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
			n += m.GetCounter().GetValue()
		}
	}
	return n
}
