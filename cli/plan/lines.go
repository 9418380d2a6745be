package plan

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/cli/view"
)

// mostNames is how many names a line has at most unless everything is wanted.
const mostNames = 10

// Lines are the plan for people.
func (p Plan) Lines(everything bool) []view.Line {
	var lines []view.Line
	add := func(name string, tone view.Tone, format string, args ...any) {
		lines = append(lines, view.Line{Name: name, Cell: view.Cell{Text: fmt.Sprintf(format, args...), Tone: tone}})
	}
	add("kinds", view.Plain, "%s", strings.Join(p.Kinds, ", "))
	switch {
	case p.Unknown != "":
		add("targets", view.Careful, "unknown: %s", p.Unknown)
	case p.Chosen == 0:
		add("targets", view.Bad, "0, drawn at random from %d candidates", len(p.Candidates))
	default:
		add("targets", view.Good, "%d, drawn at random from %d candidates", p.Chosen, len(p.Candidates))
	}
	var names []string
	for _, c := range p.Candidates {
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		add("from", view.Plain, "%s", some(names, everything))
	}
	if p.Level == "pod" && len(p.Nodes) > 0 {
		var nodes []string
		for _, n := range p.Nodes {
			nodes = append(nodes, fmt.Sprintf("%s (%d)", n.Name, n.Candidates))
		}
		add("nodes", view.Plain, "at most %d: %s", min(len(p.Nodes), p.Chosen), some(nodes, everything))
	}
	for i, reason := range p.LeftOut {
		name := ""
		if i == 0 {
			name = "left out"
		}
		add(name, view.Careful, "%d: %s: %s", len(reason.Targets), reason.Why, some(reason.Targets, everything))
	}
	if p.Assumed != "" {
		add("assumed", view.Careful, "%s", p.Assumed)
	}
	for _, warning := range p.Warnings {
		add("warning", view.Careful, "%s", warning)
	}
	for _, refusal := range p.Refusals {
		add("refused", view.Bad, "%s", refusal)
	}
	return lines
}

// some are the first names, and the number of the rest.
func some(names []string, everything bool) string {
	if everything || len(names) <= mostNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more (-o wide)", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
}
