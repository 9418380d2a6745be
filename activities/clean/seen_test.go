package clean

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

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
	c, pods := &cleaning{waiting: map[types.UID]*corev1.Pod{}}, make([]*corev1.Pod, 4)
	for i := range pods {
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i)), Finalizers: []string{v1beta1.ChaosPodFinalizer}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: kube.InjectorContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}},
		}
		// A pod that the last round deleted counts as running until the watch has seen its end.
		c.waiting[pods[i].UID] = pods[i]
	}
	if c.needsRound(pods, 2*roundGap) {
		t.Error("a round is due before the watch has seen the deletions of the last one")
	}
	c.waiting = nil
	deleted := metav1.Now()
	for _, pod := range pods {
		pod.DeletionTimestamp = &deleted
	}
	for exits := 0; ; exits++ {
		if due, want := c.needsRound(pods, 2*roundGap), exits >= 2; due != want {
			t.Errorf("%d of 4 have ended, the last round was long ago: due = %t, want %t", exits, due, want)
		}
		if due, want := c.needsRound(pods, roundGap/2), exits == 4; due != want {
			t.Errorf("%d of 4 have ended, the last round was just now: due = %t, want %t", exits, due, want)
		}
		if exits == len(pods) {
			return
		}
		pods[exits].Status.Phase = corev1.PodSucceeded
		pods[exits].Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	}
}
