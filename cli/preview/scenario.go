package preview

import (
	"context"
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/plan"
)

// ScenarioPlan is what a scenario would do.
type ScenarioPlan struct {
	Scenario string     `json:"scenario"`
	Steps    []StepPlan `json:"steps"`
	// Refusals are why the scenario itself would be refused.
	Refusals []string `json:"refusals,omitempty"`
}

// StepPlan is what one step would do if it ran now.
type StepPlan struct {
	Name string `json:"name"`
	// When is the condition of the step; nil if it always runs.
	When        *v1beta1.ScenarioCondition `json:"when,omitempty"`
	Wait        string                     `json:"wait,omitempty"`
	Approval    string                     `json:"approval,omitempty"`
	Disruptions []plan.Plan                `json:"disruptions,omitempty"`
}

// planOfScenario plans each disruption as if it were created now, alone.
func planOfScenario(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario, known workerSettings) (ScenarioPlan, error) {
	p := ScenarioPlan{Scenario: s.Namespace + "/" + s.Name}
	if err := client.TryScenario(ctx, s); err != nil {
		p.Refusals = append(p.Refusals, "the API server: "+err.Error())
	}
	for i, step := range s.Spec.Steps {
		planned := StepPlan{Name: step.Name, When: step.When}
		switch {
		case step.Wait != nil:
			planned.Wait = step.Wait.String()
		case step.Approval != nil:
			planned.Approval = step.Approval.Message
		}
		for j, one := range step.Disruptions {
			d := &v1beta1.Disruption{Spec: *one.Template.DeepCopy()}
			d.APIVersion, d.Kind = v1beta1.GroupVersion.String(), "Disruption"
			d.Namespace, d.Name = s.Namespace, s.ChildName(i, j)
			of, err := planOf(ctx, client, d, known)
			if err != nil {
				return p, err
			}
			planned.Disruptions = append(planned.Disruptions, of)
		}
		if why := step.Crowded(candidateNames(step, planned.Disruptions)); why != "" {
			p.Refusals = append(p.Refusals, why)
		}
		p.Steps = append(p.Steps, planned)
	}
	return p, nil
}

// candidateNames are the names of the candidates of each disruption; empty for a disruption
// whose candidates the user may not list.
func candidateNames(step v1beta1.ScenarioStep, plans []plan.Plan) []map[string]bool {
	all := make([]map[string]bool, len(plans))
	for i, p := range plans {
		all[i] = map[string]bool{}
		for _, candidate := range p.Candidates {
			all[i][string(step.Disruptions[i].Template.Level)+"/"+candidate.Name] = true
		}
	}
	return all
}

// refused is true when the scenario, or one of its disruptions, would be refused now.
func (p ScenarioPlan) refused() bool {
	refused := len(p.Refusals) > 0
	for _, step := range p.Steps {
		for _, d := range step.Disruptions {
			refused = refused || len(d.Refusals) > 0
		}
	}
	return refused
}

func (c call) showScenarioPlan(p ScenarioPlan, output console.Format) error {
	if output == console.JSON || output == console.YAML {
		if err := output.Write(c.Out, p); err != nil {
			return err
		}
	} else {
		_, _ = fmt.Fprintln(c.Out, c.Paint(console.Bold, p.Scenario))
		for _, refusal := range p.Refusals {
			_, _ = fmt.Fprintf(c.Out, "  %s  %s\n", c.Paint(console.Bold, "refused  "), c.Paint(console.Red, refusal))
		}
		for i, step := range p.Steps {
			c.showStepPlan(i+1, step, output == console.Wide)
		}
	}
	if p.refused() {
		return console.Silently(console.ExitError)
	}
	return nil
}

func (c call) showStepPlan(number int, step StepPlan, everything bool) {
	text := explain.When(step.When)
	switch {
	case step.Wait != "":
		text += "waits for " + step.Wait
	case step.Approval != "":
		text += "waits for a person: " + step.Approval
	}
	if text = strings.TrimSuffix(text, ": "); text != "" {
		text = ": " + text
	}
	_, _ = fmt.Fprintf(c.Out, "%s%s\n", c.Paint(console.Bold, fmt.Sprintf("step %d, %s", number, step.Name)), text)
	for _, d := range step.Disruptions {
		_, _ = fmt.Fprintln(c.Out, "  "+c.Paint(console.Bold, d.Disruption))
		c.Lines(d.Lines(everything))
	}
}
