package check

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/manifest"
)

// Explanation is the explanation of one object.
type Explanation struct {
	Disruption string          `json:"disruption"`
	Topics     []explain.Topic `json:"topics"`
}

// Explain is squall explain.
func Explain(s console.Streams) *cobra.Command {
	c := call{s}
	var output console.Format
	var chaosNamespace string
	command := &cobra.Command{
		Use:   "explain FILE... | -",
		Short: "Explain what a manifest does",
		Long: "Explain for each Disruption what it does, to which targets, for how long, what\n" +
			"ends it and what it leaves out. A DisruptionCron or DisruptionRollout is\n" +
			"explained by its runs, a DisruptionScenario by its steps.",
		Example: "  squall explain lossy.yaml\n  kubectl get disruption lossy -o yaml | squall explain -",
	}
	console.TakesFiles(command, 0, func(_ *cobra.Command, files []string) error {
		documents, err := c.Read(files)
		if err != nil {
			return err
		}
		manifest.Check(documents, manifest.Rules{Now: time.Now(), ChaosNamespace: chaosNamespace})
		if err := c.refuseInvalid(documents); err != nil {
			return err
		}
		var all []Explanation
		for _, d := range documents {
			switch {
			case d.Disruption != nil:
				all = append(all, Explanation{d.String(), explain.Disruption(d.Disruption)})
			case d.DisruptionCron != nil:
				all = append(all, Explanation{d.String(), explain.Cron(d.DisruptionCron, time.Now())})
			case d.DisruptionRollout != nil:
				all = append(all, Explanation{d.String(), explain.Rollout(d.DisruptionRollout)})
			case d.DisruptionScenario != nil:
				all = append(all, Explanation{d.String(), explain.Scenario(d.DisruptionScenario)})
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("there is no Disruption, DisruptionCron, DisruptionRollout or DisruptionScenario in it")
		}
		return ShowExplanations(c.Streams, all, output)
	})
	output.Flag(command, "json", "yaml")
	console.ChaosNamespaceFlag(command, &chaosNamespace)
	return command
}

// ShowExplanations writes explanations in a format; for people if output is empty.
func ShowExplanations(s console.Streams, all []Explanation, output console.Format) error {
	if output != "" {
		return output.Write(s.Out, all)
	}
	for i, e := range all {
		if i > 0 {
			_, _ = fmt.Fprintln(s.Out)
		}
		_, _ = fmt.Fprintln(s.Out, s.Paint(console.Bold, e.Disruption))
		for _, topic := range e.Topics {
			for j, line := range topic.Lines {
				name := topic.Name
				if j > 0 {
					name = ""
				}
				_, _ = fmt.Fprintf(s.Out, "  %s  %s\n", s.Paint(console.Bold, fmt.Sprintf("%-9s", name)), line)
			}
		}
	}
	return nil
}
