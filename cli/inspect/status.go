package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/view"
)

// Status is squall status.
func Status(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var output console.Format
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
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			kind, name, err := console.KindAndName(args[0])
			if err != nil {
				return err
			}
			return presentationOf(kind).show(cmd.Context(), c, client, name, output)
		},
	}
	flags.Add(status)
	flags.AddEverywhere(status)
	output.Flag(status, "json", "yaml", "wide")
	status.ValidArgsFunction = flags.ObjectNames(c.Streams)
	return status
}

// showEither shows the disruption or the scenario of a name.
func showEither(ctx context.Context, c call, client *cluster.Client, name string, output console.Format) error {
	d, s, err := console.DisruptionOrScenario(ctx, client, name)
	switch {
	case err != nil:
		return err
	case s != nil:
		return c.showScenario(s, output)
	case output == console.JSON || output == console.YAML:
		return output.Write(c.Out, d)
	}
	c.Describe(d, output == console.Wide)
	return nil
}

func (c call) showScenario(s *v1beta1.DisruptionScenario, output console.Format) error {
	if output == console.JSON || output == console.YAML {
		return output.Write(c.Out, s)
	}
	_, _ = fmt.Fprintf(c.Out, "%s\n", c.Paint(console.Bold, console.ScenarioPrefix+s.Name+" in "+s.Namespace))
	c.Lines(view.Scenario(s, c.Now()))
	return nil
}

// overview is what is in force and what has not ended.
type overview struct {
	// EmergencyStops are those in force; nil if the user may not list them.
	EmergencyStops []v1beta1.EmergencyStop `json:"emergencyStops"`
	Disruptions    []v1beta1.Disruption    `json:"disruptions"`
}

// stopsUnread is the last line for a user without the right to read emergency stops.
const stopsUnread = "unknown whether an emergency stop is in force: you may not list emergencystops.chaos.squall.dev; ask an administrator for the right"

func (c call) overview(cmd *cobra.Command, flags *console.ClusterFlags, output console.Format) error {
	client, err := flags.Connect(c.Streams)
	if err != nil {
		return err
	}
	found, err := client.Disruptions(cmd.Context(), flags.Namespace(client))
	if err != nil {
		return err
	}
	stops, err := client.EmergencyStops(cmd.Context())
	unread := apierrors.IsForbidden(err)
	if err != nil && !unread {
		return err
	}
	if unread {
		defer func() { _, _ = fmt.Fprintln(c.Err, c.PaintErr(console.Yellow, stopsUnread)) }()
	}
	o := overview{stops.Items, slices.DeleteFunc(found.Items, func(d v1beta1.Disruption) bool { return d.Status.Phase.Over() })}
	if output == console.JSON || output == console.YAML {
		return output.Write(c.Out, o)
	}
	for i := range stops.Items {
		c.DescribeStop(&stops.Items[i])
	}
	if len(o.Disruptions) == 0 {
		_, _ = fmt.Fprintln(c.Out, "nothing is disrupted")
		return nil
	}
	list := view.List{Now: time.Now(), Namespaces: flags.Everywhere, Wide: output == console.Wide}
	_, _ = fmt.Fprint(c.Out, view.Grid(list.Rows(o.Disruptions), c.Tone))
	return nil
}
