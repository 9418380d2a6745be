package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rules I1, I12
func TestOneWatchPerTypeAndNoList(t *testing.T) {
	b := newBridge(t).start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	b.told(d)
	chaos := b.chaosPod(d, "chaos", target)
	b.quiet(d)
	var watches []string
	for _, r := range b.traffic.all() {
		if strings.HasPrefix(r, "WATCH") {
			watches = append(watches, r)
		}
	}
	slices.Sort(watches)
	if diff := cmp.Diff([]string{"WATCH disruptions", "WATCH emergencystops", "WATCH nodes", "WATCH pods"}, watches); diff != "" {
		t.Errorf("watches (-want +got):\n%s", diff)
	}
	b.traffic.reset()
	b.setPhase(chaos, corev1.PodFailed)
	b.must(b.kube.Delete(t.Context(), d))
	b.quiet(d)
	other := b.create("another")
	eventually(t, soon, "its workflow is started", func() bool { return b.temporal.starts(other) == 1 })
	b.chose(other, 0, 0)
	b.told(other)
	b.quiet(other)
	if diff := cmp.Diff([]string{"PATCH disruptions"}, b.traffic.all()); diff != "" {
		t.Errorf("requests for the whole life of a disruption but its status (-want +got):\n%s", diff)
	}
}

// With watch-namespaces the bridge needs no right to the rest of the cluster.
func TestOneTeamsNamespaces(t *testing.T) {
	b := newBridge(t)
	theirs := b.newNamespace("other-")
	b.config.WatchNamespaces = []string{b.namespace}
	b.start()
	other := b.disrupt("theirs", func(d *v1beta1.Disruption) { d.Namespace = theirs })
	t.Cleanup(func() { _ = b.kube.Delete(context.Background(), other) })
	ours := b.disrupt("ours")
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	b.setPhase(b.chaosPod(ours, "chaos", target), corev1.PodFailed)
	eventually(t, soon, "the workflow of ours hears of its candidate and of its chaos pod's end", func() bool {
		o := b.temporal.lastObservation(ours)
		return o.Candidates == 1 && o.Ended == 1
	})
	if n := b.temporal.starts(other); n > 0 || len(b.get(other).Finalizers) > 0 {
		t.Errorf("a disruption of another namespace was started %d times and has finalizers %v", n, b.get(other).Finalizers)
	}
}

// rule I2
func TestWhatHappenedWhileTheBridgeWasDown(t *testing.T) {
	b := newBridge(t).start()
	edited, deleted := b.disrupt("edited"), b.disrupt("deleted")
	b.told(edited)
	b.told(deleted)
	b.must(b.stop())

	b.setStatus(edited, func(s *v1beta1.DisruptionStatus) { s.SpecHash = edited.Spec.Hash() })
	b.must(b.kube.Patch(t.Context(), edited, client.RawPatch(mergePatch, []byte(`{"spec":{"count":2}}`))))
	b.must(b.kube.Delete(t.Context(), deleted))
	created := b.disrupt("created")
	gone := b.disrupt("gone")
	b.must(b.kube.Delete(t.Context(), gone))

	b.temporal = newRecorder()
	b.start()
	b.told(created)
	eventually(t, soon, "the edit is told", func() bool { return b.temporal.lastObservation(edited).SpecChanged })
	eventually(t, soon, "the deletion is told", func() bool { return len(b.temporal.signals(deleted, contract.SignalEnd)) == 1 })
	if n := b.temporal.starts(gone); n != 0 {
		t.Errorf("starts of a disruption that is gone = %d, want 0", n)
	}
}

// rule I3
func TestEditsWhileADisruptionIsLookedAtAreTakenTogether(t *testing.T) {
	b := newBridge(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	b.temporal.answers(func(_ context.Context, call string) error {
		if call == "start" {
			entered <- struct{}{}
			<-release // also when the call's time is over
		}
		return nil
	})
	b.start()
	d := b.disrupt("busy")
	<-entered
	before := reconciles(t)
	for i := range 200 {
		b.must(b.kube.Patch(t.Context(), d, client.RawPatch(mergePatch, []byte(`{"metadata":{"labels":{"edit":"`+time.Duration(i).String()+`"}}}`))))
	}
	eventually(t, soon, "the cache has the last edit", func() bool {
		var got v1beta1.Disruption
		err := b.manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(d), &got)
		return err == nil && got.Labels["edit"] == time.Duration(199).String()
	})
	close(release)
	b.quiet(d)
	// One of them is the look that was blocked.
	if more := reconciles(t) - before; more < 1 || more > 3 {
		t.Errorf("looks after 200 edits = %v, want the blocked one and at most 2 more", more)
	}
	if b.temporal.overlap {
		t.Error("the disruption was looked at twice at the same time")
	}
}

// rule I4
func TestABusyDisruptionDoesNotStarveAnother(t *testing.T) {
	b := newBridge(t).start()
	hot := b.disrupt("hot")
	b.told(hot)
	ctx, cancel := context.WithCancel(t.Context())
	var editing sync.WaitGroup
	editing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = b.kube.Patch(ctx, hot.DeepCopy(), client.RawPatch(mergePatch, []byte(`{"metadata":{"labels":{"edit":"`+time.Duration(i).String()+`"}}}`)))
		}
	})
	defer editing.Wait()
	defer cancel()
	cold := b.disrupt("cold")
	began := time.Now()
	eventually(t, soon, "the other one is started", func() bool { return b.temporal.starts(cold) == 1 })
	t.Logf("started after %s", time.Since(began))
}

// rules I5, I13, T8
func TestWhileTemporalHangsTheCacheStaysFresh(t *testing.T) {
	b := newBridge(t)
	hang := make(chan struct{})
	b.temporal.answers(func(ctx context.Context, _ string) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hang:
			return nil
		}
	})
	b.start()
	var waiting []*v1beta1.Disruption
	for i := range 3 * workers { // every worker of the queue hangs, and more wait
		waiting = append(waiting, b.disrupt("waiting-"+string(rune('a'+i))))
	}
	eventually(t, soon, "all workers hang", func() bool { return b.temporal.total() >= workers })
	d := waiting[0]
	b.must(b.kube.Patch(t.Context(), d, client.RawPatch(mergePatch, []byte(`{"metadata":{"labels":{"newest":"yes"}}}`))))
	began := time.Now()
	eventually(t, callTimeout, "the cache has the newest label", func() bool {
		var got v1beta1.Disruption
		err := b.manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(d), &got)
		return err == nil && got.Labels["newest"] == "yes"
	})
	t.Logf("in the cache after %s", time.Since(began))
	// The pulse notices after pulseEvery and callTimeout; from then on calls are
	// short. At full length they would take turns for much longer.
	eventually(t, pulseEvery+callTimeout+soon, "all that hang say so", func() bool {
		return !slices.ContainsFunc(waiting, func(w *v1beta1.Disruption) bool { return condition(b.get(w)).Reason != reasonUnreachable })
	})
	close(hang)
	for _, w := range waiting {
		eventually(t, lastRetry, "each is started", func() bool { return b.temporal.starts(w) == 1 })
	}
}

// rule I6
func TestAResyncWritesAndSendsNothing(t *testing.T) {
	b := newBridge(t)
	b.options = func(o *manager.Options) {
		often := time.Second
		o.Cache.SyncPeriod = &often
	}
	b.start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	b.chaosPod(d, "chaos", target)
	b.told(d)
	b.quiet(d)
	b.traffic.reset()
	before, calls := reconciles(t), b.temporal.total()
	eventually(t, soon, "two resyncs", func() bool { return reconciles(t)-before >= 2 })
	if n := b.traffic.writes(); n != 0 {
		t.Errorf("writes: %v", b.traffic.all())
	}
	if n := b.temporal.total(); n != calls {
		t.Errorf("calls to Temporal: %d, want %d", n, calls)
	}
}

// rule I7
func TestADeletionTheWatchMissedIsTold(t *testing.T) {
	b := newBridge(t)
	cut := newCut("pods")
	b.traffic.before, b.traffic.after = cut.before, cut.after
	b.start()
	target := b.pod(b.namespace, "shop", map[string]string{"app": "shop"})
	d := b.disrupt("held")
	b.chaosPod(d, "chaos", target)
	b.told(d)
	b.quiet(d)

	cut.down()
	b.must(b.kube.Delete(t.Context(), target, client.GracePeriodSeconds(0)))
	never(t, 300*time.Millisecond, "the bridge knows", func() bool { return b.temporal.lastObservation(d).TargetsLost > 0 })
	cut.up()
	eventually(t, 30*time.Second, "the lost target is told", func() bool { return b.temporal.lastObservation(d).TargetsLost == 1 })
	if !cut.startedAnew() {
		t.Error("the watch went on where it was: nothing was missed")
	}
}

// rule I9
func TestNothingIsDoneBeforeTheCachesAreFull(t *testing.T) {
	b := newBridge(t)
	full := make(chan struct{})
	b.traffic.before = func(r *http.Request) (*http.Response, error) {
		if what := describe(r); what == "WATCH pods" || what == "LIST pods" {
			select {
			case <-full:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return nil, nil
	}
	d := b.disrupt("early")
	b.start()
	eventually(t, soon, "the disruptions are watched", func() bool { return b.traffic.count("WATCH disruptions") > 0 })
	never(t, time.Second, "Temporal is called or something is written", func() bool {
		return b.temporal.total() > 0 || b.traffic.writes() > 0
	})
	close(full)
	b.told(d)
}

// rule I11
func TestTheLeaseIsFreedAfterTheLastLookHasEnded(t *testing.T) {
	b := newBridge(t)
	b.config.LeaderElection, b.config.LeaderElectionNamespace = true, b.config.ChaosNamespace
	entered := make(chan struct{}, 1)
	var ended, freed time.Time
	b.temporal.answers(func(ctx context.Context, _ string) error {
		entered <- struct{}{}
		<-ctx.Done()
		<-time.After(300 * time.Millisecond) // what a call needs to come back
		ended = time.Now()
		return ctx.Err()
	})
	stopping := make(chan struct{})
	b.traffic.after = func(r *http.Request, _ *http.Response) {
		select {
		case <-stopping:
			if describe(r) == "PUT leases" {
				freed = time.Now()
			}
		default:
		}
	}
	b.start()
	b.disrupt("busy")
	<-entered
	close(stopping)
	began := time.Now()
	if err := b.stop(); err != nil {
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
	b.temporal.away()
	b.start()
	d := b.disrupt("waiting")
	eventually(t, soon, "eight tries", func() bool { return b.temporal.total() >= 8 })
	b.temporal.mu.Lock()
	tries := slices.Clone(b.temporal.calls)
	b.temporal.mu.Unlock()
	longest := time.Duration(0)
	for i := range tries[1:] {
		longest = max(longest, tries[i+1].Sub(tries[i]))
	}
	if longest < 8*firstRetry {
		t.Errorf("the longest gap of %d tries is %s, want eight times the first, of %s", len(tries), longest, firstRetry)
	}
	b.temporal.back()
	eventually(t, lastRetry, "it is started", func() bool { return b.temporal.starts(d) > 0 })
	b.quiet(d)
	b.temporal.away()
	before := b.temporal.total()
	b.must(b.kube.Delete(t.Context(), d))
	eventually(t, 30*firstRetry, "it is tried three times at once", func() bool { return b.temporal.total() >= before+3 })
}

func TestCachesHoldNoMoreThanIsRead(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{}}, Finalizers: []string{"f"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Message: "long",
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "runs"}, {Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "long"}}},
			},
		},
	}
	kept, err := stripPod(pod)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}},
		}},
	}
	if diff := cmp.Diff(want, kept); err != nil || diff != "" {
		t.Errorf("stripPod (-want +got), %v:\n%s", err, diff)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "k"}
	if got, err := stripPod(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("stripPod(tombstone) = %v, %v, want it untouched", got, err)
	}
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

// cut is a network that loses the watch of one resource, for long enough that
// the server has forgotten where it was.
type cut struct {
	resource string
	mu       sync.Mutex
	isDown   bool
	wasDown  bool
	anew     bool // the resource was read from the start again
	open     []io.Closer
}

func newCut(resource string) *cut { return &cut{resource: resource} }

func (c *cut) before(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what := describe(r); what != "WATCH "+c.resource && what != "LIST "+c.resource {
		return nil, nil
	}
	if c.isDown {
		return nil, errors.New("no route to host")
	}
	if c.wasDown && (r.URL.Query().Get("sendInitialEvents") == "true" || describe(r) == "LIST "+c.resource) {
		c.anew = true
	}
	if c.wasDown && !c.anew {
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
		return &http.Response{
			StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
		}, nil
	}
	return nil, nil
}

func (c *cut) after(r *http.Request, response *http.Response) {
	if describe(r) != "WATCH "+c.resource {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, response.Body)
}

func (c *cut) down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isDown = true
	for _, body := range c.open {
		_ = body.Close()
	}
	c.open = nil
}

func (c *cut) up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isDown, c.wasDown = false, true
}

func (c *cut) startedAnew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.anew
}
