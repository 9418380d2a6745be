// Package plan is a preview of a disruption as if it were created now: which pods or nodes
// it would choose from, how many of them, and why it would skip others. It uses the survey
// of the worker's package targets, so a plan and the worker cannot differ.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Plan is the preview of one disruption.
type Plan struct {
	Disruption string   `json:"disruption"`
	Kinds      []string `json:"kinds"`
	Level      string   `json:"level"`
	// Unknown is why the targets cannot be known; then Wanted and Chosen are 0.
	Unknown string `json:"unknown,omitempty"`
	// Chosen of the candidates would be disrupted, drawn at random. Wanted is what count
	// asks for. Chosen is smaller when other disruptions hold candidates, or a budget has
	// no room.
	Wanted int `json:"wanted"`
	Chosen int `json:"chosen"`
	// Candidates by name, with the node of each.
	Candidates []Target `json:"candidates"`
	// LeftOut are the other targets that the selector matches, by the reason why they are
	// skipped.
	LeftOut []Reason `json:"leftOut"`
	// Nodes are the nodes of the candidates, and how many each has.
	Nodes []Node `json:"nodes"`
	// Assumed names the settings of the worker that were assumed, and the reason; empty if
	// they were read.
	Assumed string `json:"assumed,omitempty"`
	// Warnings are facts that are unknown or reduce the targets.
	Warnings []string `json:"warnings,omitempty"`
	// Refusals are why it would not be carried out.
	Refusals []string `json:"refusals,omitempty"`
}

// Target is a pod or node.
type Target struct {
	Name string `json:"name"`
	Node string `json:"node,omitempty"`
}

// Reason is why targets are skipped.
type Reason struct {
	Why     string   `json:"why"`
	Targets []string `json:"targets"`
}

// Node is a node with candidates.
type Node struct {
	Name       string `json:"name"`
	Candidates int    `json:"candidates"`
}

// Blind is the plan of a disruption whose candidates the user may not list. why names
// the right that is missing.
func Blind(d *v1beta1.Disruption, why string) Plan {
	p := begin(d)
	p.Unknown = why
	return p
}

func begin(d *v1beta1.Disruption) Plan {
	return Plan{
		Disruption: d.Namespace + "/" + d.Name, Kinds: d.Spec.Kinds().Names(), Level: string(d.Spec.Level),
		Candidates: []Target{}, LeftOut: []Reason{}, Nodes: []Node{},
	}
}

// Of is the plan of a disruption that does not exist yet.
func Of(d *v1beta1.Disruption, found targets.Survey) Plan {
	p := begin(d)
	p.Wanted, p.Chosen = found.Wanted, found.Chosen
	why, nodes := map[string][]string{}, map[string]int{}
	for _, c := range found.Healthy {
		reason := c.Unusable()
		if holder := found.Holders[c.Target.UID]; holder != "" {
			reason = "held by " + holder
		}
		if reason != "" {
			why[reason] = append(why[reason], c.Target.Name)
			continue
		}
		p.Candidates = append(p.Candidates, Target{c.Target.Name, c.Target.NodeName})
		nodes[c.Target.NodeName]++
	}
	for _, other := range found.Others {
		why[other.Why] = append(why[other.Why], other.Target.Name)
	}
	slices.SortFunc(p.Candidates, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		slices.Sort(why[reason])
		p.LeftOut = append(p.LeftOut, Reason{reason, why[reason]})
	}
	slices.SortStableFunc(p.LeftOut, func(a, b Reason) int { return cmp.Compare(len(b.Targets), len(a.Targets)) })
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		p.Nodes = append(p.Nodes, Node{name, nodes[name]})
	}
	slices.SortStableFunc(p.Nodes, func(a, b Node) int { return cmp.Compare(b.Candidates, a.Candidates) })
	p.judge(d, found)
	return p
}

func (p *Plan) judge(d *v1beta1.Disruption, found targets.Survey) {
	for _, what := range found.Unread {
		p.Warnings = append(p.Warnings, "you may not list the "+what+": fewer may be selected than shown here")
	}
	if pods := found.UnreadNodes; len(pods) > 0 {
		slices.Sort(pods)
		p.Warnings = append(p.Warnings, fmt.Sprintf("you may not get nodes: for %d candidates that are not ready (%s) it is unknown whether their node is ready. "+
			"The worker leaves out pods on nodes that are not ready", len(pods), some(pods, false)))
	}
	for _, what := range []string{found.Budget, found.Denied} {
		if what != "" {
			p.Warnings = append(p.Warnings, what)
		}
	}
	switch {
	case d.Spec.OnInit:
		p.Warnings = append(p.Warnings, "onInit: the targets are pods that are created while it lasts, and cannot be known now")
	case len(found.Healthy) == 0 && len(found.Others) == 0:
		p.Refusals = append(p.Refusals, fmt.Sprintf("no %s matches the selector: see kubectl get %ss --show-labels", d.Spec.Level, d.Spec.Level))
	case p.Chosen == 0:
		p.Refusals = append(p.Refusals, "none of the selected targets can be disrupted now, for the reasons above")
	case p.Chosen < p.Wanted:
		p.Warnings = append(p.Warnings, fmt.Sprintf("only %d of %d wanted targets can be had", p.Chosen, p.Wanted))
	}
}
