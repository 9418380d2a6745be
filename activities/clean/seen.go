package clean

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/kube"
)

// A round of a cleaning reads chaos pods live. Between two rounds, the watch shows which of
// them have ended: the functions below finalize the clean ones without another list.

const (
	// Changes gather until there was none for settleGap, but for longestSettle at most:
	// many pods that end together are handled together.
	settleGap     = 10 * time.Millisecond
	longestSettle = 100 * time.Millisecond
	// fewWaiting is the highest number of chaos pods that are checked after each change.
	fewWaiting = 20
	// mostWaiting is the highest number of chaos pods that a cleaning keeps in memory. With
	// more, it lists them again.
	mostWaiting = 1000
)

// gather returns when no further change belongs to the first, or when all is true.
func gather(ctx context.Context, changes <-chan struct{}, all func() bool) error {
	longest := time.NewTimer(longestSettle)
	defer longest.Stop()
	quiet := time.NewTimer(settleGap)
	defer quiet.Stop()
	for {
		if all() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes:
			quiet.Reset(settleGap)
		case <-quiet.C:
			return nil
		case <-longest.C:
			return nil
		}
	}
}

// allEnded is true when a few chaos pods are waited for and all of them have ended clean.
func (c *cleaning) allEnded() bool {
	n := len(c.waiting)
	return n > 0 && n <= fewWaiting && len(c.endedClean()) == n
}

// seen are the chaos pods that the watch has.
func (c *cleaning) seen() []*corev1.Pod {
	return c.a.ChaosPods.OfShard(c.in.Shard.Disruption, c.in.Shard.Number)
}

// endedClean are the chaos pods of c.waiting that have ended clean meanwhile, by the watch.
// Their kubelet is finished with them: before that, it would write between the worker's
// read and its write.
func (c *cleaning) endedClean() (ended []*corev1.Pod) {
	if len(c.waiting) == 0 {
		return nil
	}
	for _, seen := range c.seen() {
		listed, waited := c.waiting[seen.UID]
		if !waited || !chaospod.Dropped(seen) {
			continue
		}
		if outcome, _ := chaospod.Judge(seen, true); outcome != chaospod.Clean {
			continue
		}
		pod := *listed // the watch stores no spec
		pod.ObjectMeta, pod.Status = seen.ObjectMeta, seen.Status
		ended = append(ended, &pod)
	}
	return ended
}

// finalizeSeen finalizes the pods of endedClean, and returns the part of left that remains.
// Each write has the version that was judged: the API server refuses it if the pod has
// changed, and the next round judges the pod again.
func (c *cleaning) finalizeSeen(ctx context.Context, left []chaospod.LeftPod) ([]chaospod.LeftPod, error) {
	pods := c.endedClean()
	gone := make([]bool, len(pods))
	errs := kube.Each(len(pods), c.a.Parallel, func(i int) error {
		still, err := c.finalizeClean(ctx, pods[i])
		gone[i] = still == nil && err == nil
		return err
	})
	for i, pod := range pods {
		delete(c.waiting, pod.UID) // a pod that is not gone is for the next round
		if gone[i] {
			left = slices.DeleteFunc(left, func(l chaospod.LeftPod) bool { return l.UID == pod.UID })
		}
	}
	return left, cluster.FirstOf(errs, "chaos pods are not cleaned")
}
