package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/cli/doctor"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
)

func (c *command) doctor() *cobra.Command {
	var flags clusterFlags
	var reach temporalFlags
	var output format
	var place doctor.Place
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
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			place.System = reach.system
			findings := doctor.Cluster(cmd.Context(), client, place)
			temporal, where, err := reach.dial(cmd.Context(), cmd, client)
			if err != nil {
				findings = append(findings, doctor.Finding{What: "temporal", Health: doctor.Fail, Text: err.Error(),
					WayOut: "name it by SQUALL_TEMPORAL_ADDRESS; without it the worker's address is taken, and a Service is reached through the API server"})
			} else {
				defer temporal.Close()
				findings = append(findings, doctor.Temporal(cmd.Context(), temporal, where.Address, where.Namespace)...)
			}
			return c.showFindings(findings, output)
		},
	}
	flags.add(command)
	reach.add(command)
	chaosNamespaceFlag(command, &place.Chaos)
	command.Flags().BoolVar(&isolation, "isolation", false, "examine only whether Temporal is out of reach from here, and fail if it answers; for a pod that must not reach it")
	output.flag(command, "json", "yaml")
	return command
}

// examineIsolation tries to reach Temporal. It calls no API server: the pod in which helm
// test runs it has no account.
func (c *command) examineIsolation(cmd *cobra.Command, output format) error {
	where, err := settings.ReadTemporal(cmd.Flags())
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(where.Address)
	if err != nil {
		return fmt.Errorf("--temporal-address %q: %w", where.Address, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), dialTimeout)
	defer cancel()
	_, unresolved := net.DefaultResolver.LookupHost(ctx, host)
	temporal, unreached := connect.Dial(ctx, where.Connect(), zap.NewNop(), nil)
	if unreached == nil {
		temporal.Close()
	}
	return c.showFindings([]doctor.Finding{doctor.Isolation(where.Address, unresolved, unreached)}, output)
}

func (c *command) showFindings(findings []doctor.Finding, output format) error {
	if output != "" {
		if err := output.write(c.out, findings); err != nil {
			return err
		}
	}
	failed := false
	for _, f := range findings {
		failed = failed || f.Health == doctor.Fail
		if output != "" {
			continue
		}
		color := map[doctor.Health]string{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}[f.Health]
		_, _ = fmt.Fprintf(c.out, "%s  %s: %s\n", c.paint(color, fmt.Sprintf("%-4s", f.Health)), f.What, f.Text)
		if f.WayOut != "" {
			_, _ = fmt.Fprintf(c.out, "      hint: %s\n", f.WayOut)
		}
	}
	if failed {
		return silently(exitError)
	}
	return nil
}
