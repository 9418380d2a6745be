package chaospod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Cleaner returns the pod that cleans up after a failed chaos pod: a copy with the same
// rights on the same node, with another command. It has no finalizer, so it may be
// deleted at any moment and created again.
func (b Builder) Cleaner(failed *corev1.Pod) *corev1.Pod {
	spec := failed.Spec.DeepCopy()
	seconds := int64((b.Timeout() - cleanerMargin).Seconds())
	spec.ActiveDeadlineSeconds = &seconds
	// The API server set these from the priority class, and refuses a pod whose class has
	// another priority now.
	spec.Priority, spec.PreemptionPolicy = nil, nil
	container := &spec.Containers[0]
	// The journals of other kinds on this target belong to injectors that live.
	container.Args = []string{
		"clean", "--disruption", failed.Labels[v1beta1.LabelDisruptionUID],
		"--target", failed.Labels[v1beta1.LabelTargetUID], "--kind", failed.Labels[v1beta1.LabelDisruptionKind],
	}
	container.Env, container.StartupProbe, container.ReadinessProbe = nil, nil, nil
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	labels := map[string]string{v1beta1.LabelCleaner: "true"}
	for key, value := range failed.Labels {
		labels[key] = value
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: failed.Namespace, Name: CleanerName(failed), Labels: labels, Annotations: failed.Annotations},
		Spec:       *spec,
	}
}

// CleanerName is the name of the only cleaner of a failed chaos pod.
func CleanerName(failed *corev1.Pod) string { return failed.Name + "-cleaner" }

// CleanerReport returns what the cleaner reported, shortened for a person.
func CleanerReport(cleaner *corev1.Pod) string { return CleanerReportOf(cleaner, "") }

// CleanerReportOf returns what a cleaner of several disruptions reported of one of
// them. If no entry names that disruption, it returns the whole report.
func CleanerReportOf(cleaner *corev1.Pod, uid types.UID) string {
	exit := InjectorState(cleaner).Terminated
	if why := Rejection(cleaner); why != "" {
		return why
	}
	if exit == nil {
		return fmt.Sprintf("it ended (%s %s) and its exit code is unknown", cleaner.Status.Phase, cleaner.Status.Reason)
	}
	report, err := readCleanReport(exit)
	if err != nil {
		why := fmt.Sprintf("exit code %d (%s)", exit.ExitCode, cmp.Or(cleaner.Status.Reason, exit.Reason))
		if message := text.Shorten(text.Line(strings.TrimSpace(exit.Message)), 300); message != "" {
			return why + ": " + message
		}
		return why + " without a reason"
	}
	found := []string{}
	of := func(left v1beta1.LeftInjection) bool { return strings.Contains(left.Injection, "("+string(uid)+")") }
	if uid != "" && slices.ContainsFunc(report.Left, of) {
		report.Left = slices.DeleteFunc(report.Left, func(left v1beta1.LeftInjection) bool { return !of(left) })
	}
	for _, left := range report.Left {
		found = append(found, left.Error)
		found = append(found, left.Objects...)
	}
	if report.Error != "" {
		found = append(found, report.Error)
	}
	if len(found) == 0 { // it ended before it had searched the node
		return fmt.Sprintf("exit code %d (%s), and it reported nothing as left", exit.ExitCode, exit.Reason)
	}
	return strings.Join(found, "; ")
}

// Cleaned reports whether a cleaner that ended has removed everything that was left,
// and whether it proved that by a search of the node. The report counts before the exit
// code: the cleaner may be killed after it wrote the report.
func Cleaned(cleaner *corev1.Pod) (cleaned, proved bool) {
	exit := InjectorState(cleaner).Terminated
	if exit == nil {
		return false, false
	}
	report, err := readCleanReport(exit)
	proved = err == nil && report.Audited && report.Left != nil && len(report.Left) == 0 && report.Error == ""
	return exit.ExitCode == 0 || proved, proved
}

// readCleanReport reads the termination message of the injector's command clean.
func readCleanReport(exit *corev1.ContainerStateTerminated) (v1beta1.CleanReport, error) {
	var report v1beta1.CleanReport
	if err := json.Unmarshal([]byte(exit.Message), &report); err != nil {
		return v1beta1.CleanReport{}, fmt.Errorf("the cleaner's report: %w", err)
	}
	return report, nil
}
