// Package sweep is the workflow that searches the cluster for what no live disruption
// owns, and has it cleaned.
package sweep

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/workflows/flow"
)

const (
	// nodePage is how many nodes one activity searches: 5,000 nodes are 25
	// activities, and a worker that dies costs no more than one of them.
	nodePage = 200
	// orphanPatience is how long a sweep waits for the workflows it has started.
	orphanPatience = 2 * time.Minute
)

// a names the activities; it is never called.
var a *orphans.Activities

// Result is what the Temporal UI shows of a sweep that is over.
type Result struct {
	Summary   string        `json:"summary"`
	Nodes     int           `json:"nodes"`
	Audited   int           `json:"audited"`
	ChaosPods orphans.Tally `json:"chaosPods"`
	Records   orphans.Tally `json:"records"`
	Marks     orphans.Tally `json:"marks"`
	// Cleaned was cleaned, Left could not be, Skipped are nodes that could not be searched;
	// the next sweep tries the last two again. At most 50 of each.
	Cleaned []orphans.Orphan `json:"cleaned,omitempty"`
	Left    []orphans.Orphan `json:"left,omitempty"`
	Skipped []orphans.Orphan `json:"skipped,omitempty"`
}

// Workflow searches the API and all nodes for what no live disruption owns, and has it
// cleaned. It carries counts, whatever the number of nodes, and fails only when it could
// not search.
func Workflow(ctx workflow.Context) (Result, error) {
	var s Result
	var records orphans.SweptRecords
	err := workflow.ExecuteActivity(flow.SearchOptions(ctx, "chaos pods and records"), a.SweepRecords, orphans.Patience{For: orphanPatience}).Get(ctx, &records)
	if err != nil {
		return s, err
	}
	s.ChaosPods, s.Records, s.Cleaned, s.Left = records.ChaosPods, records.Records, records.Cleaned, records.Left
	for page := (orphans.NodePage{Size: nodePage}); ; {
		var nodes orphans.SweptNodes
		summary := fmt.Sprintf("nodes from %d on", s.Nodes+1)
		if err := workflow.ExecuteActivity(flow.SearchOptions(ctx, summary), a.SweepNodes, page).Get(ctx, &nodes); err != nil {
			return s, err
		}
		s.add(nodes)
		workflow.SetCurrentDetails(ctx, details(s))
		if page.From = nodes.Next; page.From == "" {
			return s, nil
		}
	}
}

func (s *Result) add(page orphans.SweptNodes) {
	s.Nodes += page.Nodes
	s.Audited += page.Audited
	s.Marks.Found += page.Marks.Found
	s.Marks.Cleaned += page.Marks.Cleaned
	s.Marks.Left += page.Marks.Left
	s.Cleaned = someOf(s.Cleaned, page.Cleaned)
	s.Left = someOf(s.Left, page.Left)
	s.Skipped = someOf(s.Skipped, page.Skipped)
	s.Summary = s.sentence()
}

// someOf is as many as a result should name.
func someOf(all, more []orphans.Orphan) []orphans.Orphan {
	return append(all, more[:min(len(more), flow.MaxNamed-len(all))]...)
}

func (s *Result) sentence() string {
	found, cleaned := s.ChaosPods.Found+s.Records.Found+s.Marks.Found, s.ChaosPods.Cleaned+s.Records.Cleaned+s.Marks.Cleaned
	left := s.ChaosPods.Left + s.Records.Left + s.Marks.Left
	text := fmt.Sprintf("looked at %d of %s: ", s.Audited, flow.Number(s.Nodes, "node"))
	if found == 0 {
		return text + "nothing is there that no disruption owns"
	}
	text += fmt.Sprintf("%s (%s, %s, %s on nodes), %d cleaned", flow.Number(found, "orphan"),
		flow.Number(s.ChaosPods.Found, "chaos pod"), flow.Number(s.Records.Found, "record"), flow.Number(s.Marks.Found, "mark"), cleaned)
	if left > 0 {
		text += fmt.Sprintf(", %d left for the next sweep", left)
	}
	return text
}

// details is the page a person reads in the Temporal UI: markdown.
func details(s Result) string {
	text := "## " + s.Summary + "\n"
	for _, part := range []struct {
		title string
		rows  []orphans.Orphan
	}{{"Left", s.Left}, {"Not looked at", s.Skipped}, {"Cleaned", s.Cleaned}} {
		if len(part.rows) == 0 {
			continue
		}
		text += "\n### " + part.title + "\n\n"
		for _, row := range part.rows {
			text += "- " + flow.OneLine(orphanItem(row)) + "\n"
		}
	}
	return text
}

// orphanItem has the parts that are known of an orphan.
func orphanItem(o orphans.Orphan) string {
	var parts []string
	for _, part := range [][2]string{{"node ", o.Node}, {"disruption ", o.Disruption}, {"", o.What}} {
		if part[1] != "" {
			parts = append(parts, part[0]+part[1])
		}
	}
	item := strings.Join(parts, ", ")
	if o.Why != "" {
		item += ": " + o.Why
	}
	return item
}
