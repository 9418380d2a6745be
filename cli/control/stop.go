// Package control has the commands by which a person changes what runs: stop, approve, resume,
// estop and uninstall.
package control

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/view"
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// Stop is squall stop.
func Stop(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var detach bool
	var timeout time.Duration
	stop := &cobra.Command{
		Use:   "stop NAME...",
		Short: "End a disruption or scenario and wait until it is cleaned up",
		Long: "Delete the Disruption, or the DisruptionScenario with its disruptions, and wait\n" +
			"until the workflow has cleaned up. Ctrl-C stops waiting, not the clean-up.\n" +
			"scenario/NAME selects the scenario if a disruption has the same name. The exit\n" +
			"code is 6 if the disruption is stuck.",
		Example: "  squall stop lossy\n  squall stop lossy slow-disk --detach",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			worst := console.ExitOK
			for _, name := range args {
				err := c.stopOne(cmd.Context(), client, name, detach, timeout)
				code, printed := console.CodeOf(err)
				if !printed {
					c.Fail(err)
				}
				worst = max(worst, code)
			}
			return console.Silently(worst)
		},
	}
	flags.Add(stop)
	stop.Flags().BoolVar(&detach, "detach", false, "do not wait")
	stop.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 5m; 0 is for ever")
	stop.ValidArgsFunction = flags.DisruptionNames(c.Streams)
	return stop
}

func (c call) stopOne(ctx context.Context, client *cluster.Client, name string, detach bool, timeout time.Duration) error {
	d, s, err := console.DisruptionOrScenario(ctx, client, name)
	if err != nil {
		return err
	}
	if s != nil {
		return c.stopScenario(ctx, client, s, detach, timeout)
	}
	if err := client.Delete(ctx, d.Ref()); err != nil {
		return err
	}
	if detach {
		_, _ = fmt.Fprintf(c.Out, "disruption %s/%s is being ended\n", d.Namespace, d.Name)
		return nil
	}
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	return AwaitGone(ctx, c.Streams, client, d.Ref())
}

// bounded is ctx with the time of --timeout; 0 is no limit.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// AwaitGone waits until a disruption that is being deleted is gone, or stuck.
func AwaitGone(ctx context.Context, s console.Streams, client *cluster.Client, ref v1beta1.DisruptionRef) error {
	began := time.Now()
	p := s.Progress()
	var last *v1beta1.Disruption
	stuck := false
	err := client.FollowDisruption(ctx, ref, cluster.Watcher[v1beta1.Disruption]{
		Seen: func(d *v1beta1.Disruption) bool {
			if d == nil {
				return true
			}
			last, stuck = d, view.Stuck(d)
			text := fmt.Sprintf("%s/%s: %s", d.Namespace, d.Name, view.Phase(d).Text)
			p.Show(text, fmt.Sprintf("%s, %s", text, time.Since(began).Round(time.Second)))
			return stuck
		},
		Away: func(err error) { p.Note(client.Unreachable(err).Error()) },
	})
	p.End()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("disruption %s/%s is not gone yet; the clean-up continues; see squall -n %[1]s status %[2]s", ref.Namespace, ref.Name)
	case err != nil:
		return err
	case stuck:
		s.Describe(last, false)
		return console.Silently(console.ExitStuck)
	}
	_, _ = fmt.Fprintf(s.Out, "%s of disruption %s/%s, after %s\n", s.Paint(console.Green, "nothing is left"), ref.Namespace, ref.Name, time.Since(began).Round(100*time.Millisecond))
	return nil
}
