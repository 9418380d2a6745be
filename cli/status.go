package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/view"
)

// tone paints a text of package view.
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
		Use:   "status [NAME | KIND/NAME]",
		Short: "Show the state of one object, or of all disruptions",
		Long: "Show everything about a disruption: phase, targets, effect, problems and a hint\n" +
			"for each problem. A name without a disruption is that of a scenario, of which\n" +
			"the steps are shown. KIND selects another object: scenario, cron, rollout or\n" +
			"policy. Without a name, show whether an emergency stop is in force and list what\n" +
			"has not ended.",
		Example: "  squall status lossy\n  squall status shop-game-day\n  squall status cron/noon\n  squall status lossy -o wide    # all targets\n  squall status -A",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.overview(cmd, &flags, output)
			}
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			kind, name, err := kindAndName(args[0])
			if err != nil {
				return err
			}
			return kind.show(cmd.Context(), c, client, name, output)
		},
	}
	flags.add(status)
	flags.addEverywhere(status)
	output.flag(status, "json", "yaml", "wide")
	status.ValidArgsFunction = c.objectNames(&flags)
	return status
}

// showEither shows the disruption or the scenario of a name.
func (c *command) showEither(ctx context.Context, client *cluster.Client, name string, output format) error {
	d, s, err := either(ctx, client, name)
	switch {
	case err != nil:
		return err
	case s != nil:
		return c.showScenario(s, output)
	case output == asJSON || output == asYAML:
		return output.write(c.out, d)
	}
	c.describe(d, output == asWide)
	return nil
}

func (c *command) describe(d *v1beta1.Disruption, everything bool) {
	_, _ = fmt.Fprintf(c.out, "%s\n", c.paint(bold, d.Namespace+"/"+d.Name))
	c.lines(view.Disruption(d, time.Now(), everything))
}

// overview is what is in force and what has not ended.
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
		c.printStop(&stops.Items[i])
	}
	if len(o.Disruptions) == 0 {
		_, _ = fmt.Fprintln(c.out, "nothing is disrupted")
		return nil
	}
	list := view.List{Now: time.Now(), Namespaces: flags.everywhere, Wide: output == asWide}
	_, _ = fmt.Fprint(c.out, view.Grid(list.Rows(o.Disruptions), c.tone))
	return nil
}
