package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/manifest"
)

// validated is the result of one document.
type validated struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Document string   `json:"document,omitempty"`
	Valid    bool     `json:"valid"`
	Skipped  bool     `json:"skipped,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

func (c *command) validate() *cobra.Command {
	var output format
	var chaosNamespace string
	validate := &cobra.Command{
		Use:   "validate FILE... | -",
		Short: "Check manifests without a cluster",
		Long: "Check Disruptions, DisruptionCrons, DisruptionRollouts, DisruptionScenarios,\n" +
			"DisruptionPolicies and EmergencyStops by the schema of the API server and the\n" +
			"rules of the workflow. Unknown fields are errors, with a suggestion. Documents\n" +
			"of other API groups are skipped. The exit code is 1 if anything is wrong or\n" +
			"nothing is left to check.",
		Example: "  squall validate lossy.yaml\n  squall validate -R deploy/samples\n  helm template . | squall validate -o json -",
	}
	takesFiles(validate, 0, func(_ *cobra.Command, files []string) error {
		documents, err := c.read(files)
		if err != nil {
			return err
		}
		manifest.Check(documents, manifest.Rules{Now: time.Now(), ChaosNamespace: chaosNamespace})
		return c.showValidated(c.out, documents, output)
	})
	output.flag(validate, "json", "yaml")
	chaosNamespaceFlag(validate, &chaosNamespace)
	return validate
}

func (c *command) showValidated(out io.Writer, documents []manifest.Document, output format) error {
	all, checked := true, 0
	shown := []validated{}
	for _, d := range documents {
		v := validated{File: d.File, Line: d.Line, Document: d.String(), Skipped: d.Foreign, Problems: d.Problems, Valid: len(d.Problems) == 0 && !d.Foreign}
		shown = append(shown, v)
		all = all && len(d.Problems) == 0
		if !d.Foreign {
			checked++
		}
	}
	if output != "" {
		if err := output.write(out, shown); err != nil {
			return err
		}
	} else {
		for _, v := range shown {
			c.printValidated(out, v)
		}
	}
	if checked == 0 {
		return fmt.Errorf("there is no Disruption, DisruptionCron, DisruptionRollout, DisruptionScenario or EmergencyStop in it")
	}
	if !all {
		return silently(exitError)
	}
	return nil
}

func (c *command) printValidated(out io.Writer, v validated) {
	where := fmt.Sprintf("%s:%d", v.File, v.Line)
	if v.Document != "" {
		where += ": " + v.Document
	}
	switch {
	case v.Skipped:
		_, _ = fmt.Fprintf(out, "%s: %s\n", where, c.paint(dim, "skipped, it is not Squall's"))
	case v.Valid:
		_, _ = fmt.Fprintf(out, "%s: %s\n", where, c.paint(green, "valid"))
	default:
		_, _ = fmt.Fprintf(out, "%s: %s\n", where, c.paint(red, "not valid"))
		for _, problem := range v.Problems {
			_, _ = fmt.Fprintf(out, "  %s\n", problem)
		}
	}
}
