package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Line is a fact of a disruption; a line without a name continues the fact above it.
type Line struct {
	Name string
	Cell
}

// mostTargets is how many targets are listed at most unless everything is wanted.
const mostTargets = 20

// Disruption returns all that is known of a disruption. everything lists all targets that
// its status has.
func Disruption(d *v1beta1.Disruption, now time.Time, everything bool) []Line {
	s := d.Status
	lines := []Line{{"phase", Phase(d)}}
	add := func(name string, tone Tone, format string, args ...any) {
		lines = append(lines, Line{name, Cell{fmt.Sprintf(format, args...), tone}})
	}
	if s.Ending != "" {
		add("ending", Plain, "%s", s.Ending)
	}
	kinds := d.Spec.Kinds().String()
	if d.Spec.DryRun {
		kinds += " (dry run)"
	}
	add("kinds", Plain, "%s", kinds)
	add("targets", Plain, "%s", targets(s))
	lines = append(lines, times(d, now)...)
	lines = append(lines, steadyLines(d.Status.SteadyState)...)
	if c := condition(d, v1beta1.ConditionEffectVerified); c != nil {
		add("effect", effectTone(c), "%s: %s", c.Reason, c.Message)
	}
	lines = append(lines, problems(d)...)
	lines = append(lines, injections(s, everything)...)
	for i, r := range s.Resumes {
		name := ""
		if i == 0 {
			name = "resumed"
		}
		add(name, Plain, "%s of %s by %s: %s", r.Action, cmp.Or(strings.Join(r.Targets, ", "), "all"), cmp.Or(r.By, "an unnamed person"), r.Reason)
	}
	if s.Workflow != nil {
		add("workflow", Quiet, "%s", s.Workflow.ID)
	}
	return lines
}

func targets(s v1beta1.DisruptionStatus) string {
	if s.Targets == "" {
		return "none chosen yet"
	}
	text := fmt.Sprintf("%s injected, %s", s.Targets, s.InjectionStatus)
	if s.DesiredTargetsCount > s.SelectedTargetsCount {
		text += fmt.Sprintf("; only %d chosen", s.SelectedTargetsCount)
	}
	if s.IgnoredTargetsCount > 0 {
		text += fmt.Sprintf("; %d more match", s.IgnoredTargetsCount)
	}
	return text
}

func times(d *v1beta1.Disruption, now time.Time) []Line {
	var parts []string
	add := func(format string, t *metav1.Time) {
		if t == nil || t.IsZero() {
			return
		}
		text := duration.HumanDuration(now.Sub(t.Time)) + " ago"
		if t.After(now) {
			text = "in " + duration.HumanDuration(t.Sub(now))
		}
		parts = append(parts, fmt.Sprintf(format, text))
	}
	add("created %s", &d.CreationTimestamp)
	add("injected %s", d.Status.InjectedTime)
	if !d.Status.Phase.Ending() {
		add("expires %s", d.Status.ExpiryTime)
	}
	add("clean %s", d.Status.CleanedAt)
	if len(parts) == 0 {
		return nil
	}
	return []Line{{"time", Cell{strings.Join(parts, ", "), Plain}}}
}

// steadyLines are the verdict and each probe.
func steadyLines(s *v1beta1.SteadyStateStatus) []Line {
	if s == nil {
		return nil
	}
	text := cmp.Or(string(s.Verdict), "no verdict yet")
	if s.Summary != "" {
		text += ": " + s.Summary
	}
	lines := []Line{{"steady", Cell{text, Plain}}}
	for _, p := range s.Probes {
		text, tone := fmt.Sprintf("probe %s  %s", p.Name, cmp.Or(string(p.State), string(v1beta1.ProbeUnknown))), Plain
		if p.Failing > 0 {
			text += fmt.Sprintf(", %d of %d targets fail", p.Failing, p.Targets)
		}
		if p.Text != "" {
			text += ": " + p.Text
		}
		if p.State == v1beta1.ProbeFailure {
			tone = Bad
		}
		lines = append(lines, Line{"", Cell{text, tone}})
	}
	return lines
}

func effectTone(c *metav1.Condition) Tone {
	switch c.Status {
	case metav1.ConditionTrue:
		return Good
	case metav1.ConditionFalse:
		return Bad
	}
	return Careful
}

// problems are the conditions that report a problem, each with a hint.
func problems(d *v1beta1.Disruption) []Line {
	var lines []Line
	for _, bad := range []struct {
		condition string
		status    metav1.ConditionStatus
		hint      string
	}{
		{v1beta1.ConditionStuckOnRemoval, metav1.ConditionTrue, fmt.Sprintf("squall -n %s resume %s --action retry, after you fixed what is wrong; docs/stuck.md", d.Namespace, d.Name)},
		{v1beta1.ConditionOrchestrated, metav1.ConditionFalse, "squall doctor"},
		{v1beta1.ConditionStopped, metav1.ConditionTrue, "squall estop shows whether the stop is still in force"},
		{v1beta1.ConditionAccepted, metav1.ConditionFalse, hintForRejected(d)},
		{v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "squall plan shows the possible targets, and why others are left out"},
		{v1beta1.ConditionInjected, metav1.ConditionFalse, ""},
		{v1beta1.ConditionCleaned, metav1.ConditionFalse, ""},
	} {
		c := condition(d, bad.condition)
		if c == nil || c.Status != bad.status || harmless(d, c) {
			continue
		}
		if c.Reason == v1beta1.ReasonWaitingForCordon || c.Reason == v1beta1.ReasonWaitingForRoom {
			lines = append(lines, Line{"waits", Cell{c.Message, Careful}})
			continue
		}
		lines = append(lines, Line{"problem", Cell{fmt.Sprintf("%s (%s): %s", c.Type, c.Reason, c.Message), Bad}})
		if bad.hint != "" {
			lines = append(lines, Line{"", Cell{"hint: " + bad.hint, Plain}})
		}
	}
	if verified := d.Status.CleanedVerified; verified != nil && !*verified {
		text := "something may be left on a node"
		if c := condition(d, v1beta1.ConditionCleaned); c != nil {
			text = c.Message
		}
		lines = append(lines, Line{"problem", Cell{text, Bad}}, Line{"", Cell{"hint: the next sweep cleans what journals note; docs/stuck.md", Plain}})
	}
	return lines
}

// hintForRejected is the hint for a rejected disruption. Not every rejection means that the
// manifest is wrong.
func hintForRejected(d *v1beta1.Disruption) string {
	reason := ""
	if c := condition(d, v1beta1.ConditionAccepted); c != nil {
		reason = c.Reason
	}
	switch reason {
	case v1beta1.ReasonDenied:
		return "delete it, and create it again when the rule allows it, such as in another time window"
	case v1beta1.ReasonEmergencyStop:
		return "delete it, and create it again when squall estop shows that no stop is in force"
	case "MissingRights", "NoDriver":
		return "ask the operator of Squall for the missing right, then delete it and create it again"
	}
	return "delete it, fix the manifest, create it again"
}

// harmless is true for a condition that is not yet, or no longer, True without a problem.
func harmless(d *v1beta1.Disruption, c *metav1.Condition) bool {
	switch c.Type {
	case v1beta1.ConditionInjected, v1beta1.ConditionTargetsSelected:
		return d.Status.Phase.Ending()
	case v1beta1.ConditionCleaned:
		return !d.Status.Phase.Over() && c.Reason != v1beta1.ReasonWaitingForRoom
	}
	return false
}

// injections are the targets one by one, those that are not injected first.
func injections(s v1beta1.DisruptionStatus, everything bool) []Line {
	type row struct {
		target string
		kind   v1beta1.Kind
		v1beta1.TargetInjection
	}
	var rows []row
	for _, target := range slices.Sorted(maps.Keys(s.TargetInjections)) {
		for _, kind := range slices.Sorted(maps.Keys(s.TargetInjections[target])) {
			rows = append(rows, row{target, kind, s.TargetInjections[target][kind]})
		}
	}
	rank := func(r row) int {
		switch r.InjectionStatus {
		case v1beta1.IsStuckOnRemoval:
			return 0
		case v1beta1.Injected, v1beta1.PreviouslyInjected:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(rank(a), rank(b)) })
	var lines []Line
	for i, r := range rows {
		if i == mostTargets && !everything {
			lines = append(lines, Line{"", Cell{fmt.Sprintf("and %d more: -o wide lists them", len(rows)-i), Quiet}})
			break
		}
		text := fmt.Sprintf("%s  %s  %s", r.target, r.kind, r.InjectionStatus)
		if r.Effect != nil {
			text += fmt.Sprintf(", %s: %s", r.Effect.State, r.Effect.Evidence)
			if r.InjectionStatus == v1beta1.Injected { // after the end the figures are those of the end
				text += " (measured at " + r.Effect.Since.UTC().Format(time.TimeOnly) + " UTC)"
			}
		}
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		lines = append(lines, Line{"target", Cell{text, []Tone{Bad, Careful, Plain}[rank(r)]}})
	}
	for i := len(lines) - 1; i > 0; i-- {
		lines[i].Name = ""
	}
	return lines
}
