// Package explain describes a Disruption in plain words: its faults, targets, duration,
// ends and exceptions. It knows the manifest and nothing else.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Topic is one aspect of a disruption, with lines of text.
type Topic struct {
	Name  string   `json:"name"`
	Lines []string `json:"lines"`
}

// Disruption explains d, whose defaults are set and which is valid.
func Disruption(d *v1beta1.Disruption) []Topic {
	topics := []Topic{
		{"what", what(d.Spec)},
		{"whom", whichTargets(d)},
		{"how long", howLong(d.Spec)},
		{"ends", ends(d.Spec)},
		{"left out", leftOut(d.Spec)},
	}
	if caught := d.Spec.CaughtBySafeMode(); len(caught) > 0 {
		topics = append(topics, Topic{"safe mode", caught})
	}
	if to := recipients(d.Spec.Reporting); len(to) > 0 {
		topics = append(topics, Topic{"notifies", to})
	}
	return topics
}

// recipients are the receivers of notifications that the manifest names.
func recipients(r *v1beta1.Reporting) (lines []string) {
	if r == nil {
		return nil
	}
	least := cmp.Or(r.MinNotificationType, string(v1beta1.NotificationDefault))
	for _, to := range []struct{ who, name string }{{"the Slack channel ", r.SlackChannel}, {"the Slack user ", r.SlackUserEmail}} {
		if to.name != "" {
			lines = append(lines, to.who+to.name+", of what is "+least+" or more important, if the worker has a token for Slack")
		}
	}
	return lines
}

func what(s v1beta1.DisruptionSpec) []string {
	var lines []string
	if s.DryRun {
		lines = append(lines, "dry run: everything happens as below, but nothing is injected")
	}
	for _, fault := range s.Requested() {
		for i, line := range ofKind(fault, s) {
			if i == 0 {
				line = string(fault.Kind) + ": " + line
			} else {
				line = "  " + line
			}
			lines = append(lines, line)
		}
	}
	if p := s.Beats(); p != nil {
		line := fmt.Sprintf("on for %s and off for %s, in turn", span(p.ActiveDuration), span(p.DormantDuration))
		if p.InitialDelay != nil && p.InitialDelay.Duration > 0 {
			line += ", the first time after " + span(p.InitialDelay)
		}
		lines = append(lines, line)
	}
	return lines
}

func whichTargets(d *v1beta1.Disruption) []string {
	s := d.Spec
	lines := []string{amount(s) + " " + thoseThat(d)}
	if s.Filter != nil && len(s.Filter.Annotations) > 0 {
		lines = append(lines, "only those with the annotations "+metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.Filter.Annotations}))
	}
	if len(s.Containers) > 0 {
		lines = append(lines, "in each of them the containers "+strings.Join(slices.Sorted(slices.Values(s.Containers)), ", "))
	}
	if s.OnInit {
		lines = append(lines, fmt.Sprintf("pods that are created with the label %s=%s while it lasts, before their containers start", v1beta1.LabelDisruptOnInit, v1beta1.OnInitValue))
	}
	if amount(s) != everyOne {
		lines = append(lines, "chosen at random among those that are healthy when it begins")
	}
	if s.StaticTargeting {
		return append(lines, "chosen once: targets that go are not replaced")
	}
	lines = append(lines, "targets that go are replaced by others, and a percentage follows the number that match")
	switch {
	case s.MaxLostTargets != nil:
		lines = append(lines, fmt.Sprintf("not more than %d targets that were lost are replaced (maxLostTargets)", *s.MaxLostTargets))
	case amount(s) != everyOne:
		lines = append(lines, "not more targets that were lost are replaced than count asks for; maxLostTargets allows more")
	}
	return lines
}

// everyOne is the text for a count of all targets.
const everyOne = "all"

func amount(s v1beta1.DisruptionSpec) string {
	count := "none"
	if s.Count != nil {
		count = s.Count.String()
	}
	switch {
	case count == "100%":
		return everyOne
	case strings.HasSuffix(count, "%"):
		return count + ", rounded up, of the"
	case count == "1":
		return "one of the"
	}
	return count + " of the"
}

func thoseThat(d *v1beta1.Disruption) string {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: d.Spec.Selector, MatchExpressions: d.Spec.AdvancedSelector})
	if d.Spec.Level == v1beta1.LevelNode {
		return "nodes with the labels " + selector
	}
	namespace := "the namespace it is created in"
	if d.Namespace != "" {
		namespace = "namespace " + d.Namespace
	}
	return "pods of " + namespace + " with the labels " + selector
}

func howLong(s v1beta1.DisruptionSpec) []string {
	lines := []string{span(s.Duration) + ", counted from the time to inject"}
	if t := s.Triggers; t != nil {
		lines = append(lines, moment("targets are chosen and chaos pods created", t.CreatePods, "the creation"),
			moment("injected", t.Inject, "that"))
	} else {
		lines = append(lines, "that is at once, when it is created")
	}
	return append(lines, waitsForProbes(s)...)
}

// waitsForProbes is how much of the duration the probes may take before the injection.
func waitsForProbes(s v1beta1.DisruptionSpec) []string {
	if s.SteadyState == nil {
		return nil
	}
	guard := s.SteadyState.WithDefaults()
	if !guard.Asks(v1beta1.ProbeBefore) {
		return nil
	}
	line := fmt.Sprintf("the probes that come before the injection are part of it: %s of it at most", short(guard.GateTimeout()))
	if s.Duration != nil && guard.GateTimeout() >= s.Duration.Duration {
		line += ", which may be all; a lower gateTimeoutSeconds leaves time for the fault"
	}
	return []string{line}
}

// moment is when a step begins that a trigger may delay.
func moment(what string, t v1beta1.DisruptionTrigger, after string) string {
	switch {
	case !t.NotBefore.IsZero():
		return what + " not before " + t.NotBefore.UTC().Format("2006-01-02 15:04:05 UTC")
	case t.Offset.Duration > 0:
		return what + " " + short(t.Offset.Duration) + " after " + after
	}
	return what + " at once"
}

func ends(s v1beta1.DisruptionSpec) []string {
	lines := []string{"when that time is over; each injector has its own timer and needs no other program"}
	if s.MaxRuns != nil {
		lines = append(lines, fmt.Sprintf("after %d injections (maxRuns)", *s.MaxRuns))
	}
	if s.SteadyState != nil {
		lines = append(lines, "when a probe that aborts it fails, or the steady state is not reached before the injection")
	}
	return append(lines,
		"when it is deleted: squall stop, or kubectl delete disruption",
		"when a user creates an emergency stop: squall estop on")
}

func leftOut(s v1beta1.DisruptionSpec) []string {
	thing := "pods"
	if s.Level == v1beta1.LevelNode {
		thing = "nodes"
	}
	lines := []string{thing + " that are not healthy, are being deleted, or are not Linux"}
	if s.AllowDisruptedTargets {
		lines = append(lines, thing+" that another disruption has with one of the same kinds")
	} else {
		lines = append(lines, thing+" that another disruption has")
	}
	lines = append(lines, thing+" that it has disrupted before")
	if s.PodReplacement != nil {
		lines = append(lines, "pods that no controller would start again elsewhere")
	}
	if s.NeedsMemoryLimit() {
		lines = append(lines, "pods with a container without a memory limit")
	}
	if s.Network != nil {
		lines = append(lines, networkLeftOut(s)...)
	}
	return lines
}

// span is a duration for people; nil is none.
func span(d *v1beta1.Duration) string {
	if d == nil {
		return "no time"
	}
	return short(d.Duration)
}

// short omits units that are zero: 1h0m0s is 1h.
func short(d time.Duration) string {
	text := d.String()
	for _, nothing := range []string{"m0s", "h0m"} {
		if rest, cut := strings.CutSuffix(text, nothing); cut {
			text = rest + nothing[:1]
		}
	}
	return text
}
