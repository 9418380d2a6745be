package create

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/check"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/explain"
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// Command is squall create.
func Command(s console.Streams) *cobra.Command {
	c := call{s}
	var file, chaosNamespace string
	command := &cobra.Command{
		Use:   "create [KIND]",
		Short: "Create a manifest interactively",
		Long: "Ask for the fields of a fault and propose the values of its sample. An empty\n" +
			"line accepts the proposal, " + Nothing + " leaves the field out. Each answer is checked by the\n" +
			"rules of squall validate. The command creates nothing in a cluster, and writes\n" +
			"the manifest only if it is valid.",
		Example: "  squall create\n  squall create network-disruption -f lossy.yaml",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return v1beta1.AllKinds().Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("file %s is there already: name another one by -f, or remove it", file)
			}
			asks := c.questions(cmd.Context())
			kind, err := asks.kind(args)
			if err != nil {
				return err
			}
			draft, err := New(kind, time.Now(), chaosNamespace)
			if err != nil {
				return err
			}
			if err := asks.all(draft); err != nil {
				asks.print("\n")
				return fmt.Errorf("%w; nothing is written", err)
			}
			return c.showCreated(draft, file)
		},
	}
	command.Flags().StringVarP(&file, "file", "f", "", "file to write, which must not be there yet; nothing: the standard output")
	console.ChaosNamespaceFlag(command, &chaosNamespace)
	return command
}

func (c call) showCreated(draft *Draft, file string) error {
	if file == "" {
		_, err := c.Out.Write(draft.YAML())
		return err
	}
	if err := writeNew(file, draft.YAML()); err != nil {
		return err
	}
	d := draft.Disruption()
	if err := check.ShowExplanations(c.Streams, []check.Explanation{{Disruption: "Disruption " + d.Name, Topics: explain.Disruption(d)}}, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Out, "\nwrote %s. See its targets: squall plan %s\n", file, file)
	return err
}

// writeNew writes a file, which must not exist.
func writeNew(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
