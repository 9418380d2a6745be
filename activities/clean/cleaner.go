package clean

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// cleanAgain creates a cleaner pod on the node of a failed chaos pod. The cleaner removes
// what the injector left, from its journal. If the cleaner succeeds, cleanAgain removes the
// chaos pod. If the cleaner fails too, the chaos pod stays, with the cleaner's message. A
// cleaner that the node's kubelet rejects has not failed: cleanAgain creates it once more
// after a pause. nil means that no cleaner is to retry this pod.
func (c *cleaning) cleanAgain(ctx context.Context, failed *corev1.Pod) (*chaospod.LeftPod, error) {
	if !c.retried(failed) {
		return nil, nil
	}
	if message, found := c.cleanerFailure(failed); found {
		return chaospod.NewLeftPod(failed, chaospod.Failed, message), nil
	}
	cleaner, found := c.cleaners[chaospod.CleanerName(failed)]
	if !found {
		if why, pauses := c.pauses(failed); pauses {
			return c.awaitRoom(failed, why), nil
		}
		why := chaospod.Failure(failed, chaospod.InjectorState(failed))
		cluster.Events(c.a.Kube).Warn(ctx, status.Named(c.in.Shard.Disruption), "InjectorFailed", onNode(failed)+": "+why+"; a cleaner pod cleans up", string(failed.UID))
		refusal, err := chaospod.Create(ctx, c.a.Kube, c.a.Builder.Cleaner(failed))
		if err != nil {
			return nil, fmt.Errorf("create the cleaner of chaos pod %s: %w", failed.Name, err)
		}
		if refusal != "" {
			message := "no cleaner can be created: " + refusal
			c.noteCleanerFailed(failed, message)
			return chaospod.NewLeftPod(failed, chaospod.Failed, message), nil
		}
		return chaospod.NewLeftPod(failed, chaospod.Waiting, "a cleaner works on the node"), nil
	}
	if !kube.InjectorEnded(&cleaner) {
		return chaospod.NewLeftPod(failed, chaospod.Waiting, "a cleaner works on the node"), nil
	}
	if cleaned, proved := chaospod.Cleaned(&cleaner); cleaned {
		if !proved {
			c.markUnverified(failed)
		}
		cluster.Events(c.a.Kube).Record(ctx, status.Named(c.in.Shard.Disruption), "Healed", onNode(failed)+": a cleaner pod cleaned up after the injector", string(failed.UID))
		// The cleaner pod is the proof until its chaos pod is gone. Then
		// deleteStaleCleaners deletes the cleaner.
		return chaospod.NewLeftPod(failed, chaospod.Waiting, "cleaned from the journal"), c.a.force(ctx, failed)
	}
	if err := c.a.force(ctx, &cleaner); err != nil {
		return nil, err
	}
	if why := chaospod.NoRoom(&cleaner); why != "" {
		c.noteRejection(ctx, failed, why)
		return c.awaitRoom(failed, why), nil
	}
	message := "the cleaner failed too: " + chaospod.CleanerReport(&cleaner)
	c.noteCleanerFailed(failed, message)
	return chaospod.NewLeftPod(failed, chaospod.Failed, message), nil
}

// retried is true for a chaos pod that a cleaner is to retry.
func (c *cleaning) retried(failed *corev1.Pod) bool {
	return slices.Contains(c.in.Retry, chaospod.TargetName(failed)) ||
		slices.Contains(c.in.Retry, "*") && !named(c.in.Exhausted, failed)
}

// onNode names a chaos pod for a person.
func onNode(pod *corev1.Pod) string {
	return fmt.Sprintf("chaos pod %s on node %s, target %s", pod.Name, pod.Spec.NodeName, chaospod.TargetName(pod))
}

// noteCleanerFailed remembers that the only attempt of a chaos pod's cleaner has failed.
func (c *cleaning) noteCleanerFailed(failed *corev1.Pod, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleanerFailures[failed.UID] = message
}

func (c *cleaning) cleanerFailure(failed *corev1.Pod) (message string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	message, found = c.cleanerFailures[failed.UID]
	return message, found
}

// splitCleaners removes the cleaners from a list of chaos pods and keeps them in
// c.cleaners.
func (c *cleaning) splitCleaners(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		cleaner := pod.Labels[v1beta1.LabelCleaner] != ""
		if cleaner {
			c.cleaners[pod.Name] = pod
		}
		return cleaner
	})
}

// deleteStaleCleaners deletes the cleaners whose chaos pod is gone: all except those in
// wanted. It continues after an error.
func (c *cleaning) deleteStaleCleaners(ctx context.Context, wanted map[string]bool) error {
	var errs []error
	for name, cleaner := range c.cleaners {
		if !wanted[name] {
			errs = append(errs, c.a.force(ctx, &cleaner))
		}
	}
	return cluster.FirstOf(errs, "cleaners are not deleted")
}
