package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
)

// stopFlags are the flags of estop.
type stopFlags struct {
	console.ClusterFlags
	name, reason string
	detach       bool
	timeout      time.Duration
	output       console.Format
}

// EmergencyStop is squall estop.
func EmergencyStop(s console.Streams) *cobra.Command {
	c := call{s}
	var flags stopFlags
	estop := &cobra.Command{
		Use:   "estop [on|off]",
		Short: "Stop all disruptions in the cluster, or allow them again",
		Long: "on creates an EmergencyStop, which ends all disruptions and blocks new ones, and\n" +
			"waits until everything is cleaned up. off deletes it. Without an argument the\n" +
			"command shows whether an EmergencyStop is in force; the exit code is 0 in both\n" +
			"cases.",
		Example:   "  squall estop on --reason 'payment is down, incident 1234'\n  squall estop\n  squall estop off",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"on", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			switch strings.Join(args, "") {
			case "on":
				return c.stopAll(cmd.Context(), client, flags)
			case "off":
				return c.allowAgain(cmd, client, flags)
			}
			return c.showStops(cmd.Context(), client, flags.output)
		},
	}
	flags.Add(estop)
	estop.Flags().StringVar(&flags.name, "name", "all", "name of the EmergencyStop; with off only this one is deleted")
	estop.Flags().StringVar(&flags.reason, "reason", "", "reason that users of stopped and refused disruptions see")
	estop.Flags().BoolVar(&flags.detach, "detach", false, "do not wait until the cluster is clean")
	estop.Flags().DurationVar(&flags.timeout, "timeout", 0, "how long to wait at most, such as 5m; 0 is for ever")
	flags.output.Flag(estop, "json", "yaml")
	return estop
}

func (c call) stopAll(ctx context.Context, client *cluster.Client, flags stopFlags) error {
	stop := &v1beta1.EmergencyStop{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "EmergencyStop"},
		ObjectMeta: metav1.ObjectMeta{Name: flags.name}, Spec: v1beta1.EmergencyStopSpec{Reason: flags.reason},
	}
	err := client.CreateEmergencyStop(ctx, stop)
	switch {
	case apierrors.IsAlreadyExists(err):
		_, _ = fmt.Fprintf(c.Err, "emergency stop %s is in force already\n", flags.name)
	case err != nil:
		return err
	}
	if flags.detach {
		_, _ = fmt.Fprintf(c.Out, "emergency stop %s is in force\n", flags.name)
		return nil
	}
	ctx, cancel := bounded(ctx, flags.timeout)
	defer cancel()
	return c.awaitClean(ctx, client, flags.name)
}

func (c call) awaitClean(ctx context.Context, client *cluster.Client, name string) error {
	p := c.Progress()
	clean := false
	err := client.FollowEmergencyStop(ctx, name, cluster.Watcher[v1beta1.EmergencyStop]{
		Seen: func(s *v1beta1.EmergencyStop) bool {
			if s == nil {
				return true
			}
			clean = meta.IsStatusConditionTrue(s.Status.Conditions, v1beta1.ConditionClean)
			text := fmt.Sprintf("%d stopped, %d still being cleaned, %d injectors", s.Status.Stopped, s.Status.Cleaning, s.Status.Injectors)
			p.Show(text, text)
			return clean
		},
		Away: func(err error) { p.Note(client.Unreachable(err).Error()) },
	})
	p.End()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("emergency stop %s is in force, and the cluster is not clean yet; see squall estop and squall list -A --stuck", name)
	case err != nil:
		return err
	case !clean:
		return fmt.Errorf("emergency stop %s was deleted before the cluster was clean", name)
	}
	_, _ = fmt.Fprintf(c.Out, "%s; nothing new begins until squall estop off\n", c.Paint(console.Green, "the cluster is clean"))
	return nil
}

// allowAgain deletes all stops, or the one named by --name.
func (c call) allowAgain(cmd *cobra.Command, client *cluster.Client, flags stopFlags) error {
	stops, err := client.EmergencyStops(cmd.Context())
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("name") {
		stops.Items = slices.DeleteFunc(stops.Items, func(s v1beta1.EmergencyStop) bool { return s.Name != flags.name })
	}
	if len(stops.Items) == 0 {
		_, _ = fmt.Fprintln(c.Out, "no emergency stop is in force")
		return nil
	}
	for _, s := range stops.Items {
		if err := client.DeleteEmergencyStop(cmd.Context(), s.Name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, _ = fmt.Fprintf(c.Out, "emergency stop %s is called off; what it stopped stays stopped\n", s.Name)
	}
	return nil
}

func (c call) showStops(ctx context.Context, client *cluster.Client, output console.Format) error {
	stops, err := client.EmergencyStops(ctx)
	if err != nil {
		return err
	}
	if output != "" {
		return output.Write(c.Out, stops)
	}
	if len(stops.Items) == 0 {
		_, _ = fmt.Fprintln(c.Out, "no emergency stop is in force")
	}
	for i := range stops.Items {
		c.DescribeStop(&stops.Items[i])
	}
	return nil
}
