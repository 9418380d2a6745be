// Package check has the commands that check manifests without a cluster, validate and
// explain, and reads the one object of a file for the commands that create it.
package check

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/manifest"
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// validated is the result of one document.
type validated struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Document string   `json:"document,omitempty"`
	Valid    bool     `json:"valid"`
	Skipped  bool     `json:"skipped,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// Validate is squall validate.
func Validate(s console.Streams) *cobra.Command {
	c := call{s}
	var output console.Format
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
	console.TakesFiles(validate, 0, func(_ *cobra.Command, files []string) error {
		documents, err := c.Read(files)
		if err != nil {
			return err
		}
		manifest.Check(documents, manifest.Rules{Now: time.Now(), ChaosNamespace: chaosNamespace})
		return c.showValidated(c.Out, documents, output)
	})
	output.Flag(validate, "json", "yaml")
	console.ChaosNamespaceFlag(validate, &chaosNamespace)
	return validate
}

func (c call) showValidated(out io.Writer, documents []manifest.Document, output console.Format) error {
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
		if err := output.Write(out, shown); err != nil {
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
		return console.Silently(console.ExitError)
	}
	return nil
}

func (c call) printValidated(out io.Writer, v validated) {
	where := fmt.Sprintf("%s:%d", v.File, v.Line)
	if v.Document != "" {
		where += ": " + v.Document
	}
	switch {
	case v.Skipped:
		_, _ = fmt.Fprintf(out, "%s: %s\n", where, c.Paint(console.Dim, "skipped, it is not Squall's"))
	case v.Valid:
		_, _ = fmt.Fprintf(out, "%s: %s\n", where, c.Paint(console.Green, "valid"))
	default:
		_, _ = fmt.Fprintf(out, "%s: %s\n", where, c.Paint(console.Red, "not valid"))
		for _, problem := range v.Problems {
			_, _ = fmt.Fprintf(out, "  %s\n", problem)
		}
	}
}
