package scenario

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// details is the page a person reads in the Temporal UI.
func (s *steps) details() string {
	page := stepDetails(s.ref, s.status)
	if s.prober != nil {
		page += "\n" + strings.Join(flow.ProbeList(s.prober.Spec, s.prober.Course, s.status.Phase.Over()), "\n")
	}
	return page
}

// stepDetails is the part of that page about the steps: markdown.
func stepDetails(ref contract.ScenarioRef, status v1beta1.DisruptionScenarioStatus) string {
	b := []string{fmt.Sprintf("## %s: %s", status.Phase, ref), "", flow.OneLine(status.Message), ""}
	if !status.Phase.Over() {
		b = append(b, fmt.Sprintf("`kubectl -n %s describe discenario %s` shows all of it.", ref.Namespace, ref.Name), "")
	}
	for _, step := range status.Steps {
		var runs []string
		for _, run := range step.Disruptions {
			runs = append(runs, flow.OneLine(strings.TrimSpace(run.Name+" "+run.Ending)))
		}
		line := fmt.Sprintf("- **%s**: %s", step.Name, step.Phase)
		if step.Verdict != "" {
			line += ", " + string(step.Verdict)
		}
		if len(runs) > 0 {
			line += " (" + strings.Join(runs, ", ") + ")"
		}
		b = append(b, line)
	}
	if status.Phase == v1beta1.ScenarioSuspended {
		b = append(b, "", "To approve: *More Actions*, *Send an Update*, `approve`, and paste:", "",
			"```json", "{", fmt.Sprintf(`  "step": %q,`, status.Step), `  "by": "your name"`, "}", "```")
	}
	return strings.Join(b, "\n")
}
