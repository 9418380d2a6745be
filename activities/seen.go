package activities

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
)

// Between two rounds of a cleaning, which read chaos pods live, the watch tells
// which of them have ended. Those that are clean are let go without another list.

const (
	// Changes are let gather until there was none for settleGap, at most for
	// longestSettle, so that many pods ending together are looked at together.
	settleGap     = 10 * time.Millisecond
	longestSettle = 100 * time.Millisecond
	// fewWaiting is up to how many chaos pods are looked at after each change.
	fewWaiting = 20
	// mostWaiting is how many chaos pods a cleaning keeps in memory: more are
	// listed again.
	mostWaiting = 1000
)

// gather returns when the changes that belong together have come, or all that are
// waited for.
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

// allEnded is true when no more news are to come of the few that are waited for.
func (c *cleaning) allEnded() bool {
	n := len(c.waiting)
	return n > 0 && n <= fewWaiting && len(c.endedClean()) == n
}

// endedClean are the chaos pods that the last round had to wait for and that by
// now have ended clean, as the watch has seen them. Their kubelet is done with
// them: before it is, it would write between our reading and our writing.
func (c *cleaning) endedClean() (ended []*corev1.Pod) {
	if len(c.waiting) == 0 {
		return nil
	}
	for _, seen := range c.a.ChaosPods.OfShard(c.in.Shard.Disruption, c.in.Shard.Number) {
		listed, waited := c.waiting[seen.UID]
		if !waited || !chaospod.Dropped(seen) {
			continue
		}
		if outcome, _ := chaospod.Judge(seen, true); outcome != chaospod.Clean {
			continue
		}
		pod := *listed // the watch keeps no spec
		pod.ObjectMeta, pod.Status = seen.ObjectMeta, seen.Status
		ended = append(ended, &pod)
	}
	return ended
}

// finalizeSeen lets go of those chaos pods, and returns what of left remains.
// Each is written under the version that was judged: if it is not that of the
// cluster any more the API server refuses, and the next round judges it again.
func (c *cleaning) finalizeSeen(ctx context.Context, left []LeftPod) ([]LeftPod, error) {
	pods := c.endedClean()
	gone, errs := make([]bool, len(pods)), make([]error, len(pods))
	var group errgroup.Group // without a context: one that fails stops no other (rule 48)
	group.SetLimit(c.a.Parallel)
	for i, pod := range pods {
		group.Go(func() error {
			still, err := c.letGo(ctx, pod)
			gone[i], errs[i] = still == nil && err == nil, err
			return nil
		})
	}
	_ = group.Wait()
	for i, pod := range pods {
		delete(c.waiting, pod.UID) // what is not gone is for the next round
		if gone[i] {
			left = slices.DeleteFunc(left, func(l LeftPod) bool { return l.UID == pod.UID })
		}
	}
	return left, firstOf(errs, "chaos pods are not cleaned")
}
