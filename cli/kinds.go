package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/explain"
	"github.com/squall-chaos/squall/cli/manifest"
	"github.com/squall-chaos/squall/cli/view"
)

// listedKind is a kind that list and status know.
type listedKind struct {
	cluster.Resource
	// plural and singular are its names for people, such as crons and cron; names are all
	// names that a command accepts.
	plural, singular string
	names            []string
	rows             func(view.List, []cluster.Object) [][]view.Cell
	show             func(ctx context.Context, c *command, client *cluster.Client, name string, output format) error
}

// listedKinds are the kinds that list and status know, the default first.
func listedKinds() []listedKind {
	all := []listedKind{
		{Resource: cluster.Disruptions, plural: "disruptions", singular: "disruption", names: []string{"dis"}, rows: disruptionRows,
			show: func(ctx context.Context, c *command, client *cluster.Client, name string, output format) error {
				return c.showEither(ctx, client, name, output)
			}},
		{Resource: cluster.Scenarios, plural: "scenarios", singular: "scenario", names: []string{"discenario"}, rows: rowsOf(scenarioRows),
			show: func(ctx context.Context, c *command, client *cluster.Client, name string, output format) error {
				s, err := client.Scenario(ctx, client.Namespace, name)
				if err != nil {
					return err
				}
				return c.showScenario(s, output)
			}},
		{Resource: cluster.Crons, plural: "crons", singular: "cron", names: []string{"dicron"}, rows: rowsOf(view.List.CronRows),
			show: shows((*cluster.Client).Cron, (*command).describeCron)},
		{Resource: cluster.Rollouts, plural: "rollouts", singular: "rollout", names: []string{"diroll"}, rows: rowsOf(view.List.RolloutRows),
			show: shows((*cluster.Client).Rollout, (*command).describeRollout)},
		{Resource: cluster.Policies, plural: "policies", singular: "policy", names: []string{"dipol"}, rows: rowsOf(view.List.PolicyRows),
			show: shows((*cluster.Client).Policy, (*command).describePolicy)},
	}
	for i := range all {
		k := &all[i]
		k.names = append(k.names, k.plural, k.singular, k.Name, strings.ToLower(k.Kind))
		for _, name := range slices.Clone(k.names) {
			k.names = append(k.names, name+"."+v1beta1.GroupVersion.Group)
		}
	}
	return all
}

// kindOf finds a kind by one of its names.
func kindOf(name string) (listedKind, error) {
	var known, plurals []string
	for _, kind := range listedKinds() {
		if slices.Contains(kind.names, strings.ToLower(name)) {
			return kind, nil
		}
		known, plurals = append(known, kind.names...), append(plurals, kind.plural)
	}
	if near := manifest.Nearest(name, known); near != "" {
		return listedKind{}, usage("there is no kind %q: did you mean %s?", name, near)
	}
	return listedKind{}, usage("there is no kind %q; choose one of %s", name, strings.Join(plurals, ", "))
}

// kindAndName reads KIND/NAME; a name alone is that of a disruption.
func kindAndName(text string) (listedKind, string, error) {
	kind, name, both := strings.Cut(text, "/")
	if !both {
		kind, name = cluster.Disruptions.Name, text
	}
	found, err := kindOf(kind)
	if err != nil {
		return found, name, usage("%w; if %s is a namespace, write -n %[2]s %[3]s", err, kind, name)
	}
	return found, name, nil
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
func shows[T cluster.Object](read func(*cluster.Client, context.Context, string, string) (T, error), describe func(*command, T)) func(context.Context, *command, *cluster.Client, string, format) error {
	return func(ctx context.Context, c *command, client *cluster.Client, name string, output format) error {
		found, err := read(client, ctx, client.Namespace, name)
		switch {
		case err != nil:
			return err
		case output == asJSON || output == asYAML:
			return output.write(c.out, found)
		}
		describe(c, found)
		return nil
	}
}

func (c *command) describeCron(cron *v1beta1.DisruptionCron) {
	c.showRepeated("cron/"+cron.Name+" in "+cron.Namespace, explain.Cron(cron, c.now()), view.Cron(cron, c.now()))
}

func (c *command) describeRollout(rollout *v1beta1.DisruptionRollout) {
	c.showRepeated("rollout/"+rollout.Name+" in "+rollout.Namespace, explain.Rollout(rollout), view.Rollout(rollout, c.now()))
}

func (c *command) describePolicy(policy *v1beta1.DisruptionPolicy) {
	_, _ = fmt.Fprintln(c.out, c.paint(bold, "policy/"+policy.Name))
	c.lines(view.Policy(policy))
}

// showRepeated shows the state of an object with runs, then in short what each run does.
func (c *command) showRepeated(title string, does []explain.Topic, state []view.Line) {
	_, _ = fmt.Fprintln(c.out, c.paint(bold, title))
	c.lines(state)
	for _, topic := range does {
		if slices.Contains([]string{"when", "what", "whom", "how long"}, topic.Name) && len(topic.Lines) > 0 {
			c.lines([]view.Line{{Name: topic.Name, Cell: view.Cell{Text: topic.Lines[0]}}})
		}
	}
}
