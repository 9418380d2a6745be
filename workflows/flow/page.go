package flow

import (
	"fmt"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/steadystate"
)

// MaxNamed bounds what a result names; the log names all.
const MaxNamed = 50

// Clock is a time as pages show it.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Number is how many there are of what noun names.
func Number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OneLine makes text fit into an item of a list.
func OneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// ProbeList is the section about the probes. It is a list because Temporal's web
// interface draws tables without space between the columns.
func ProbeList(spec v1beta1.SteadyState, course *steadystate.Course, over bool) []string {
	b := []string{"", "### Steady state", "", course.Summary(spec, over), ""}
	for _, row := range course.Table(spec) {
		line := fmt.Sprintf("- **%s**: %s", row[0], row[1])
		if row[5] != "" {
			line += " (" + row[5] + ")"
		}
		for i, phase := range []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeDuring, v1beta1.ProbeAfter} {
			if finding := row[2+i]; finding != "" {
				line += fmt.Sprintf("; %s: %s", phase, finding)
			}
		}
		b = append(b, OneLine(line))
	}
	return b
}
