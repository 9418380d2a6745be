// Package run is squall run: it creates a disruption or a scenario and follows it until it is
// cleaned up.
package run

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/check"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// Command is squall run.
func Command(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var how running
	var chaosNamespace string
	run := &cobra.Command{
		Use:   "run FILE | -",
		Short: "Run a disruption or scenario and follow it until it is cleaned up",
		Long: "Create the Disruption or DisruptionScenario of a file and follow it until it has\n" +
			"ended and is cleaned up. If a step waits for an approval, the command shows how\n" +
			"to approve it.\n\n" +
			"On a terminal, Ctrl-C asks whether to stop. Elsewhere, one SIGINT or SIGTERM\n" +
			"ends the disruption and waits for the clean-up; a second one stops waiting.\n" +
			"After --timeout, the command stops waiting with exit code 1 and the disruption\n" +
			"goes on.\n\n" +
			"--report writes a report however the command ends, also if the disruption was\n" +
			"refused or goes on.\n\n" +
			"Exit codes:\n\n" +
			"  0  passed, or ended without probes\n" +
			"  1  error or rejected\n" +
			"  3  Failed\n" +
			"  4  Aborted by a probe, a person or an emergency stop\n" +
			"  5  Inconclusive, also if not every target was injected\n" +
			"  6  stuck",
		Example: "  squall run lossy.yaml\n  squall run lossy.yaml --detach && squall status lossy\n" +
			"  squall run lossy.yaml --replace --timeout 30m --report junit=chaos.xml\n  squall run game-day.yaml",
	}
	console.TakesFiles(run, 1, func(cmd *cobra.Command, files []string) error {
		switch {
		case how.detach && !how.replace && how.timeout > 0:
			return console.Usage("--timeout limits the waiting, and --detach does not wait: leave one out")
		case how.detach && how.reports.Wanted():
			return console.Usage("--report describes the end, and --detach does not wait for it: leave one out")
		}
		if err := how.reports.Open(); err != nil {
			return err
		}
		how.reports.Began, how.reports.Manifest = c.Now(), console.ShownName(files[0])
		err := c.runFile(cmd, &flags, files, chaosNamespace, &how)
		return how.reports.Write(cmd.Context(), c.Streams, err)
	})
	flags.Add(run)
	console.ChaosNamespaceFlag(run, &chaosNamespace)
	run.Flags().BoolVar(&how.detach, "detach", false, "create it and do not wait")
	run.Flags().BoolVar(&how.replace, "replace", false, "delete an ended one of the same name first")
	how.reports.Flag(run)
	run.Flags().DurationVar(&how.timeout, "timeout", 0, "how long to wait at most, such as 30m; 0 is for ever")
	return run
}

// running is how squall run creates an object and waits for it.
type running struct {
	detach, replace bool
	timeout         time.Duration
	reports         report.Files
}

// begin starts the time of --timeout: as a context, and as a channel for a wait that
// outlives the context. The channel is nil if there is no limit.
func (r *running) begin(ctx context.Context) (context.Context, <-chan time.Time, context.CancelFunc) {
	if r.timeout <= 0 {
		return ctx, nil, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	return ctx, time.After(r.timeout), cancel
}

// runFile runs the object of a file.
func (c call) runFile(cmd *cobra.Command, flags *console.ClusterFlags, files []string, chaosNamespace string, how *running) error {
	client, err := flags.Connect(c.Streams)
	if err != nil {
		return err
	}
	d, s, err := check.One(c.Streams, files, check.Place{Namespace: client.Namespace, Given: cmd.Flags().Changed("namespace"), ChaosNamespace: chaosNamespace})
	if err != nil {
		return err
	}
	how.reports.Subject = manifestOf{d, s}
	ctx, deadline, cancel := how.begin(cmd.Context())
	defer cancel()
	if s != nil {
		return c.runScenario(ctx, client, s, how, deadline)
	}
	return c.runDisruption(ctx, client, d, how, deadline)
}
