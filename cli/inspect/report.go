package inspect

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/workflows/contract"
)

// storedDisruption is a disruption whose story Temporal has. live is its object, nil if it
// is gone.
type storedDisruption struct {
	story.Story
	live *v1beta1.Disruption
}

// ReportInto implements report.Subject.
func (t storedDisruption) ReportInto(_ context.Context, r *report.Report) {
	var d report.Disruption
	if t.live != nil {
		d = report.Of(t.live, false)
	} else {
		d = report.OfStory(t.Story)
	}
	for _, step := range t.Steps {
		d.Steps = append(d.Steps, report.Event{Time: step.Time, Text: step.Text})
	}
	d.Answers = t.Answers
	r.Disruptions = append(r.Disruptions, d)
	r.Outcome, r.Why, r.ExitCode = d.Outcome, d.Why, console.CodeOfOutcome(d.Outcome)
	if n := len(t.Steps); n > 0 {
		r.Began, r.Ended = t.Steps[0].Time, t.Steps[n-1].Time
	}
}

// reportStory writes reports about a disruption that Temporal knows.
func (c call) reportStory(ctx context.Context, client *cluster.Client, found story.Story, written *report.Files) error {
	if err := written.Open(); err != nil {
		return err
	}
	of := storedDisruption{Story: found}
	ref, _ := contract.ParseWorkflowID(found.Workflow)
	if client.Config != nil {
		if d, err := client.Disruption(ctx, ref.Namespace, ref.Name); err == nil && d.UID == ref.UID {
			of.live = d
		}
	}
	written.Subject = of
	return written.Write(ctx, c.Streams, nil)
}
