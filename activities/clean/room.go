package clean

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
)

// The kubelet of a full node rejects a cleaner. Room comes back without a person, so the
// cleaning creates the cleaner again, with growing pauses. Only when the patience of the
// cleaning is over does the rejection count as one failed attempt.

const (
	firstRoomPause   = 4 * time.Second
	longestRoomPause = 30 * time.Second
)

// rejection is how often the cleaner of a chaos pod was rejected, and why.
type rejection struct {
	times int
	why   string
	// until is the end of the pause before the next cleaner.
	until time.Time
}

// roomPause is the pause after a number of rejections.
func roomPause(times int) time.Duration {
	return min(firstRoomPause<<min(times-1, 8), longestRoomPause)
}

// noteRejection remembers that the kubelet rejected the cleaner of a chaos pod.
func (c *cleaning) noteRejection(ctx context.Context, failed *corev1.Pod, why string) {
	c.mu.Lock()
	times := c.rejections[failed.UID].times + 1
	c.rejections[failed.UID] = rejection{times: times, why: why, until: c.a.Clock.Now().Add(roomPause(times))}
	c.mu.Unlock()
	cluster.Events(c.a.Kube).Warn(ctx, status.Named(c.in.Shard.Disruption), "CleanerWaits", onNode(failed)+": "+why, string(failed.UID))
}

// pauses is true while no new cleaner is to be created for a chaos pod, and why is the
// reason.
func (c *cleaning) pauses(failed *corev1.Pod) (why string, pauses bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, rejected := c.rejections[failed.UID]
	return last.why, rejected && (c.over || c.a.Clock.Now().Before(last.until))
}

// awaitRoom describes a chaos pod whose cleaner was rejected.
func (c *cleaning) awaitRoom(failed *corev1.Pod, why string) *chaospod.LeftPod {
	outcome := chaospod.Waiting
	if c.over {
		outcome = chaospod.Failed
	}
	return chaospod.NewLeftPod(failed, outcome, why)
}

// showWait shows in status for what cleaners wait, and removes it when none waits. A
// failure to write stops no cleaning.
func (c *cleaning) showWait(ctx context.Context, left []chaospod.LeftPod) {
	waiting := slices.DeleteFunc(slices.Clone(left), func(l chaospod.LeftPod) bool { return c.rejections[l.UID].why != l.Why })
	shown := ""
	if len(waiting) > 0 {
		first := slices.MinFunc(waiting, func(a, b chaospod.LeftPod) int { return cmp.Compare(a.Pod, b.Pod) })
		shown = status.CleanerWait(len(waiting), first)
	}
	if shown == c.shownWait {
		return
	}
	err := c.a.Disruptions.UpdateStatus(ctx, c.in.Shard.Disruption, status.ShowCleanerWait(shown))
	if err == nil {
		c.shownWait = shown
	}
}
