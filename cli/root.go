package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/check"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/control"
	"github.com/squall-chaos/squall/cli/create"
	"github.com/squall-chaos/squall/cli/demo"
	"github.com/squall-chaos/squall/cli/doctor"
	"github.com/squall-chaos/squall/cli/inspect"
	"github.com/squall-chaos/squall/cli/preview"
	"github.com/squall-chaos/squall/cli/run"
)

// squall executes a command line and returns the exit code.
func squall(ctx context.Context, args []string, s console.Streams) int {
	started := false // true once the command line was parsed
	root := commands(filepath.Base(args[0]), s)
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args[1:])
	command, err := root.ExecuteContextC(ctx)
	code, printed := console.CodeOf(err)
	if err != nil && !started {
		code, printed = console.ExitUsage, false
	}
	if !printed {
		s.Fail(err)
	}
	if code == console.ExitUsage && !printed {
		_, _ = fmt.Fprintf(s.Err, "see: %s --help\n", command.CommandPath())
	}
	return code
}

// commands is the tree of commands. called is the name of the program's file.
func commands(called string, s console.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "squall",
		Short: "Run, watch and stop disruptions of a Kubernetes cluster",
		Long: "Run controlled faults on Kubernetes, with guaranteed clean-up.\n\n" +
			"Exit codes: 0 success, 1 error, 2 wrong command line. A disruption that has\n" +
			"ended: 3 Failed, 4 Aborted, 5 Inconclusive, 6 stuck.",
		Version:       thisBuild().line(),
		SilenceErrors: true, SilenceUsage: true,
	}
	if strings.HasPrefix(called, "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl squall"}
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.AddCommand(
		create.Command(s), check.Validate(s), check.Explain(s), preview.Command(s), run.Command(s),
		inspect.List(s), inspect.Status(s), inspect.History(s),
		control.Stop(s), control.Approve(s), control.Resume(s), control.EmergencyStop(s), control.Uninstall(s),
		doctor.Command(s), demo.Command(s), printVersion(s),
	)
	return root
}
