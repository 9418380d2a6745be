package activities

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/test/apicluster"
)

// A write to a chaos pod after its judgement must not undo a final judgement, and must undo
// any other.
func TestFinalizeAPodThatChangedSince(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	pods := c.ChaosPodsOf(c.started("calm", nil))
	for i, test := range []struct {
		name  string
		phase corev1.PodPhase
		state corev1.ContainerState
		kept  bool
	}{
		{"its injector has exited: it is let go", corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), false},
		{"nothing ran when it was judged: it is judged again", corev1.PodPending, corev1.ContainerState{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			kube := c.Kube.CoreV1().Pods(c.Namespace)
			c.Becomes(pods[i], test.phase, test.state, corev1.ConditionFalse)
			c.Must(kube.Delete(t.Context(), pods[i].Name, metav1.DeleteOptions{}))
			judged, err := kube.Get(t.Context(), pods[i].Name, metav1.GetOptions{})
			c.Must(err)
			_, err = kube.Patch(t.Context(), judged.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"since"}}}`), metav1.PatchOptions{})
			c.Must(err)
			_, err = c.finalize(t.Context(), judged)
			c.Must(err)
			now, err := kube.Get(t.Context(), judged.Name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if kept := err == nil && len(now.Finalizers) > 0; kept != test.kept {
				t.Errorf("our finalizer is there: %v, want %v", kept, test.kept)
			}
		})
	}
}

func TestChangesGather(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes time.Duration // for how long a change comes every 5 ms
		want    time.Duration
	}{
		{"one change: a moment later", 0, settleGap},
		{"many changes: a moment after the last", 50 * time.Millisecond, 50*time.Millisecond + settleGap},
		{"changes without end: a tenth of a second at most", time.Minute, longestSettle},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changes, began := make(chan struct{}, 1), time.Now()
				stop := make(chan struct{})
				go func() {
					for time.Since(began) < test.changes {
						select {
						case <-stop:
							return
						case <-time.After(5 * time.Millisecond):
							changes <- struct{}{}
						}
					}
				}()
				if err := gather(t.Context(), changes, func() bool { return false }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("gather took %s, want %s", took, test.want)
				}
				close(stop)
			})
		})
	}
}

// A round costs a list. While chaos pods end one after the other, a round is due when half
// of them have ended, and at most once a second.
func TestARoundIsDueWhenHalfHaveEnded(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(4, nil)
	ref := c.started("calm", func(spec *v1beta1.DisruptionSpec) { four := intstr.FromInt32(4); spec.Count = &four })
	shard := chaospod.Shard{Disruption: ref, Number: 0}
	cleaning := &cleaning{a: c.Activities, in: CleanInput{Shard: shard}}
	pods := c.ChaosPodsOf(ref)
	for _, pod := range pods {
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	}
	// A pod that the last round deleted counts as running until the watch has seen its end.
	cleaning.waiting = map[types.UID]*corev1.Pod{}
	for i := range pods {
		cleaning.waiting[pods[i].UID] = &pods[i]
	}
	c.Eventually("the watch has seen all", func() bool { return len(c.ChaosPods.OfShard(ref, 0)) == len(pods) })
	if cleaning.needsRound(2 * roundGap) {
		t.Error("a round is due before the watch has seen the deletions of the last one")
	}
	cleaning.waiting = nil
	for _, pod := range pods {
		c.Must(c.delete(t.Context(), &pod))
	}
	for exits := 0; ; exits++ {
		c.Eventually("the watch has seen it", func() bool {
			gone, deleted := 0, 0
			for _, pod := range c.ChaosPods.OfShard(ref, 0) {
				if pod.DeletionTimestamp != nil {
					deleted++
				}
				if kube.InjectorEnded(pod) {
					gone++
				}
			}
			return gone == exits && deleted == len(pods)
		})
		if due, want := cleaning.needsRound(2*roundGap), exits >= 2; due != want {
			t.Errorf("%d of 4 have ended, the last round was long ago: due = %t, want %t", exits, due, want)
		}
		if due, want := cleaning.needsRound(roundGap/2), exits == 4; due != want {
			t.Errorf("%d of 4 have ended, the last round was just now: due = %t, want %t", exits, due, want)
		}
		if exits == len(pods) {
			return
		}
		c.Becomes(pods[exits], corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), corev1.ConditionFalse)
	}
}
