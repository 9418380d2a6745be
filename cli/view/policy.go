package view

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// PolicyRows are the header and a row for each rule of each DisruptionPolicy, by name.
func (l List) PolicyRows(policies []*v1beta1.DisruptionPolicy) [][]Cell {
	l.Namespaces = false
	rows := [][]Cell{l.row("", "NAME", Cell{"RULE", Quiet}, []string{"DENIES", "REASON"}, nil, Quiet)}
	for _, p := range byName(policies) {
		for _, rule := range p.Spec.Rules {
			rows = append(rows, l.row("", p.Name, Cell{rule.Name, Plain}, []string{Denies(rule), rule.Reason}, nil, Plain))
		}
	}
	return rows
}

// Policy is a line for each rule of a DisruptionPolicy.
func Policy(p *v1beta1.DisruptionPolicy) []Line {
	var lines []Line
	for i, rule := range p.Spec.Rules {
		name, text := "", fmt.Sprintf("%s: denies %s", rule.Name, Denies(rule))
		if i == 0 {
			name = "rules"
		}
		if rule.Reason != "" {
			text += ": " + rule.Reason
		}
		lines = append(lines, Line{name, Cell{text, Plain}})
	}
	return lines
}

// Denies describes what a rule denies.
func Denies(r v1beta1.PolicyRule) string {
	var kinds []string
	for _, kind := range r.Kinds {
		kinds = append(kinds, string(kind))
	}
	text := cmp.Or(strings.Join(kinds, ", "), "every fault")
	if r.AtMost != nil {
		text = limit(r.AtMost) + " of " + text
	}
	add := func(format string, values ...string) {
		if all := strings.Join(values, ", "); all != "" {
			text += fmt.Sprintf(format, all)
		}
	}
	add(" at level %s", string(r.Level))
	add(" in namespaces %s", r.Namespaces...)
	if r.TargetSelector != nil {
		add(" on targets with %s", metav1.FormatLabelSelector(r.TargetSelector))
	}
	add(" for %s", people(r.Requesters)...)
	add(" except for %s", people(r.ExceptRequesters)...)
	add(" except in environments %s", r.ExceptEnvironments...)
	for _, window := range r.Windows {
		add(", %s", during(window))
	}
	return text
}

func limit(of *v1beta1.PolicyLimit) string {
	var limits []string
	if of.Targets != nil {
		targets := "targets"
		if *of.Targets == 1 {
			targets = "target"
		}
		limits = append(limits, fmt.Sprintf("more than %d %s", *of.Targets, targets))
	}
	if of.Percent != nil {
		limits = append(limits, fmt.Sprintf("more than %d%% of the targets", int(*of.Percent)))
	}
	return strings.Join(limits, " or ")
}

func people(r *v1beta1.PolicyRequesters) []string {
	if r == nil {
		return nil
	}
	var all []string
	for _, user := range r.Users {
		all = append(all, "user "+user)
	}
	for _, group := range r.Groups {
		all = append(all, "group "+group)
	}
	return all
}

func during(w v1beta1.PolicyWindow) string {
	var days []string
	for _, day := range w.Days {
		days = append(days, string(day))
	}
	return fmt.Sprintf("%s from %s to %s %s", cmp.Or(strings.Join(days, " "), "daily"), cmp.Or(w.From, "00:00"), cmp.Or(w.To, "00:00"), cmp.Or(w.TimeZone, "UTC"))
}
