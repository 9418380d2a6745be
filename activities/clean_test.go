package activities

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/workflows/contract"
)

var injectorRuns = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// kubelet ends deleted chaos pods as a kubelet does, with the exit code that how has for
// the target's node. The pods of an unknown node keep running.
func (c *testCluster) kubelet(ref v1beta1.DisruptionRef, how map[string]int32) {
	c.Helper()
	c.OnPods(chaospod.Selector(ref, chaospod.AllShards), func(pods []*corev1.Pod) {
		for _, pod := range pods {
			code, known := how[pod.Spec.NodeName]
			switch {
			case !known || pod.DeletionTimestamp == nil:
			case !kube.InjectorEnded(pod):
				c.exits(pod, code)
			case !chaospod.Dropped(pod):
				c.forgets(pod)
			}
		}
	})
}

// exits writes the exit of a chaos pod's injector, as a kubelet does.
func (c *testCluster) exits(pod *corev1.Pod, code int32) {
	c.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	if err := c.Exits(pod, phase, apicluster.Exited(code, "Error", "")); err != nil && c.Context().Err() == nil {
		c.Errorf("the kubelet of chaos pod %s cannot write how it ended: %v", pod.Name, err)
	}
}

// forgets removes a deleted chaos pod, as a kubelet does at the end.
func (c *testCluster) forgets(pod *corev1.Pod) {
	c.Helper()
	if err := c.Forgets(pod); err != nil && c.Context().Err() == nil {
		c.Errorf("the kubelet of chaos pod %s cannot delete it: %v", pod.Name, err)
	}
}

// endsTogether ends all the chaos pods, as a kubelet does, once this many are deleted. It
// holds busy from its first write to its last.
func (c *testCluster) endsTogether(ref v1beta1.DisruptionRef, all int, busy *sync.Mutex) {
	c.Helper()
	alive := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil }
	ended := false
	c.OnPods(chaospod.Selector(ref, chaospod.AllShards), func(pods []*corev1.Pod) {
		if ended || len(pods) != all || slices.ContainsFunc(pods, alive) {
			return
		}
		ended = true
		busy.Lock()
		defer busy.Unlock()
		for _, pod := range pods {
			c.exits(pod, 0)
			c.forgets(pod)
		}
	})
}

// differs is a clock of an API server that is ahead of this machine's.
func differs(t *testing.T, ahead time.Duration) *kube.Clock {
	t.Helper()
	clock := &kube.Clock{}
	answer := func(*http.Request) (*http.Response, error) {
		return &http.Response{Header: http.Header{"Date": {time.Now().Add(ahead).UTC().Format(http.TimeFormat)}}}, nil
	}
	if _, err := clock.Wrap(roundTripper(answer)).RoundTrip(nil); err != nil {
		t.Fatal(err)
	}
	return clock
}

func TestCleanChaosPods(t *testing.T) {
	patience := time.Minute
	t.Run("all own chaos pods are deleted, others are untouched", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(4, nil)
		mine, theirs := c.started("mine", nil), c.started("theirs", nil)
		for _, pod := range append(c.ChaosPodsOf(mine), c.ChaosPodsOf(theirs)...) {
			c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		}
		c.kubelet(mine, map[string]int32{"node-0": 0, "node-1": 0, "node-2": 0, "node-3": 0})
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: mine, Number: 0}, Patience: patience})
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(mine)) != 0 { // rules 34, 41
			t.Errorf("left %+v", cleaned)
		}
		for _, pod := range c.ChaosPodsOf(theirs) {
			if pod.DeletionTimestamp != nil { // rule 35
				t.Errorf("chaos pod %s of another disruption was deleted", pod.Name)
			}
		}
	})
	t.Run("those that end clean cost a list for each half, one write for all, and one each", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(4, nil)
		ref := c.injected("calm", all)
		var lists, writes atomic.Int64
		// A list between the two writes of a kubelet would cause a write too early, and a
		// second write. So busy keeps lists and the kubelet's writes apart.
		var kubelet sync.Mutex
		c.endsTogether(ref, 4, &kubelet)
		c.around(func(r *http.Request, server http.RoundTripper) (*http.Response, error) {
			switch {
			case !strings.Contains(r.URL.Path, "/pods"):
			case r.Method == http.MethodGet:
				kubelet.Lock()
				defer kubelet.Unlock()
				lists.Add(1)
			default:
				writes.Add(1)
			}
			return server.RoundTrip(r)
		})
		began := time.Now()
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: time.Minute})
		// The injectors of this test do not report a search of their nodes.
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 || len(cleaned.UnverifiedNodes) != 4 {
			t.Errorf("cleaned = %+v, want nothing left, and all nodes to be searched", cleaned)
		}
		// A slow machine may also list every 5 s.
		if most := 3 + int64(time.Since(began)/(5*time.Second)); lists.Load() > most || writes.Load() != 5 {
			t.Errorf("%d lists and %d writes, want at most %d and 5", lists.Load(), writes.Load(), most)
		}
	})
	t.Run("where they cannot be deleted together, each is by itself", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(3, nil)
		ref := c.injected("calm", all)
		c.kubelet(ref, map[string]int32{"node-0": 0, "node-1": 0, "node-2": 0})
		c.through(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods") {
				return nil, errors.New("the API server is busy")
			}
			return nil, nil
		})
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: patience})
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 {
			t.Errorf("left %+v", cleaned)
		}
	})
	t.Run("one that failed is kept with its finalizer, the others go", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(3, nil)
		ref := c.injected("calm", all)
		c.kubelet(ref, map[string]int32{"node-0": 0, "node-1": 1, "node-2": 0})
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: patience})
		left := c.ChaosPodsOf(ref)
		// rules 44, 48
		if cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed || cleaned.Left[0].Node != "node-1" {
			t.Fatalf("cleaned = %+v, want node-1 failed and the others gone", cleaned)
		}
		// rules 26, 44
		if len(left) != 1 || !slices.Contains(left[0].Finalizers, v1beta1.ChaosPodFinalizer) {
			t.Errorf("left %d pods, want the failed one with its finalizer", len(left))
		}
		// rules 6, 45
		if n, err := c.env.ExecuteActivity(c.Finish, status.FinishInput{Disruption: ref}); err != nil || !has(n, 1) || !hasFinalizer(c.Get(ref)) {
			t.Errorf("Finish let the disruption go although a chaos pod is left")
		}
		do[any](c, c.ReportPhase, status.Report{Disruption: ref, Phase: v1beta1.PhaseStuck, Left: cleaned.Left, Remaining: 1, Advice: "mend the node", Round: 1})
		c.WantCondition(ref, v1beta1.ConditionStuckOnRemoval, metav1.ConditionTrue, "node-1") // rule 45
		if len(c.EventsOf("StuckOnRemoval")) != 1 || !c.Get(ref).Status.IsStuckOnRemoval {
			t.Error("want one StuckOnRemoval event and the status flag")
		}
		again := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Release: []string{string(cleaned.Left[0].UID)}, Patience: patience})
		if again.Remaining != 0 { // rule 46
			t.Errorf("released: %+v, want nothing left", again)
		}
	})
	t.Run("a release lets go of what failed, never of an injector that can clean", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(2, nil)
		ref := c.started("calm", all)
		chaos := c.ChaosPodsOf(ref)
		c.Becomes(chaos[0], corev1.PodFailed, apicluster.Exited(137, "Error", ""), corev1.ConditionFalse)
		c.Becomes(chaos[1], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		now := time.Now()
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, ReleaseUntil: &now, Patience: time.Second})
		left := c.ChaosPodsOf(ref)
		if cleaned.Remaining != 1 || len(left) != 1 || left[0].Name != chaos[1].Name || *left[0].DeletionGracePeriodSeconds != 60 {
			t.Errorf("cleaned = %+v, left %d; want the running injector left to clean in its own time", cleaned, len(left))
		}
	})
	t.Run("a release lets go of nothing that fails after the decision", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(2, nil)
		ref := c.started("calm", func(spec *v1beta1.DisruptionSpec) {
			all(spec)
			spec.Network = &v1beta1.NetworkDisruption{Drop: 40}
		})
		decided := time.Now().Truncate(time.Second)
		chaos := c.ChaosPodsOf(ref)
		for i, pod := range chaos {
			state := apicluster.Exited(137, "Error", "")
			// two before the decision, one at that moment, one later
			state.Terminated.FinishedAt = metav1.NewTime(decided.Add(time.Duration(i-2) * time.Minute))
			c.Becomes(pod, corev1.PodFailed, state, corev1.ConditionFalse)
		}
		one := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Release: []string{string(chaos[3].UID)}, Patience: patience}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, one); cleaned.Remaining != 3 {
			t.Errorf("cleaned = %+v, want one let go, and nothing else on its target", cleaned)
		}
		before := decided.Add(-30 * time.Second)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, ReleaseUntil: &before, Patience: patience})
		if cleaned.Remaining != 1 || cleaned.Left[0].UID != chaos[2].UID {
			t.Errorf("cleaned = %+v, want the one that failed later left", cleaned)
		}
	})
	t.Run("failed, but the target is gone, replaced or not running: it is finalized", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		pods := c.MakeTargets(2, nil)
		ref := c.started("calm", all)
		for _, pod := range c.ChaosPodsOf(ref) {
			c.Becomes(pod, corev1.PodFailed, apicluster.Exited(1, "Error", ""), corev1.ConditionFalse)
		}
		now := int64(0)
		// rule 38
		c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		successor := pods[0].DeepCopy()
		successor.ResourceVersion, successor.UID = "", ""
		_, err := c.Kube.CoreV1().Pods(c.Shop).Create(t.Context(), successor, metav1.CreateOptions{})
		c.Must(err)
		pods[1].Status.Phase = corev1.PodFailed // rule 39
		_, err = c.Kube.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), pods[1], metav1.UpdateOptions{})
		c.Must(err)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: patience})
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 { // rule 40
			t.Errorf("left %+v, want all let go", cleaned)
		}
	})
	// rule 39
	t.Run("failed, and the target is a node that is not ready: kept, until the node is gone", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		node := c.node()
		node.becomes(corev1.ConditionTrue)
		ref := c.started("calm", node.disrupted)
		chaos := c.ChaosPodsOf(ref)[0]
		c.Becomes(chaos, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		node.becomes(corev1.ConditionUnknown)
		in := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: time.Second}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Lost != 0 || c.ChaosPodsOf(ref)[0].DeletionTimestamp != nil {
			t.Errorf("cleaned = %+v, want the node kept as a target", cleaned)
		}
		c.Becomes(chaos, corev1.PodFailed, apicluster.Exited(1, "Error", ""), corev1.ConditionFalse)
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed {
			t.Errorf("cleaned = %+v, want the chaos pod kept, as failed", cleaned)
		}
		node.goes()
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Remaining != 0 || cleaned.Lost != 1 {
			t.Errorf("cleaned = %+v, want the target lost and its chaos pod gone", cleaned)
		}
	})
	t.Run("failed on a node that is not ready, and the record is lost: kept, as it still says what its target is", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		node := c.node()
		node.becomes(corev1.ConditionTrue)
		ref := c.started("calm", node.disrupted)
		chaos := c.ChaosPodsOf(ref)[0]
		c.Becomes(chaos, corev1.PodFailed, apicluster.Exited(1, "Error", ""), corev1.ConditionFalse)
		node.becomes(corev1.ConditionUnknown)
		c.Must(c.Targets.DeleteRecords(t.Context(), ref))
		// a worker that never read the record
		c.Targets = targets.NewStore(c.Kube, c.Chaos, c.Targets.Watch, 8)
		in := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: chaospod.AllShards}, Patience: time.Second}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed {
			t.Errorf("cleaned = %+v, want the chaos pod kept, as failed", cleaned)
		}
		node.goes()
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Remaining != 0 {
			t.Errorf("cleaned = %+v, want it gone with its node", cleaned)
		}
	})
	t.Run("running, long after its kubelet should have ended it: a release lets go of it, and no cleaning without one", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		chaos := c.ChaosPodsOf(ref)[0]
		c.Becomes(chaos, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		c.Must(c.Kube.CoreV1().Pods(c.Namespace).Delete(t.Context(), chaos.Name, metav1.DeleteOptions{}))
		c.Clock = differs(t, time.Hour) // the grace period is over
		released := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 300 * time.Millisecond}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, released); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Waiting {
			t.Errorf("cleaned = %+v, want it waited for", cleaned)
		}
		released.Release = []string{string(chaos.UID)}
		cleaned := do[clean.Result](c, c.CleanChaosPods, released)
		if cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 || !cmp.Equal(cleaned.UnverifiedNodes, []string{chaos.Spec.NodeName}) {
			t.Errorf("cleaned = %+v, want it let go, and its node to be searched", cleaned)
		}
	})
	t.Run("running, and the target was held back and pulls its images: kept", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		target := c.MakeTargets(1, nil)[0]
		ref := c.started("calm", nil)
		c.Becomes(c.ChaosPodsOf(ref)[0], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		lost := func(ended string) int {
			target.Status = corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{
				Name: ended, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			}}}
			live, err := c.Kube.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), target, metav1.UpdateOptions{})
			c.Must(err)
			target = live
			return do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience}).Lost
		}
		if n := lost(v1beta1.OnInitContainer); n != 0 || c.ChaosPodsOf(ref)[0].DeletionTimestamp != nil {
			t.Errorf("%d targets lost, want none", n)
		}
		c.kubelet(ref, map[string]int32{target.Spec.NodeName: 0})
		if n := lost("migrate"); n != 1 {
			t.Errorf("%d targets lost, want the one that nothing of ours holds back", n)
		}
	})
	// rule 39
	t.Run("failed, and another node has the name of its target: it is finalized", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		first := c.node()
		first.becomes(corev1.ConditionTrue)
		ref := c.started("calm", first.disrupted)
		c.Becomes(c.ChaosPodsOf(ref)[0], corev1.PodFailed, apicluster.Exited(1, "Error", ""), corev1.ConditionFalse)
		first.goes()
		second := c.node() // ready, of the same name, and with the same labels
		second.becomes(corev1.ConditionTrue)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: time.Second})
		if cleaned.Remaining != 0 || cleaned.Lost != 1 || len(c.ChaosPodsOf(ref)) != 0 {
			t.Errorf("cleaned = %+v, want the target lost and its chaos pod gone", cleaned)
		}
	})
	t.Run("pending when it is deleted, and killed after it started: kept, somebody must clean", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		c.Clock = differs(t, -time.Hour) // however slow this machine is, the kubelet is in time
		in := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 300 * time.Millisecond}
		// rule 42
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Waiting {
			t.Errorf("cleaned = %+v, want one chaos pod in state Waiting", cleaned)
		}
		late := c.ChaosPodsOf(ref)[0]
		c.exits(&late, 137)
		c.forgets(&late)
		cleaned := do[clean.Result](c, c.CleanChaosPods, in)
		// rules 42, 44
		if left := c.ChaosPodsOf(ref); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed || len(left) != 1 {
			t.Errorf("cleaned = %+v, %d chaos pods there; want the one failed and kept", cleaned, len(left))
		}
	})
	t.Run("pending, and no kubelet says anything: let go, and its node is to be searched", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(2, nil)
		ref := c.started("calm", nil)
		c.Clock = differs(t, clean.StartPatience+time.Second) // as if StartPatience had passed
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 300 * time.Millisecond})
		if len(cleaned.UnverifiedNodes) != 2 {
			t.Errorf("nodes to be searched = %v, want both", cleaned.UnverifiedNodes)
		}
		for _, pod := range c.ChaosPodsOf(ref) {
			if slices.Contains(pod.Finalizers, v1beta1.ChaosPodFinalizer) { // rule 42
				t.Errorf("pending chaos pod %s keeps its finalizer; %+v", pod.Name, cleaned)
			}
		}
	})
	t.Run("pending, and this worker's clock is ahead of the API server's: held as long as it must be", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.Clock, c.StartPatience = differs(t, -time.Hour), time.Nanosecond
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 300 * time.Millisecond})
		if cleaned.Remaining != 1 || len(cleaned.UnverifiedNodes) != 0 {
			t.Errorf("cleaned = %+v, want the chaos pod held", cleaned)
		}
	})
	t.Run("pending, and this worker's clock is behind the API server's: held no longer than it must be", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.Clock = differs(t, time.Hour)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 300 * time.Millisecond})
		if len(cleaned.UnverifiedNodes) != 1 {
			t.Errorf("cleaned = %+v, want the chaos pod let go", cleaned)
		}
	})
	t.Run("still running: waited for, and said so when patience ends", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		c.Becomes(c.ChaosPodsOf(ref)[0], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 300 * time.Millisecond})
		if cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Waiting { // rule 47
			t.Errorf("cleaned = %+v, want one chaos pod in state Waiting", cleaned)
		}
		c.kubelet(ref, map[string]int32{"node-0": 0})
		// rules 47, 49
		if again := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: patience}); again.Remaining != 0 {
			t.Errorf("second round left %+v", again)
		}
	})
	t.Run("a target that is being deleted is lost: its chaos pod goes first", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		pods := c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		c.Becomes(c.ChaosPodsOf(ref)[0], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{}))
		c.kubelet(ref, map[string]int32{"node-0": 0})
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience})
		if cleaned.Lost != 1 || len(c.ChaosPodsOf(ref)) != 0 {
			t.Errorf("cleaned = %+v, %d chaos pods; want the target lost and its chaos pod gone", cleaned, len(c.ChaosPodsOf(ref)))
		}
		c.wantEvent("TargetLost", pods[0].Name)
		again := func() int {
			return do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience}).Lost
		}
		if n := again(); n != 0 {
			t.Errorf("another activity tells of %d lost targets, want none", n)
		}
		// Repeat the first activity, as if its worker had died before its result reached
		// the workflow.
		record, err := c.Targets.Shard(t.Context(), ref, 0)
		c.Must(err)
		run, number, _ := strings.Cut(record.Targets[0].EndedBy, "/")
		first, err := strconv.Atoi(number)
		c.Must(err)
		// the ID of the next activity in the test environment
		record.Targets[0].EndedBy = fmt.Sprintf("%s/%d", run, first+2)
		c.Must(c.Targets.Write(t.Context(), &record))
		if n := again(); n != 1 {
			t.Errorf("tried again it tells of %d lost targets, want 1", n)
		}
	})
	t.Run("a target that matches no longer is cleaned up, and may be chosen again", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		pods := c.MakeTargets(2, nil)
		ref := c.started("calm", all)
		c.kubelet(ref, map[string]int32{"node-0": 0, "node-1": 0})
		c.label(pods[0], "app", "rescued")
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience})
		if left := c.ChaosPodsOf(ref); cleaned.Lost != 1 || len(left) != 1 || chaospod.TargetUID(&left[0]) != pods[1].UID {
			t.Errorf("cleaned = %+v, %d chaos pods; want the relabelled target alone cleaned up", cleaned, len(left))
		}
		c.wantEvent("TargetReleased", pods[0].Name, "no longer match the selector")
		if got := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); got.Selected != 1 || got.Lost != "" {
			t.Errorf("selection = %+v, want the other target alone", got)
		}
		c.label(pods[0], "app", "web")
		if got := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); got.Selected != 2 {
			t.Errorf("selection = %+v, want the target again whose label is back", got)
		}
	})
	t.Run("a percentage gives the newest target back when fewer match, and takes it again", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		pods := c.MakeTargets(4, nil)
		ref := c.started("calm", func(s *v1beta1.DisruptionSpec) { half := intstr.FromString("50%"); s.Count = &half })
		c.kubelet(ref, map[string]int32{"node-0": 0, "node-1": 0, "node-2": 0, "node-3": 0})
		record, err := c.Targets.Shard(t.Context(), ref, 0)
		c.Must(err)
		oldest := record.Targets[0].UID
		clean := func() int {
			return do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience}).Lost
		}
		if n := clean(); n != 0 || len(c.ChaosPodsOf(ref)) != 2 {
			t.Errorf("%d targets are cleaned up while all four match", n)
		}
		others := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
			return slices.ContainsFunc(record.Targets, func(t targets.Target) bool { return t.UID == p.UID })
		})
		now := int64(0)
		for _, pod := range others {
			c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		}
		if n := clean(); n != 1 {
			t.Errorf("%d targets are cleaned up, want one of two", n)
		}
		if left := c.ChaosPodsOf(ref); len(left) != 1 || chaospod.TargetUID(&left[0]) != oldest {
			t.Errorf("%d chaos pods are left, want that of the oldest target", len(left))
		}
		c.wantEvent("TargetReleased", "percentage")
		if got := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); got.Desired != 1 || got.Selected != 1 || len(got.Added) != 0 {
			t.Errorf("selection = %+v, want one of two", got)
		}
		c.MakeTargets(2, nil)
		if got := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); got.Selected != 2 {
			t.Errorf("selection = %+v, want two of four", got)
		}
	})
	t.Run("a target that is gone is lost, though its chaos pod went before anybody looked", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		pods := c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		// An earlier attempt removed the chaos pod, and its worker died.
		for _, pod := range c.ChaosPodsOf(ref) {
			c.removes(&pod)
		}
		now := int64(0)
		c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience})
		if cleaned.Lost != 1 {
			t.Errorf("cleaned = %+v, want the target lost", cleaned)
		}
		c.wantEvent("TargetLost", pods[0].Name)
	})
	t.Run("an injector that ended is judged although the pod's phase is still Running", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		c.Becomes(c.ChaosPodsOf(ref)[0], corev1.PodRunning, apicluster.Exited(137, "Error", ""), corev1.ConditionFalse)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: time.Second})
		if cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed { // rule 44
			t.Errorf("cleaned = %+v, want it failed", cleaned)
		}
	})
	t.Run("while the disruption goes on only what ended is touched", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		pods := c.MakeTargets(3, nil)
		ref := c.started("calm", all)
		chaos := c.ChaosPodsOf(ref)
		for _, pod := range chaos {
			c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		}
		// rule 37
		c.Must(c.Kube.CoreV1().Pods(c.Namespace).Delete(t.Context(), chaos[0].Name, metav1.DeleteOptions{}))
		c.kubelet(ref, map[string]int32{"node-0": 0, "node-1": 0, "node-2": 0})
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: patience})
		if cleaned.Lost != 1 || len(c.chosen(ref)) != len(pods)-1 {
			t.Errorf("cleaned = %+v with %d targets, want one lost of %d", cleaned, len(c.chosen(ref)), len(pods))
		}
		c.wantEvent("TargetEnded", chaos[0].Labels[v1beta1.LabelTarget])
		for _, pod := range c.ChaosPodsOf(ref) {
			if pod.DeletionTimestamp != nil {
				t.Errorf("chaos pod %s of a live target was deleted", pod.Name)
			}
		}
	})
}

func TestFinish(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	ref := c.started("calm", nil)
	c.Becomes(c.ChaosPodsOf(ref)[0], corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), corev1.ConditionFalse)
	do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: time.Second})
	if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref}); left != 0 {
		t.Fatalf("%d left", left)
	}
	d := c.Get(ref)
	// rule 6
	if hasFinalizer(d) || d.Status.Phase != v1beta1.PhaseFinished || d.Status.CleanedAt == nil {
		t.Errorf("after Finish: %+v %+v", d.Finalizers, d.Status)
	}
	c.WantCondition(ref, v1beta1.ConditionCleaned, metav1.ConditionTrue, "no chaos pod is left")
	if shards, err := c.Targets.Shards(t.Context(), ref); err != nil || len(shards) != 0 {
		t.Errorf("%d records are left, %v", len(shards), err)
	}
	if _, err := c.Kube.CoreV1().ConfigMaps(c.Namespace).Get(t.Context(), contract.RecordName(ref.UID), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the record is left: %v", err)
	}
	do[int](c, c.Finish, status.FinishInput{Disruption: ref}) // a second call changes nothing
}

func TestDeletedDisruptionStaysUntilFinished(t *testing.T) {
	c := newCluster(t)
	ref := c.started("calm", nil)
	c.Must(c.Plain.Delete().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Do(t.Context()).Error())
	if c.Get(ref).DeletionTimestamp == nil { // rule 5
		t.Fatal("not being deleted")
	}
	if plan := do[prepare.Plan](c, c.Prepare, ref); !strings.Contains(plan.CleanOnly, "deleted") {
		t.Errorf("plan = %+v, want clean only", plan)
	}
	do[int](c, c.Finish, status.FinishInput{Disruption: ref})
	if _, err := c.Disruptions.Get(t.Context(), ref); !apierrors.IsNotFound(err) { // rule 6
		t.Errorf("still there after Finish: %v", err)
	}
	do[int](c, c.Finish, status.FinishInput{Disruption: ref}) // a missing disruption is no error
}

func hasFinalizer(d *v1beta1.Disruption) bool {
	return slices.Contains(d.Finalizers, v1beta1.DisruptionFinalizer)
}

type getter interface{ Get(any) error }

func has(value getter, want int) bool {
	var got int
	return value.Get(&got) == nil && got == want
}

// testNode is the node of a test, with the name of the test's namespace.
type testNode struct {
	*testCluster
	live *corev1.Node
}

func (c *testCluster) node() *testNode {
	c.Helper()
	label := map[string]string{"pool": c.Shop}
	live, err := c.Kube.CoreV1().Nodes().Create(c.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Shop, Labels: label}}, metav1.CreateOptions{})
	c.Must(err)
	c.T.Cleanup(func() { _ = c.Kube.CoreV1().Nodes().Delete(context.Background(), live.Name, metav1.DeleteOptions{}) })
	return &testNode{c, live}
}

func (n *testNode) becomes(ready corev1.ConditionStatus) {
	n.Helper()
	n.live.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	live, err := n.Kube.CoreV1().Nodes().UpdateStatus(n.Context(), n.live, metav1.UpdateOptions{})
	n.Must(err)
	n.live = live
}

func (n *testNode) goes() {
	n.Helper()
	n.Must(n.Kube.CoreV1().Nodes().Delete(n.Context(), n.live.Name, metav1.DeleteOptions{}))
}

// disrupted makes the node the target of a disruption.
func (n *testNode) disrupted(spec *v1beta1.DisruptionSpec) {
	spec.Level, spec.Selector = v1beta1.LevelNode, n.live.Labels
}

// N15: while the API server is unreachable, the type of the error shows it.
func TestCleaningDoesNotReachTheAPIServer(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	ref := c.injected("away", nil)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, answers := range map[string]func(*http.Request) (*http.Response, error){
		"from the start": func(*http.Request) (*http.Response, error) { return nil, refused },
		"when pods are deleted": func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete {
				return nil, refused
			}
			return nil, nil
		},
	} {
		c.through(answers)
		_, err := c.env.ExecuteActivity(c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: time.Minute})
		if application, found := errors.AsType[*temporal.ApplicationError](err); !found || application.Type() != clean.ErrorUnreachable {
			t.Errorf("away %s: %v, want an error of type %s", name, err, clean.ErrorUnreachable)
		}
	}
}
