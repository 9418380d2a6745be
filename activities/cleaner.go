package activities

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// cleanAgain lets a fresh pod on the node of a failed chaos pod undo what the
// injector left, from its journal. A chaos pod whose cleaner succeeded is let
// go; one whose cleaner failed too stays as it is, with the cleaner's words.
// nil means that nothing was asked for.
func (c *cleaning) cleanAgain(ctx context.Context, failed *corev1.Pod) (*LeftPod, error) {
	if !c.retried(failed) {
		return nil, nil
	}
	if words, tried := c.words(failed); tried {
		return chaospod.NewLeftPod(failed, chaospod.Failed, words), nil
	}
	cleaner, found := c.cleaners[chaospod.CleanerName(failed)]
	if !found {
		why := chaospod.Failure(failed, chaospod.InjectorState(failed))
		c.a.events().Warn(ctx, status.Named(c.in.Shard.Disruption), "InjectorFailed", onNode(failed)+": "+why+"; a cleaner pod cleans up", string(failed.UID))
		refusal, err := chaospod.Create(ctx, c.a.Kube, c.a.Builder.Cleaner(failed))
		if err != nil {
			return nil, fmt.Errorf("create the cleaner of chaos pod %s: %w", failed.Name, err)
		}
		if refusal != "" {
			words := "no cleaner can be created: " + refusal
			c.noteCleanerFailed(failed, words)
			return chaospod.NewLeftPod(failed, chaospod.Failed, words), nil
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
		c.a.events().Record(ctx, status.Named(c.in.Shard.Disruption), "Healed", onNode(failed)+": a cleaner pod cleaned up after the injector", string(failed.UID))
		// The cleaner is the proof until its chaos pod is gone; then it is swept.
		return chaospod.NewLeftPod(failed, chaospod.Waiting, "cleaned from the journal"), c.a.force(ctx, failed)
	}
	if err := c.a.force(ctx, &cleaner); err != nil {
		return nil, err
	}
	words := "the cleaner failed too: " + chaospod.CleanerReport(&cleaner)
	c.noteCleanerFailed(failed, words)
	return chaospod.NewLeftPod(failed, chaospod.Failed, words), nil
}

// retried is true for a chaos pod that a cleaner is to try.
func (c *cleaning) retried(failed *corev1.Pod) bool {
	return slices.Contains(c.in.Retry, chaospod.TargetName(failed)) ||
		slices.Contains(c.in.Retry, "*") && !named(c.in.Exhausted, failed)
}

// onNode names a chaos pod for a person.
func onNode(pod *corev1.Pod) string {
	return fmt.Sprintf("chaos pod %s on node %s, target %s", pod.Name, pod.Spec.NodeName, chaospod.TargetName(pod))
}

// noteCleanerFailed remembers that the cleaner of a chaos pod has had its one try.
func (c *cleaning) noteCleanerFailed(failed *corev1.Pod, words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried[failed.UID] = words
}

func (c *cleaning) words(failed *corev1.Pod) (words string, tried bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	words, tried = c.tried[failed.UID]
	return words, tried
}

// splitCleaners takes the cleaners out of a list of our pods.
func (c *cleaning) splitCleaners(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		cleaner := pod.Labels[v1beta1.LabelCleaner] != ""
		if cleaner {
			c.cleaners[pod.Name] = pod
		}
		return cleaner
	})
}

// deleteStaleCleaners deletes cleaners whose chaos pod is gone: all but those with these
// names. It goes on after an error.
func (c *cleaning) deleteStaleCleaners(ctx context.Context, wanted map[string]bool) error {
	var errs []error
	for name, cleaner := range c.cleaners {
		if !wanted[name] {
			errs = append(errs, c.a.force(ctx, &cleaner))
		}
	}
	return firstOf(errs, "cleaners are not deleted")
}
