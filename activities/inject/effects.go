package inject

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Times of the effects.
const (
	// logPatience is the longest wait for one chaos pod's log.
	logPatience = 2 * time.Second
	// effectGap is the shortest pause between two attempts of AwaitEffects, effectGapMax
	// the longest. The pause grows by half with each attempt.
	effectGap    = 2 * time.Second
	effectGapMax = time.Minute
)

// EffectProgress counts the injections that are known to have no effect yet. It is 0 when
// AwaitEffects returns without an error.
type EffectProgress struct {
	Unproven int `json:"unproven,omitempty"`
}

// AwaitEffects reads once the effects that are not proven, and those of chaos pods that are
// not ready or were not for a while. It writes changed effects into status. While one
// effect is not proven or not readable, it fails, with the delay until the next attempt.
// Temporal waits for that delay without a worker's slot and without an event of history,
// and shows the figures meanwhile.
func (a *Activities) AwaitEffects(ctx context.Context, ref v1beta1.DisruptionRef) (EffectProgress, error) {
	d, err := a.Disruptions.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		return EffectProgress{}, nil
	}
	if err != nil {
		return EffectProgress{}, err
	}
	turned, unread := a.readEffects(ctx, d, a.needEffectRead(d))
	if len(turned) > 0 {
		err := a.Disruptions.UpdateStatus(ctx, ref, func(d *v1beta1.Disruption) {
			if !d.Status.Phase.Ending() {
				status.ShowEffects(d, turned)
			}
		})
		if err != nil {
			return EffectProgress{}, err
		}
	}
	unproven, evidence := 0, ""
	if unread != nil {
		unproven, evidence = 1, ": "+unread.Error()
	}
	for _, kinds := range d.Status.TargetInjections {
		for _, injection := range kinds {
			effect := injection.Effect
			if turn := turned[injection.InjectorPodName]; turn != nil {
				effect = turn
			}
			if effect != nil && effect.State != v1beta1.EffectProven {
				unproven, evidence = unproven+1, fmt.Sprintf(": %s: %s", effect.State, effect.Evidence)
			}
		}
	}
	if unproven == 0 || d.Status.Phase.Ending() {
		return EffectProgress{}, nil
	}
	return EffectProgress{}, temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("%d injections were not seen to act%s", unproven, evidence), "NotProven",
		temporal.ApplicationErrorOptions{NextRetryDelay: effectPause(activity.GetInfo(ctx).Attempt), Category: temporal.ApplicationErrorCategoryBenign})
}

// effectPause is the pause after this many attempts.
func effectPause(attempts int32) time.Duration {
	pause := effectGap
	for range attempts - 1 {
		if pause = pause * 3 / 2; pause > effectGapMax {
			return effectGapMax
		}
	}
	return pause
}

// needEffectRead are the chaos pods whose effects have to be read from logs.
func (a *Activities) needEffectRead(d *v1beta1.Disruption) []*corev1.Pod {
	known := effectsOf(d)
	var unproven []*corev1.Pod
	for _, pod := range a.ChaosPods.Of(d.Ref()) {
		effect, listed := known[pod.Name]
		if listed && !knownProven(pod, effect) && chaospod.InjectorState(pod).Running != nil {
			unproven = append(unproven, pod)
		}
	}
	return unproven
}

// knownProven is true for an effect that is known to be proven and that the chaos pod has
// not reported as changed since. It needs no read.
func knownProven(pod *corev1.Pod, known *v1beta1.Effect) bool {
	ready, _ := chaospod.Ready(pod)
	return ready && known != nil && known.State == v1beta1.EffectProven && kube.ReadyAgain(pod, known) == nil
}

// effectsOf are the effects in status, by chaos pod name; nil for an unknown effect.
func effectsOf(d *v1beta1.Disruption) map[string]*v1beta1.Effect {
	known := map[string]*v1beta1.Effect{}
	for _, kinds := range d.Status.TargetInjections {
		for _, injection := range kinds {
			known[injection.InjectorPodName] = injection.Effect
		}
	}
	return known
}

// readEffects reads from chaos pods' logs the effects that changed since status was
// written. It records an event for each change for the worse. turned leaves out a log that
// cannot be read; unread is why.
func (a *Activities) readEffects(ctx context.Context, d *v1beta1.Disruption, pods []*corev1.Pod) (turned map[string]*v1beta1.Effect, unread error) {
	known := effectsOf(d)
	turned = map[string]*v1beta1.Effect{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(a.Parallel)
	for _, pod := range pods {
		group.Go(func() error {
			log, err := a.tailOfLog(ctx, pod)
			if err != nil {
				return fmt.Errorf("read the log of chaos pod %s: %w", pod.Name, err)
			}
			turns := chaospod.EffectsIn(log)
			if len(turns) == 0 || chaospod.SameEffect(known[pod.Name], &turns[len(turns)-1]) {
				return nil
			}
			a.recordTurns(ctx, d, pod, known[pod.Name], turns)
			mu.Lock()
			defer mu.Unlock()
			turned[pod.Name] = &turns[len(turns)-1]
			return nil
		})
	}
	unread = group.Wait()
	return turned, unread
}

// recordTurns records each change for the worse that status does not show yet.
func (a *Activities) recordTurns(ctx context.Context, d *v1beta1.Disruption, pod *corev1.Pod, known *v1beta1.Effect, turns []v1beta1.Effect) {
	reasons := map[v1beta1.EffectState]string{v1beta1.EffectLost: "EffectLost", v1beta1.EffectIneffective: "EffectIneffective"}
	for _, turn := range turns {
		reason := reasons[turn.State]
		if reason == "" || known != nil && turn.Since.Before(&known.Since) || chaospod.SameEffect(known, &turn) {
			continue
		}
		message := fmt.Sprintf("%s on target %s (chaos pod %s): %s", pod.Labels[v1beta1.LabelDisruptionKind], chaospod.TargetName(pod), pod.Name, turn.Evidence)
		cluster.Events(a.Kube).Warn(ctx, d, reason, message, fmt.Sprint(pod.UID, turn.Since.Unix()))
	}
}

// tailOfLog is the end of a chaos pod's log, if its kubelet is quick to answer.
func (a *Activities) tailOfLog(ctx context.Context, pod *corev1.Pod) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	lines := int64(50)
	log, err := a.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
	return string(log), err
}
