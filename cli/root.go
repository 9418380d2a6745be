package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// command has the streams of every subcommand.
type command struct {
	streams
	// started is true once the command line was parsed.
	started bool
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	c := &command{streams: s}
	root := c.root(filepath.Base(args[0]))
	root.SetArgs(args[1:])
	command, err := root.ExecuteContextC(ctx)
	code, printed := codeOf(err)
	if err != nil && !c.started {
		code, printed = exitUsage, false
	}
	if !printed {
		s.fail(err)
	}
	if code == exitUsage && !printed {
		_, _ = fmt.Fprintf(s.err, "see: %s --help\n", command.CommandPath())
	}
	return code
}

// root is the tree of commands. called is the name of the program's file.
func (c *command) root(called string) *cobra.Command {
	root := &cobra.Command{
		Use:   "squall",
		Short: "Run, watch and stop disruptions of a Kubernetes cluster",
		Long: "Run controlled faults on Kubernetes, with guaranteed clean-up.\n\n" +
			"Exit codes: 0 success, 1 error, 2 wrong command line. A disruption that has\n" +
			"ended: 3 Failed, 4 Aborted, 5 Inconclusive, 6 stuck.",
		Version:       thisBuild().line(),
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRun: func(*cobra.Command, []string) { c.started = true },
	}
	if strings.HasPrefix(called, "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl squall"}
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddCommand(c.create(), c.validate(), c.explain(), c.plan(), c.run(), c.list(), c.status(), c.stop(), c.approve(), c.resume(), c.estop(), c.uninstall(), c.history(), c.doctor(), c.demo(), c.version())
	return root
}
