package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/doctor"
)

func (c *command) doctor() *cobra.Command {
	var flags clusterFlags
	var reach temporalFlags
	var output format
	var place doctor.Place
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether Squall works here, and what to do where it does not",
		Long: "Examines the cluster (resources, rights, admission, programs, what is stuck) and Temporal (retention, search\n" +
			"attributes, workers, the sweep's schedule). It changes nothing. The exit code is 1 when anything fails.",
		Example: "  squall doctor\n  squall doctor -o json | jq '.[] | select(.health != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	output.flag(command, "json", "yaml")
	return command
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
