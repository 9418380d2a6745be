package inspect

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/cli/chart"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/cli/view"
)

const historyHelp = "Read Temporal, which keeps the steps of each disruption for the retention time\n" +
	"of its namespace, even if the Disruption was deleted. With a name, show the\n" +
	"steps of the newest disruption of that name: targets, injection, probes,\n" +
	"decisions and clean-up. --events shows everything that its workflow did.\n" +
	"Times are local.\n\n" +
	"RESULT is Passed, Failed, Aborted, Inconclusive or Rejected, as for run. With\n" +
	"--temporal-address the command needs no kubeconfig."

// History is squall history.
func History(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var reach console.TemporalFlags
	var output console.Format
	var limit int
	var since time.Duration
	var picture string
	var events bool
	var written report.Files
	command := &cobra.Command{
		Use:     "history [NAME]",
		Short:   "List ended disruptions, or show the steps of one",
		Long:    historyHelp,
		Example: "  squall history --since 24h\n  squall history -A --limit 100 -o json\n  squall history lossy\n  squall history lossy --report html=lossy.html\n  squall history lossy --chart lossy.svg",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (picture != "" || written.Wanted() || events) && len(args) == 0 {
				return console.Usage("--chart, --report and --events are about one disruption: name it")
			}
			client, err := flags.ConnectIfAny(c.Streams, console.Given(cmd, "temporal-address"))
			if err != nil {
				return err
			}
			temporal, reached, err := reach.Dial(cmd.Context(), cmd, client)
			if err != nil {
				return err
			}
			defer temporal.Close()
			if len(args) == 0 {
				query := story.Query{Namespace: flags.Namespace(client), Limit: limit, TemporalNamespace: reached.Namespace}
				if since > 0 && !cmd.Flags().Changed("limit") {
					query.Limit = 0
				}
				return c.listEnded(cmd.Context(), temporal, query, since, flags.Where(client), output)
			}
			found, err := story.Of(cmd.Context(), temporal, client.Namespace, args[0])
			if err != nil {
				return err
			}
			switch {
			case picture != "":
				return writeChart(picture, found)
			case written.Wanted():
				return c.reportStory(cmd.Context(), client, found, &written)
			}
			return c.showStory(found, events, output)
		},
	}
	flags.Add(command)
	flags.AddEverywhere(command)
	reach.Add(command)
	command.Flags().IntVar(&limit, "limit", 20, "how many to list at most, newest first; 0 is all, and the default with --since")
	command.Flags().DurationVar(&since, "since", 0, "only those that ended in this time, such as 24h")
	command.Flags().StringVar(&picture, "chart", "", "write how its probes were answered as an SVG picture into this file")
	command.Flags().BoolVar(&events, "events", false, "show everything that the workflow did")
	written.Flag(command)
	output.Flag(command, "json", "yaml", "wide")
	return command
}

// listEnded lists the disruptions that ended since a while ago; 0 is any time.
func (c call) listEnded(ctx context.Context, t client.Client, query story.Query, since time.Duration, where string, output console.Format) error {
	if since > 0 {
		query.Since = c.Now().Add(-since)
		where += " in the last " + duration.HumanDuration(since)
	}
	if query.Namespace != "" {
		where += ": squall history -A lists those of all namespaces"
	}
	runs, err := story.List(ctx, t, query)
	if err != nil {
		return err
	}
	return c.showRuns(runs, where, output)
}

// writeChart draws how the probes of a disruption were answered.
func writeChart(path string, found story.Story) error {
	if len(found.Answers) == 0 {
		return fmt.Errorf("disruption %s: its history has no answers to probes: it had none, or they did not ask", found.Disruption)
	}
	return os.WriteFile(path, []byte(chart.SVG(found.Disruption, found.Answers)), 0o644)
}

func (c call) showRuns(runs []story.Run, where string, output console.Format) error {
	if output == console.JSON || output == console.YAML {
		return output.Write(c.Out, runs)
	}
	if len(runs) == 0 {
		_, _ = fmt.Fprintln(c.Err, "Temporal knows of no disruption that has ended "+where)
		return nil
	}
	_, _ = fmt.Fprint(c.Out, view.Grid(runRows(runs, output == console.Wide), c.Tone))
	return nil
}

// runRows are the header and a row for each run. The requesters have a column if one is
// known.
func runRows(runs []story.Run, wide bool) [][]view.Cell {
	asked := slices.ContainsFunc(runs, func(r story.Run) bool { return r.Requester != "" })
	row := func(tone view.Tone, result view.Cell, ended, disruption, lasted, kinds, requester, ending, why string) []view.Cell {
		cells := []view.Cell{{Text: ended, Tone: tone}, {Text: disruption, Tone: tone}, {Text: lasted, Tone: tone}, result, {Text: kinds, Tone: tone}}
		if asked {
			cells = append(cells, view.Cell{Text: requester, Tone: tone})
		}
		if wide {
			ending = why
		}
		return append(cells, view.Cell{Text: ending, Tone: tone})
	}
	rows := [][]view.Cell{row(view.Quiet, view.Cell{Text: "RESULT", Tone: view.Quiet}, "ENDED", "DISRUPTION", "LASTED", "KINDS", "REQUESTER", "ENDING", "WHY")}
	for _, r := range runs {
		result := view.Cell{Text: string(r.Result), Tone: r.Tone}
		if result.Text == "" {
			result = view.Cell{Text: "workflow " + r.Status, Tone: view.Bad}
		}
		rows = append(rows, row(view.Plain, result, r.Ended.Local().Format("2006-01-02 15:04:05 MST"), r.Disruption, r.Lasted, r.Kinds, r.Requester, r.Ending, r.Why))
	}
	return rows
}

func (c call) showStory(found story.Story, events bool, output console.Format) error {
	steps := found.Steps
	if events {
		steps = found.Events
	} else {
		found.Events = nil
	}
	if output == console.JSON || output == console.YAML {
		return output.Write(c.Out, found)
	}
	_, _ = fmt.Fprintf(c.Out, "%s  %s\n", c.Paint(console.Bold, found.Disruption), c.Paint(console.Dim, found.Workflow))
	for _, step := range steps {
		_, _ = fmt.Fprintf(c.Out, "  %s  %s\n", c.Paint(console.Dim, step.Time.Local().Format("2006-01-02 15:04:05.000 MST")), view.Printable(step.Text))
	}
	if found.Outcome != "" {
		_, _ = fmt.Fprintf(c.Out, "%s: %s\n", c.Tone(found.Tone, string(found.Outcome)), view.Printable(found.Result))
	}
	return nil
}
