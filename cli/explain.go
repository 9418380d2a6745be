package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/manifest"
)

// explained is the explanation of one object.
type explained struct {
	Disruption string          `json:"disruption"`
	Topics     []explain.Topic `json:"topics"`
}

func (c *command) explain() *cobra.Command {
	var output format
	var chaosNamespace string
	command := &cobra.Command{
		Use:   "explain FILE... | -",
		Short: "Explain what a manifest does",
		Long: "Explain for each Disruption what it does, to which targets, for how long, what\n" +
			"ends it and what it leaves out. A DisruptionCron or DisruptionRollout is\n" +
			"explained by its runs, a DisruptionScenario by its steps.",
		Example: "  squall explain lossy.yaml\n  kubectl get disruption lossy -o yaml | squall explain -",
	}
	takesFiles(command, 0, func(_ *cobra.Command, files []string) error {
		documents, err := c.read(files)
		if err != nil {
			return err
		}
		manifest.Check(documents, manifest.Rules{Now: time.Now(), ChaosNamespace: chaosNamespace})
		if err := c.refuseInvalid(documents); err != nil {
			return err
		}
		var all []explained
		for _, d := range documents {
			switch {
			case d.Disruption != nil:
				all = append(all, explained{d.String(), explain.Disruption(d.Disruption)})
			case d.DisruptionCron != nil:
				all = append(all, explained{d.String(), explain.Cron(d.DisruptionCron, time.Now())})
			case d.DisruptionRollout != nil:
				all = append(all, explained{d.String(), explain.Rollout(d.DisruptionRollout)})
			case d.DisruptionScenario != nil:
				all = append(all, explained{d.String(), explain.Scenario(d.DisruptionScenario)})
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("there is no Disruption, DisruptionCron, DisruptionRollout or DisruptionScenario in it")
		}
		return c.showExplained(all, output)
	})
	output.flag(command, "json", "yaml")
	chaosNamespaceFlag(command, &chaosNamespace)
	return command
}

// refuseInvalid prints the problems of invalid documents, and returns an error if there are
// any.
func (c *command) refuseInvalid(documents []manifest.Document) error {
	for _, d := range documents {
		if len(d.Problems) == 0 {
			continue
		}
		err := c.showValidated(c.err, documents, "")
		if _, printed := codeOf(err); !printed {
			return err
		}
		return exit{code: exitError, err: fmt.Errorf("%s is not valid: %s", d, strings.Join(d.Problems, "; ")), silent: true}
	}
	return nil
}

func (c *command) showExplained(all []explained, output format) error {
	if output != "" {
		return output.write(c.out, all)
	}
	for i, e := range all {
		if i > 0 {
			_, _ = fmt.Fprintln(c.out)
		}
		_, _ = fmt.Fprintln(c.out, c.paint(bold, e.Disruption))
		for _, topic := range e.Topics {
			for j, line := range topic.Lines {
				name := topic.Name
				if j > 0 {
					name = ""
				}
				_, _ = fmt.Fprintf(c.out, "  %s  %s\n", c.paint(bold, fmt.Sprintf("%-9s", name)), line)
			}
		}
	}
	return nil
}
