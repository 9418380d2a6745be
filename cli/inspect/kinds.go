package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/view"
)

// presentation is how list and status show a kind.
type presentation struct {
	rows func(view.List, []cluster.Object) [][]view.Cell
	show func(ctx context.Context, c call, client *cluster.Client, name string, output console.Format) error
}

// presentationOf is that of one of console.Kinds.
func presentationOf(kind console.Kind) presentation {
	switch kind.Name {
	case cluster.Scenarios.Name:
		return presentation{rowsOf(scenarioRows), showNamedScenario}
	case cluster.Crons.Name:
		return presentation{rowsOf(view.List.CronRows), shows((*cluster.Client).Cron, call.describeCron)}
	case cluster.Rollouts.Name:
		return presentation{rowsOf(view.List.RolloutRows), shows((*cluster.Client).Rollout, call.describeRollout)}
	case cluster.Policies.Name:
		return presentation{rowsOf(view.List.PolicyRows), shows((*cluster.Client).Policy, call.describePolicy)}
	}
	return presentation{disruptionRows, showEither}
}

func showNamedScenario(ctx context.Context, c call, client *cluster.Client, name string, output console.Format) error {
	s, err := client.Scenario(ctx, client.Namespace, name)
	if err != nil {
		return err
	}
	return c.showScenario(s, output)
}

// rowsOf makes rows of a type be rows of objects.
func rowsOf[T cluster.Object](rows func(view.List, []T) [][]view.Cell) func(view.List, []cluster.Object) [][]view.Cell {
	return func(l view.List, objects []cluster.Object) [][]view.Cell {
		var typed []T
		for _, object := range objects {
			if one, ok := object.(T); ok {
				typed = append(typed, one)
			}
		}
		return rows(l, typed)
	}
}

func disruptionRows(l view.List, objects []cluster.Object) [][]view.Cell {
	return rowsOf(func(l view.List, all []*v1beta1.Disruption) [][]view.Cell { return l.Rows(values(all)) })(l, objects)
}

func scenarioRows(l view.List, all []*v1beta1.DisruptionScenario) [][]view.Cell {
	return l.ScenarioRows(values(all))
}

func values[T any](pointers []*T) []T {
	var all []T
	for _, p := range pointers {
		all = append(all, *p)
	}
	return all
}

// shows returns the show function of a kind, from its read and describe functions.
func shows[T cluster.Object](read func(*cluster.Client, context.Context, string, string) (T, error), describe func(call, T)) func(context.Context, call, *cluster.Client, string, console.Format) error {
	return func(ctx context.Context, c call, client *cluster.Client, name string, output console.Format) error {
		found, err := read(client, ctx, client.Namespace, name)
		switch {
		case err != nil:
			return err
		case output == console.JSON || output == console.YAML:
			return output.Write(c.Out, found)
		}
		describe(c, found)
		return nil
	}
}

func (c call) describeCron(cron *v1beta1.DisruptionCron) {
	c.showRepeated("cron/"+cron.Name+" in "+cron.Namespace, explain.Cron(cron, c.Now()), view.Cron(cron, c.Now()))
}

func (c call) describeRollout(rollout *v1beta1.DisruptionRollout) {
	c.showRepeated("rollout/"+rollout.Name+" in "+rollout.Namespace, explain.Rollout(rollout), view.Rollout(rollout, c.Now()))
}

func (c call) describePolicy(policy *v1beta1.DisruptionPolicy) {
	_, _ = fmt.Fprintln(c.Out, c.Paint(console.Bold, "policy/"+policy.Name))
	c.Lines(view.Policy(policy))
}

// showRepeated shows the state of an object with runs, then in short what each run does.
func (c call) showRepeated(title string, does []explain.Topic, state []view.Line) {
	_, _ = fmt.Fprintln(c.Out, c.Paint(console.Bold, title))
	c.Lines(state)
	for _, topic := range does {
		if slices.Contains([]string{"when", "what", "whom", "how long"}, topic.Name) && len(topic.Lines) > 0 {
			c.Lines([]view.Line{{Name: topic.Name, Cell: view.Cell{Text: topic.Lines[0]}}})
		}
	}
}
