package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/view"
)

func (c *command) list() *cobra.Command {
	var flags clusterFlags
	var output format
	var stuck, scenarios, noHeaders bool
	var selector string
	list := &cobra.Command{
		Use:   "list",
		Short: "List disruptions or scenarios, stuck ones first",
		Example: "  squall list\n  squall list -A --stuck\n  squall list --scenarios -o wide\n  squall list -l team=shop --no-headers\n" +
			"  squall list -A -o json | jq -r '.items[].metadata.name'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if stuck && scenarios {
				return usage("--stuck is about disruptions: leave out --scenarios, or name one of the two")
			}
			chosen, err := labels.Parse(selector)
			if err != nil {
				return usage("-l %s: %v; write it as in kubectl, such as -l team=shop", selector, err)
			}
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			table := view.List{Now: time.Now(), Namespaces: flags.everywhere, Wide: output == asWide, NoHeaders: noHeaders}
			if scenarios {
				return c.listScenarios(cmd.Context(), client, &flags, chosen, table, output)
			}
			found, err := client.Disruptions(cmd.Context(), flags.namespace(client))
			if err != nil {
				return err
			}
			found.Items = slices.DeleteFunc(found.Items, func(d v1beta1.Disruption) bool {
				return !chosen.Matches(labels.Set(d.Labels)) || stuck && !view.Stuck(&d)
			})
			if output == asJSON || output == asYAML {
				return output.write(c.out, found)
			}
			if len(found.Items) == 0 {
				what := "no disruption "
				if stuck {
					what = "no stuck disruption "
				}
				_, _ = fmt.Fprintln(c.err, what+flags.where(client))
				return nil
			}
			c.table(table, found.Items)
			return nil
		},
	}
	flags.add(list)
	flags.addEverywhere(list)
	list.Flags().BoolVar(&stuck, "stuck", false, "only those that wait for a person's decision")
	list.Flags().BoolVar(&scenarios, "scenarios", false, "scenarios in place of disruptions")
	list.Flags().StringVarP(&selector, "selector", "l", "", "only those with these labels, such as team=shop")
	list.Flags().BoolVar(&noHeaders, "no-headers", false, "leave out the header of the table")
	output.flag(list, "json", "yaml", "wide")
	return list
}

func (c *command) table(list view.List, disruptions []v1beta1.Disruption) {
	_, _ = fmt.Fprint(c.out, view.Grid(list.Body(list.Rows(disruptions)), c.tone))
}

// tone is how a text of package view looks.
func (s streams) tone(tone view.Tone, text string) string {
	switch tone {
	case view.Good:
		return s.paint(green, text)
	case view.Careful:
		return s.paint(yellow, text)
	case view.Bad:
		return s.paint(red, text)
	case view.Quiet:
		return s.paint(dim, text)
	}
	return text
}

func (c *command) status() *cobra.Command {
	var flags clusterFlags
	var output format
	status := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the state of one disruption or scenario, or of all",
		Long: "Show everything about a disruption: phase, targets, effect, problems and a hint\n" +
			"for each problem. For a scenario, show its steps; scenario/NAME selects the\n" +
			"scenario if a disruption has the same name. Without a name, show whether an\n" +
			"emergency stop is in force and list what has not ended.",
		Example: "  squall status lossy\n  squall status shop-game-day\n  squall status lossy -o wide    # all targets\n  squall status -A",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.overview(cmd, &flags, output)
			}
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			d, s, err := either(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			if s != nil {
				return c.showScenario(s, output)
			}
			if output == asJSON || output == asYAML {
				return output.write(c.out, d)
			}
			c.describe(d, output == asWide)
			return nil
		},
	}
	flags.add(status)
	flags.addEverywhere(status)
	output.flag(status, "json", "yaml", "wide")
	status.ValidArgsFunction = c.disruptionNames(&flags)
	return status
}

func (c *command) describe(d *v1beta1.Disruption, everything bool) {
	_, _ = fmt.Fprintf(c.out, "%s\n", c.paint(bold, d.Namespace+"/"+d.Name))
	c.lines(view.Disruption(d, time.Now(), everything))
}

// overview is what is going on.
type overview struct {
	// EmergencyStops are those in force; nil if the user may not list them.
	EmergencyStops []v1beta1.EmergencyStop `json:"emergencyStops"`
	Disruptions    []v1beta1.Disruption    `json:"disruptions"`
}

// stopsUnread is the last line for a user without the right to read emergency stops.
const stopsUnread = "unknown whether an emergency stop is in force: you may not list emergencystops.chaos.squall.dev; ask an administrator for the right"

func (c *command) overview(cmd *cobra.Command, flags *clusterFlags, output format) error {
	client, err := flags.connect(c)
	if err != nil {
		return err
	}
	found, err := client.Disruptions(cmd.Context(), flags.namespace(client))
	if err != nil {
		return err
	}
	stops, err := client.EmergencyStops(cmd.Context())
	unread := apierrors.IsForbidden(err)
	if err != nil && !unread {
		return err
	}
	if unread {
		defer func() { _, _ = fmt.Fprintln(c.err, c.paintErr(yellow, stopsUnread)) }()
	}
	o := overview{stops.Items, slices.DeleteFunc(found.Items, func(d v1beta1.Disruption) bool { return d.Status.Phase.Over() })}
	if output == asJSON || output == asYAML {
		return output.write(c.out, o)
	}
	for i := range stops.Items {
		c.sayStop(&stops.Items[i])
	}
	if len(o.Disruptions) == 0 {
		_, _ = fmt.Fprintln(c.out, "nothing is disrupted")
		return nil
	}
	c.table(view.List{Now: time.Now(), Namespaces: flags.everywhere, Wide: output == asWide}, o.Disruptions)
	return nil
}
