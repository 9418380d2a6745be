package activities

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
)

// failedOn starts a disruption of one target whose injector failed to clean.
func (c *testCluster) failedOn() (v1beta1.DisruptionRef, corev1.Pod) {
	c.Helper()
	c.MakeTargets(1, nil)
	ref := c.started("calm", nil)
	pod := c.ChaosPodsOf(ref)[0]
	c.Becomes(pod, corev1.PodFailed, apicluster.Exited(137, "Error", ""), corev1.ConditionFalse)
	return ref, pod
}

// cleanerEnds waits in the background for a cleaner, and writes how it ended.
func (c *testCluster) cleanerEnds(failed corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState, found chan<- *corev1.Pod) {
	c.Helper()
	ended := false
	c.OnPods(v1beta1.LabelCleaner, func(pods []*corev1.Pod) {
		i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == chaospod.CleanerName(&failed) })
		if ended || i < 0 {
			return
		}
		ended = true
		if err := c.Exits(pods[i], phase, state); err != nil && c.Context().Err() == nil {
			c.Errorf("the kubelet of cleaner %s cannot write how it ended: %v", pods[i].Name, err)
		}
		found <- pods[i]
	})
}

func in(ref v1beta1.DisruptionRef, retry ...string) clean.Input {
	return clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Retry: retry, Patience: time.Minute}
}

// An installation can set a priority class for all pods that Squall runs on nodes, so that
// a node evicts and kills them last. The API server has this class by default.
func TestAllOnNodesHasThePriorityClassOfTheInstallation(t *testing.T) {
	const class, critical = "system-node-critical", 2000001000
	has := func(c *testCluster, what string, pod *corev1.Pod) {
		c.Helper()
		if pod.Spec.PriorityClassName != class || pod.Spec.Priority == nil || *pod.Spec.Priority != critical {
			c.Errorf("%s has priority class %q, which is %v; want %s", what, pod.Spec.PriorityClassName, pod.Spec.Priority, class)
		}
	}
	c := newCluster(t)
	c.Builder.PriorityClass = class
	ref, failed := c.failedOn()
	has(c, "the chaos pod", &failed)
	found := make(chan *corev1.Pod, 1)
	c.cleanerEnds(failed, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), found)
	if cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, "*")); cleaned.Remaining != 0 {
		t.Fatalf("left %+v", cleaned)
	}
	has(c, "its cleaner", <-found)
	sweeper, err := c.Builder.NodeCommand(chaospod.Owner{Name: "a"}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "u"}}, []string{"audit"})
	c.Must(err)
	sweeper, err = c.Kube.CoreV1().Pods(c.Namespace).Create(t.Context(), sweeper, metav1.CreateOptions{})
	c.Must(err)
	has(c, "a command on a node", sweeper)

	// The value of the class may have changed since the chaos pod was created.
	if cleaner := c.Builder.Cleaner(&failed); cleaner.Spec.Priority != nil || cleaner.Spec.PreemptionPolicy != nil {
		t.Errorf("the cleaner asks for priority %v itself: it would be refused once the class has another", cleaner.Spec.Priority)
	}
}

// A cleaning of a whole disruption reads pages (finding 32). A cleaner may be on another
// page than its chaos pod, and no page is lost.
func TestAllChaosPodsAreCleanedInPages(t *testing.T) {
	c := newCluster(t)
	ref, failed := c.failedOn()
	for i := range 4 {
		other := failed.DeepCopy()
		other.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("chaos-other-%d", i), Labels: failed.Labels, Finalizers: failed.Finalizers}
		other, err := c.Kube.CoreV1().Pods(c.Namespace).Create(t.Context(), other, metav1.CreateOptions{})
		c.Must(err)
		c.Becomes(*other, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), corev1.ConditionFalse)
	}
	c.cleanerEnds(failed, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), make(chan *corev1.Pod, 1))
	pages := 0
	c.around(func(r *http.Request, server http.RoundTripper) (*http.Response, error) {
		query := r.URL.Query()
		if name := path.Base(r.URL.Path); r.Method != http.MethodGet || name != "pods" && name != "configmaps" && name != "nodes" || query.Has("watch") {
			return server.RoundTrip(r)
		}
		if query.Get("limit") == "" {
			t.Errorf("%s lists in one piece", r.URL)
		}
		query.Set("limit", "1")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		if query.Has("continue") {
			pages++
		}
		return server.RoundTrip(r)
	})
	all := in(ref, "*")
	all.Shard.Number = chaospod.AllShards
	if cleaned := do[clean.Result](c, c.CleanChaosPods, all); cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 {
		t.Errorf("left %+v", cleaned)
	}
	if pages < 4 {
		t.Errorf("%d further pages were read, want those of five chaos pods", pages)
	}
}

func TestRetryCleansFromTheJournal(t *testing.T) {
	t.Run("the cleaner succeeds: the failed chaos pod is let go", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		found := make(chan *corev1.Pod, 1)
		c.cleanerEnds(failed, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), found)
		// rule 46
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, "*")); cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 {
			t.Errorf("left %+v", cleaned)
		}
		// the injector counts, not its cleaner
		if cleaned := c.Counts.Of("squall_injector_cleaned_total"); cleaned != 1 {
			t.Errorf("%d ends of injectors are counted, want 1", cleaned)
		}
		c.wantEvent("InjectorFailed", "node node-0", "exited with code 137")
		c.wantEvent("Healed", failed.Name)
		cleaner := <-found
		container := cleaner.Spec.Containers[0]
		want := []string{"clean", "--disruption", string(ref.UID), "--target", failed.Labels[v1beta1.LabelTargetUID], "--kind", "cpu-pressure"}
		if !cmp.Equal(container.Args, want) || cleaner.Spec.NodeName != failed.Spec.NodeName || len(cleaner.Finalizers) != 0 {
			t.Errorf("cleaner runs %v on %s with finalizers %v", container.Args, cleaner.Spec.NodeName, cleaner.Finalizers)
		}
		if !cmp.Equal(container.SecurityContext, failed.Spec.Containers[0].SecurityContext) {
			t.Error("the cleaner has other rights than the chaos pod had")
		}
	})
	for _, test := range []struct {
		name, message string
		unverified    []string
	}{
		{"a cleaner that searched the node is believed", `{"cleaned":["cpu-pressure of disruption shop/calm"],"audited":true,"left":[]}`, nil},
		{"a cleaner that could not search leaves the node unverified", `{"cleaned":["x"],"audited":false,"left":[]}`, []string{"node-0"}},
		{"a cleaner that said nothing leaves the node unverified", "", []string{"node-0"}},
		{"the words of an injector prove nothing for a cleaner", `{"injected":true,"cleaned":true,"audited":true}`, []string{"node-0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			ref, failed := c.failedOn()
			c.cleanerEnds(failed, corev1.PodSucceeded, apicluster.Exited(0, "Completed", test.message), make(chan *corev1.Pod, 1))
			if cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, "*")); cleaned.Remaining != 0 || !cmp.Equal(test.unverified, cleaned.UnverifiedNodes) {
				t.Errorf("cleaned = %+v, want nothing left and %v unverified", cleaned, test.unverified)
			}
		})
	}
	for message, want := range map[string]struct {
		name, why string // why the chaos pod remains; empty if it is gone
	}{
		`{"cleaned":["x"],"audited":true,"left":[]}`:                                         {"a cleaner that is killed when it has proved all is believed", ""},
		`{"cleaned":["x"],"audited":false,"left":[]}`:                                        {"one that had not searched the node is not", "exit code 137 (Error), and it reported nothing as left"},
		`{"cleaned":[],"audited":true,"left":[{"injection":"x","error":"a qdisc is busy"}]}`: {"nor is one that left something", "a qdisc is busy"},
		`{"audited":true}`: {"nor are words that are no report", "exit code 137"},
		"":                 {"nor is silence", "exit code 137 (Error) without a reason"},
	} {
		t.Run(want.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			ref, failed := c.failedOn()
			c.cleanerEnds(failed, corev1.PodFailed, apicluster.Exited(137, "Error", message), make(chan *corev1.Pod, 1))
			cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, "*"))
			gone := cleaned.Remaining == 0 && len(cleaned.UnverifiedNodes) == 0
			if (want.why == "") != gone || !gone && (len(cleaned.Left) != 1 || !strings.HasPrefix(cleaned.Left[0].Why, "the cleaner failed too: "+want.why)) {
				t.Errorf("cleaned = %+v, want left %q", cleaned, want.why)
			}
		})
	}
	t.Run("cut short when the cleaner has succeeded: tried again it needs no other", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		found := make(chan *corev1.Pod, 1)
		c.cleanerEnds(failed, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), found)
		whole := c.Kube
		c.through(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				return nil, errors.New("cut short")
			}
			return nil, nil
		})
		if cleaned, err := c.env.ExecuteActivity(c.CleanChaosPods, in(ref, "*")); err == nil {
			t.Fatalf("cleaned = %v, want it cut short", cleaned)
		}
		first := <-found
		c.Kube = whole
		if now, err := c.Kube.CoreV1().Pods(c.Namespace).Get(t.Context(), first.Name, metav1.GetOptions{}); err != nil || now.UID != first.UID {
			t.Errorf("the cleaner that succeeded is not there any more: %v", err)
		}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, "*")); cleaned.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 {
			t.Errorf("left %+v", cleaned)
		}
	})
	t.Run("the cleaner never starts: it is waited for and no other is made, until a person lets go", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		short := in(ref, "*")
		short.Patience = time.Second
		var first types.UID
		for range 2 {
			cleaned := do[clean.Result](c, c.CleanChaosPods, short)
			if cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Waiting || !strings.Contains(cleaned.Left[0].Why, "a cleaner works on the node") {
				t.Errorf("cleaned = %+v, want the cleaner waited for", cleaned)
			}
			cleaner, err := c.Kube.CoreV1().Pods(c.Namespace).Get(t.Context(), chaospod.CleanerName(&failed), metav1.GetOptions{})
			c.Must(err)
			if first != "" && cleaner.UID != first {
				t.Error("another cleaner took the place of the one that has not started")
			}
			first = cleaner.UID
		}
		short.Release = []string{string(failed.UID)}
		do[clean.Result](c, c.CleanChaosPods, short)
		if cleaned := do[clean.Result](c, c.CleanChaosPods, short); cleaned.Remaining != 0 {
			t.Errorf("cleaned = %+v, want it let go", cleaned)
		}
		pods, err := c.Kube.CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(ref.UID)})
		if err != nil || len(pods.Items) != 0 {
			t.Errorf("%d pods are left, %v, want the cleaner gone with its chaos pod", len(pods.Items), err)
		}
	})
	t.Run("the cleaner fails too: its words are told, no cleaner is left", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		found := make(chan *corev1.Pod, 1)
		report := `{"cleaned":[],"left":[{"injection":"x","error":"write blkio.throttle: busy","objects":["blkio.throttle 8:0"]}]}`
		c.cleanerEnds(failed, corev1.PodFailed, apicluster.Exited(1, "Error", report), found)
		cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, chaospod.TargetName(&failed)))
		if cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed || !strings.Contains(cleaned.Left[0].Why, "write blkio.throttle: busy; blkio.throttle 8:0") {
			t.Errorf("cleaned = %+v, want the cleaner's words", cleaned)
		}
		c.Eventually("the cleaner is gone", func() bool {
			_, err := c.Kube.CoreV1().Pods(c.Namespace).Get(t.Context(), chaospod.CleanerName(&failed), metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		// rule 44
		if left := c.ChaosPodsOf(ref); len(left) != 1 || !slices.Contains(left[0].Finalizers, v1beta1.ChaosPodFinalizer) {
			t.Errorf("left %d pods, want the failed one with its finalizer", len(left))
		}
	})
	t.Run("cleaners have failed on it often enough: none is tried, unless it is asked for by name", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		again := in(ref, "*")
		again.Exhausted = []string{string(failed.UID)}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, again); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed {
			t.Errorf("cleaned = %+v, want it left", cleaned)
		}
		again.Retry = append(again.Retry, chaospod.TargetName(&failed))
		c.cleanerEnds(failed, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), make(chan *corev1.Pod, 1))
		if cleaned := do[clean.Result](c, c.CleanChaosPods, again); cleaned.Remaining != 0 {
			t.Errorf("cleaned = %+v, want it cleaned", cleaned)
		}
	})
	t.Run("another target's retry: nothing is tried", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		if cleaned := do[clean.Result](c, c.CleanChaosPods, in(ref, "another")); cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed {
			t.Errorf("cleaned = %+v", cleaned)
		}
		if _, err := c.Kube.CoreV1().Pods(c.Namespace).Get(t.Context(), chaospod.CleanerName(&failed), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a cleaner was made: %v", err)
		}
	})
}

// A full node is temporary: a cleaner that its kubelet rejects has not failed.
func TestARejectedCleanerWaitsForRoom(t *testing.T) {
	rejected := func(c *testCluster, cleaner *corev1.Pod, reason string) {
		pod := cleaner.DeepCopy()
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected: Node didn't have enough resource: pods"}
		if _, err := c.Kube.CoreV1().Pods(c.Namespace).UpdateStatus(c.Context(), pod, metav1.UpdateOptions{}); err != nil && c.Context().Err() == nil {
			c.Errorf("the kubelet cannot reject cleaner %s: %v", pod.Name, err)
		}
	}
	// full makes a kubelet that rejects the first cleaners and runs the next one.
	full := func(c *testCluster, times int) (made *atomic.Int32) {
		seen, made := map[types.UID]bool{}, &atomic.Int32{}
		c.OnPods(v1beta1.LabelCleaner, func(pods []*corev1.Pod) {
			for _, pod := range pods {
				switch {
				case seen[pod.UID]:
					continue
				case len(seen) < times:
					rejected(c, pod, "OutOfpods")
				default:
					if err := c.Exits(pod, corev1.PodSucceeded, apicluster.Exited(0, "Completed", "")); err != nil && c.Context().Err() == nil {
						c.Errorf("the kubelet cannot end cleaner %s: %v", pod.Name, err)
					}
				}
				seen[pod.UID] = true
				made.Add(1)
			}
		})
		return made
	}
	t.Run("room comes back: the same cleaning creates another cleaner", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		full(c, 2)
		if left := do[clean.Result](c, c.CleanChaosPods, in(ref, "*")); left.Remaining != 0 || len(c.ChaosPodsOf(ref)) != 0 {
			t.Errorf("left %+v, want it cleaned by the third cleaner", left)
		}
		c.wantEvent("CleanerWaits", "the cleaner waits for room on node "+failed.Spec.NodeName, "OutOfpods")
		if shown := meta.FindStatusCondition(c.Get(ref).Status.Conditions, v1beta1.ConditionCleaned); shown != nil {
			t.Errorf("condition Cleaned = %+v, want none: no cleaner waits any more", shown)
		}
	})
	t.Run("no room while the patience lasts: one failed attempt, whatever the number of rejections", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ref, failed := c.failedOn()
		made := full(c, 100)
		short := in(ref, "*")
		short.Patience = 7 * time.Second
		cleaned := do[clean.Result](c, c.CleanChaosPods, short)
		if cleaned.Remaining != 1 || cleaned.Left[0].Outcome != chaospod.Failed || !strings.Contains(cleaned.Left[0].Why, "the cleaner waits for room on node "+failed.Spec.NodeName) {
			t.Errorf("cleaned = %+v, want the node and the reason", cleaned)
		}
		c.WantCondition(ref, v1beta1.ConditionCleaned, metav1.ConditionFalse, "the cleaner waits for room on node "+failed.Spec.NodeName)
		if n := made.Load(); n < 2 || n > 3 {
			t.Errorf("%d cleaners were created in 7 s, want 2 or 3: the pauses grow", n)
		}
	})
}

// The journal of the other fault type belongs to a running injector: a cleaner that tries
// to clean that one too cannot succeed.
func TestOneOfTwoKindsIsHealedAlone(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	ref := c.started("calm", func(spec *v1beta1.DisruptionSpec) { spec.Network = &v1beta1.NetworkDisruption{Drop: 40} })
	var dead corev1.Pod
	for _, pod := range c.ChaosPodsOf(ref) {
		if pod.Labels[v1beta1.LabelDisruptionKind] == string(v1beta1.KindNetwork) {
			dead = pod
			c.Becomes(pod, corev1.PodFailed, apicluster.Exited(137, "Error", ""), corev1.ConditionFalse)
			continue
		}
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	}
	found := make(chan *corev1.Pod, 1)
	c.cleanerEnds(dead, corev1.PodSucceeded, apicluster.Exited(0, "Completed", `{"cleaned":["x"],"audited":true,"left":[]}`), found)
	cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Retry: []string{"*"}, Patience: time.Minute})
	args := strings.Join((<-found).Spec.Containers[0].Args, " ")
	if !strings.HasSuffix(args, " --kind network-disruption") || strings.Count(args, "--kind") != 1 {
		t.Errorf("the cleaner runs %s, want only what died cleaned", args)
	}
	left := c.ChaosPodsOf(ref)
	if cleaned.Remaining != 0 || cleaned.Lost != 0 || len(left) != 1 || left[0].DeletionTimestamp != nil || left[0].Labels[v1beta1.LabelDisruptionKind] != string(v1beta1.KindCPUPressure) {
		t.Errorf("cleaned = %+v, %d chaos pods are there; want the other kind to go on", cleaned, len(left))
	}
	c.wantEvent("Healed", dead.Name)
	// rule 18
	if again := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); len(again.Added) != 0 || again.Selected != 1 {
		t.Errorf("selection = %+v, want the same target, and nothing injected anew", again)
	}
}

// A pod that cannot be cleaned, or that the API server does not let us clean, does not stop
// the others (rule 48).
func TestOneThatCannotBeCleanedStopsNoOther(t *testing.T) {
	for _, test := range []struct {
		name   string
		refuse func(r *http.Request, failed corev1.Pod) bool
		code   int
		// wrong is true when the activity fails and Temporal retries it.
		wrong bool
	}{
		{"the cleaner is forbidden, as by a quota", func(r *http.Request, _ corev1.Pod) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods")
		}, http.StatusForbidden, false},
		{"the API server has no answer for one of them", func(r *http.Request, failed corev1.Pod) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") || strings.HasSuffix(r.URL.Path, "/"+failed.Name)
		}, http.StatusInternalServerError, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.MakeTargets(4, nil)
			ref := c.started("calm", all)
			chaos := c.ChaosPodsOf(ref)
			failed := chaos[0]
			c.Becomes(failed, corev1.PodFailed, apicluster.Exited(137, "Error", ""), corev1.ConditionFalse)
			for _, pod := range chaos[1:] {
				c.Becomes(pod, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), corev1.ConditionFalse)
			}
			c.through(func(r *http.Request) (*http.Response, error) {
				if test.refuse(r, failed) {
					return refusal(r, test.code), nil
				}
				return nil, nil
			})
			// so that the others are cleaned after it
			c.Activities.Parallel = 1
			value, err := c.env.ExecuteActivity(c.CleanChaosPods, in(ref, "*"))
			if test.wrong != (err != nil) {
				t.Fatalf("error = %v, want one: %t", err, test.wrong)
			}
			if !test.wrong {
				var cleaned clean.Result
				c.Must(value.Get(&cleaned))
				if cleaned.Remaining != 1 || cleaned.Left[0].Pod != failed.Name || cleaned.Left[0].Outcome != chaospod.Failed || !strings.Contains(cleaned.Left[0].Why, "refused by the test") {
					t.Errorf("cleaned = %+v, want the refusal told", cleaned)
				}
			}
			for _, pod := range c.ChaosPodsOf(ref) {
				if held := slices.Contains(pod.Finalizers, v1beta1.ChaosPodFinalizer); held != (pod.Name == failed.Name) {
					t.Errorf("chaos pod %s is held: %t", pod.Name, held)
				}
			}
		})
	}
}

// N33: a cleaner that cannot be deleted does not stop the deletion of others.
func TestACleanerThatCannotBeDeletedStopsNoOther(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(6, nil)
	ref := c.started("calm", all)
	var names []string
	for _, failed := range c.ChaosPodsOf(ref) {
		cleaner := c.Builder.Cleaner(&failed)
		_, err := chaospod.Create(c.Context(), c.Kube, cleaner)
		c.Must(err)
		names = append(names, cleaner.Name)
		c.removes(&failed)
	}
	c.through(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/"+names[0]) {
			return refusal(r, http.StatusForbidden), nil
		}
		return nil, nil
	})
	if _, err := c.env.ExecuteActivity(c.CleanChaosPods, in(ref)); err == nil || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("error = %v, want the name of the cleaner %s in it", err, names[0])
	}
	var left []string
	for _, pod := range c.ChaosPodsOf(ref) {
		left = append(left, pod.Name)
	}
	if !slices.Equal(left, names[:1]) {
		t.Errorf("left = %v, want %s alone", left, names[0])
	}
}

// refusal is the API server's refusal of a request.
func refusal(r *http.Request, code int) *http.Response {
	reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusInternalServerError: "InternalError"}[code]
	status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"refused by the test","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
	}
}
