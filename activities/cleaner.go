package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// cleanAgain lets a fresh pod on the node of a failed chaos pod undo what the
// injector left, from its journal. A chaos pod whose cleaner succeeded is let
// go; one whose cleaner failed too stays as it is, with the cleaner's words.
// nil means that nothing was asked for.
func (c *cleaning) cleanAgain(ctx context.Context, failed *corev1.Pod) (*LeftPod, error) {
	if !slices.Contains(c.in.Retry, "*") && !slices.Contains(c.in.Retry, targetName(failed)) {
		return nil, nil
	}
	if words, tried := c.words(failed); tried {
		return leftPod(failed, Failed, words), nil
	}
	cleaner, found := c.cleaners[cleanerName(failed)]
	if !found {
		_, err := c.a.Kube.CoreV1().Pods(c.a.Namespace).Create(ctx, cleanerFor(failed), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create the cleaner of chaos pod %s: %w", failed.Name, err)
		}
		return leftPod(failed, Waiting, "a cleaner works on the node"), nil
	}
	if !kube.InjectorEnded(&cleaner) {
		return leftPod(failed, Waiting, "a cleaner works on the node"), nil
	}
	if exit := injectorState(&cleaner).Terminated; exit != nil && exit.ExitCode == 0 {
		// One whose report cannot be read has proved nothing.
		if report, _ := cleanReport(exit); !report.Audited {
			c.doubt(failed)
		}
		// The cleaner is the proof until its chaos pod is gone; then it is swept.
		return leftPod(failed, Waiting, "cleaned from the journal"), c.a.force(ctx, failed)
	}
	if err := c.a.force(ctx, &cleaner); err != nil {
		return nil, err
	}
	words := "the cleaner failed too: " + cleanerWords(&cleaner)
	c.note(failed, words)
	return leftPod(failed, Failed, words), nil
}

// note remembers that the cleaner of a chaos pod has had its one try.
func (c *cleaning) note(failed *corev1.Pod, words string) {
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

// cleanerFor is the failed pod once more, with the same rights on the same
// node, but for the command. It needs no finalizer: it may be taken away at
// any moment, and started again.
func cleanerFor(failed *corev1.Pod) *corev1.Pod {
	spec := failed.Spec.DeepCopy()
	seconds := int64(50)
	spec.ActiveDeadlineSeconds = &seconds
	container := &spec.Containers[0]
	container.Args = []string{"clean", "--disruption", failed.Labels[v1beta1.LabelDisruptionUID], "--target", failed.Labels[v1beta1.LabelTargetUID]}
	container.Env, container.StartupProbe, container.ReadinessProbe = nil, nil, nil
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	labels := map[string]string{v1beta1.LabelCleaner: "true"}
	for key, value := range failed.Labels {
		labels[key] = value
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: cleanerName(failed), Labels: labels, Annotations: failed.Annotations},
		Spec:       *spec,
	}
}

func cleanerName(failed *corev1.Pod) string { return failed.Name + "-cleaner" }

// cleanerWords is what the cleaner reported, short enough for a person.
func cleanerWords(cleaner *corev1.Pod) string {
	exit := injectorState(cleaner).Terminated
	if exit == nil {
		return fmt.Sprintf("it ended (%s %s) and its exit code is unknown", cleaner.Status.Phase, cleaner.Status.Reason)
	}
	report, err := cleanReport(exit)
	if err != nil {
		return fmt.Sprintf("exit code %d: %s", exit.ExitCode, strings.TrimSpace(exit.Message[:min(len(exit.Message), 300)]))
	}
	words := []string{}
	for _, left := range report.Left {
		words = append(words, left.Error)
		words = append(words, left.Objects...)
	}
	if report.Error != "" {
		words = append(words, report.Error)
	}
	return strings.Join(words, "; ")
}

// cleanReport reads the termination message of the injector's command clean.
func cleanReport(exit *corev1.ContainerStateTerminated) (v1beta1.CleanReport, error) {
	var report v1beta1.CleanReport
	if err := json.Unmarshal([]byte(exit.Message), &report); err != nil {
		return v1beta1.CleanReport{}, fmt.Errorf("the cleaner's report: %w", err)
	}
	return report, nil
}

// splitCleaners takes the cleaners out of a list of our pods.
func (c *cleaning) splitCleaners(pods []corev1.Pod) []corev1.Pod {
	c.cleaners = map[string]corev1.Pod{}
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		cleaner := pod.Labels[v1beta1.LabelCleaner] != ""
		if cleaner {
			c.cleaners[pod.Name] = pod
		}
		return cleaner
	})
}

// sweepCleaners deletes cleaners whose chaos pod is gone.
func (c *cleaning) sweepCleaners(ctx context.Context, pods []corev1.Pod) error {
	for name, cleaner := range c.cleaners {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return cleanerName(&pod) == name }) {
			continue
		}
		if err := c.a.force(ctx, &cleaner); err != nil {
			return err
		}
	}
	return nil
}
