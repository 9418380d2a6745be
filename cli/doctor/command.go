package doctor

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// Command is squall doctor.
func Command(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var reach console.TemporalFlags
	var output console.Format
	var place Place
	var isolation bool
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation and suggest fixes",
		Long: "Check the cluster (resources, rights, admission, programs, stuck disruptions)\n" +
			"and Temporal (retention, search attributes, workers, the schedule of the sweep).\n" +
			"The command changes nothing. It exits with 1 if any check fails.",
		Example: "  squall doctor\n  squall doctor -o json | jq '.[] | select(.health != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isolation {
				return c.examineIsolation(cmd, output)
			}
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			place.System = reach.System
			findings := Cluster(cmd.Context(), client, place)
			temporal, where, err := reach.Dial(cmd.Context(), cmd, client)
			if err != nil {
				findings = append(findings, Finding{What: "temporal", Health: Fail, Text: err.Error(),
					WayOut: "name it by SQUALL_TEMPORAL_ADDRESS; without it the worker's address is taken, and a Service is reached through the API server"})
			} else {
				defer temporal.Close()
				findings = append(findings, Temporal(cmd.Context(), temporal, where.Address, where.Namespace)...)
			}
			return c.showFindings(findings, output)
		},
	}
	flags.Add(command)
	reach.Add(command)
	console.ChaosNamespaceFlag(command, &place.Chaos)
	command.Flags().BoolVar(&isolation, "isolation", false, "examine only whether Temporal is out of reach from here, and fail if it answers; for a pod that must not reach it")
	output.Flag(command, "json", "yaml")
	return command
}

// examineIsolation tries to reach Temporal. It calls no API server: the pod in which helm
// test runs it has no account.
func (c call) examineIsolation(cmd *cobra.Command, output console.Format) error {
	where, err := settings.ReadTemporal(cmd.Flags())
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(where.Address)
	if err != nil {
		return fmt.Errorf("--temporal-address %q: %w", where.Address, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), console.DialTimeout)
	defer cancel()
	_, unresolved := net.DefaultResolver.LookupHost(ctx, host)
	temporal, unreached := connect.Dial(ctx, where.Connect(), zap.NewNop(), nil)
	if unreached == nil {
		temporal.Close()
	}
	return c.showFindings([]Finding{Isolation(where.Address, unresolved, unreached)}, output)
}

func (c call) showFindings(findings []Finding, output console.Format) error {
	if output != "" {
		if err := output.Write(c.Out, findings); err != nil {
			return err
		}
	}
	failed := false
	for _, f := range findings {
		failed = failed || f.Health == Fail
		if output != "" {
			continue
		}
		color := map[Health]string{OK: console.Green, Warn: console.Yellow, Fail: console.Red}[f.Health]
		_, _ = fmt.Fprintf(c.Out, "%s  %s: %s\n", c.Paint(color, fmt.Sprintf("%-4s", f.Health)), f.What, f.Text)
		if f.WayOut != "" {
			_, _ = fmt.Fprintf(c.Out, "      hint: %s\n", f.WayOut)
		}
	}
	if failed {
		return console.Silently(console.ExitError)
	}
	return nil
}
