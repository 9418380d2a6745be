package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/chart"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/cli/view"
)

func (c *command) history() *cobra.Command {
	var flags clusterFlags
	var reach temporalFlags
	var output format
	var limit int
	var picture string
	command := &cobra.Command{
		Use:   "history [NAME]",
		Short: "List ended disruptions, or show the steps of one",
		Long: "Read Temporal, which keeps the steps of each disruption for the retention time\n" +
			"of its namespace, even if the Disruption was deleted. With a name, show the\n" +
			"steps of the newest disruption of that name.",
		Example: "  squall history\n  squall history -A --limit 100 -o json\n  squall history lossy\n  squall history lossy --chart lossy.svg",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			temporal, _, err := reach.dial(cmd.Context(), cmd, client)
			if err != nil {
				return err
			}
			defer temporal.Close()
			if picture != "" && len(args) == 0 {
				return usage("--chart draws one disruption: name it")
			}
			if len(args) == 0 {
				runs, err := story.List(cmd.Context(), temporal, flags.namespace(client), limit)
				if err != nil {
					return err
				}
				where := flags.where(client)
				if !flags.everywhere {
					where += ": squall history -A lists those of all namespaces"
				}
				return c.showRuns(runs, where, output)
			}
			told, err := story.Of(cmd.Context(), temporal, client.Namespace, args[0])
			if err != nil {
				return err
			}
			if picture != "" {
				return writeChart(picture, told)
			}
			return c.showStory(told, output)
		},
	}
	flags.add(command)
	flags.addEverywhere(command)
	reach.add(command)
	command.Flags().IntVar(&limit, "limit", 20, "how many to list at most, newest first")
	command.Flags().StringVar(&picture, "chart", "", "write how its probes were answered as an SVG picture into this file")
	output.flag(command, "json", "yaml")
	return command
}

// writeChart draws how the probes of a disruption were answered.
func writeChart(path string, told story.Story) error {
	if len(told.Answers) == 0 {
		return fmt.Errorf("disruption %s: its history has no answers to probes: it had none, or they did not ask", told.Disruption)
	}
	return os.WriteFile(path, []byte(chart.SVG(told.Disruption, told.Answers)), 0o644)
}

func (c *command) showRuns(runs []story.Run, where string, output format) error {
	if output != "" {
		return output.write(c.out, runs)
	}
	if len(runs) == 0 {
		_, _ = fmt.Fprintln(c.err, "Temporal knows of no disruption that has ended "+where)
		return nil
	}
	rows := [][]view.Cell{{{Text: "ENDED", Tone: view.Quiet}, {Text: "DISRUPTION", Tone: view.Quiet}, {Text: "LASTED", Tone: view.Quiet},
		{Text: "WORKFLOW", Tone: view.Quiet}, {Text: "KINDS", Tone: view.Quiet}}}
	for _, r := range runs {
		tone := view.Plain
		if r.Status != "Completed" {
			tone = view.Bad
		}
		rows = append(rows, []view.Cell{{Text: r.Ended.UTC().Format("2006-01-02 15:04:05")}, {Text: r.Disruption}, {Text: r.Lasted}, {Text: r.Status, Tone: tone}, {Text: r.Kinds}})
	}
	_, _ = fmt.Fprint(c.out, view.Grid(rows, c.tone))
	return nil
}

func (c *command) showStory(told story.Story, output format) error {
	if output != "" {
		return output.write(c.out, told)
	}
	_, _ = fmt.Fprintf(c.out, "%s  %s\n", c.paint(bold, told.Disruption), c.paint(dim, told.Workflow))
	for _, step := range told.Steps {
		_, _ = fmt.Fprintf(c.out, "  %s  %s\n", c.paint(dim, step.Time.UTC().Format("15:04:05.000")), view.Printable(step.Text))
	}
	if told.Result != "" {
		_, _ = fmt.Fprintf(c.out, "  %s\n", c.paint(bold, view.Printable(told.Result)))
	}
	return nil
}
