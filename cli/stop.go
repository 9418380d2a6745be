package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/view"
)

func (c *command) stop() *cobra.Command {
	var flags clusterFlags
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
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			worst := exitOK
			for _, name := range args {
				err := c.stopOne(cmd.Context(), client, name, detach, timeout)
				code, printed := codeOf(err)
				if !printed {
					c.fail(err)
				}
				worst = max(worst, code)
			}
			return silently(worst)
		},
	}
	flags.add(stop)
	stop.Flags().BoolVar(&detach, "detach", false, "do not wait")
	stop.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 5m; 0 is for ever")
	stop.ValidArgsFunction = c.disruptionNames(&flags)
	return stop
}

func (c *command) stopOne(ctx context.Context, client *cluster.Client, name string, detach bool, timeout time.Duration) error {
	d, s, err := either(ctx, client, name)
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
		_, _ = fmt.Fprintf(c.out, "disruption %s/%s is being ended\n", d.Namespace, d.Name)
		return nil
	}
	return c.awaitGone(ctx, client, d.Ref(), timeout)
}

// awaitGone waits until a disruption that is being deleted is gone, or stuck.
func (c *command) awaitGone(ctx context.Context, client *cluster.Client, ref v1beta1.DisruptionRef, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	began := time.Now()
	p := c.progress()
	var last *v1beta1.Disruption
	stuck := false
	err := client.FollowDisruption(ctx, ref, cluster.Watcher[v1beta1.Disruption]{
		Seen: func(d *v1beta1.Disruption) bool {
			if d == nil {
				return true
			}
			last, stuck = d, view.Stuck(d)
			text := fmt.Sprintf("%s/%s: %s", d.Namespace, d.Name, view.Phase(d).Text)
			p.show(text, fmt.Sprintf("%s, %s", text, time.Since(began).Round(time.Second)))
			return stuck
		},
		Away: func(err error) { p.note(client.Unreachable(err).Error()) },
	})
	p.end()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("disruption %s/%s is not gone yet; the clean-up continues; see squall -n %[1]s status %[2]s", ref.Namespace, ref.Name)
	case err != nil:
		return err
	case stuck:
		c.describe(last, false)
		return silently(exitStuck)
	}
	_, _ = fmt.Fprintf(c.out, "%s of disruption %s/%s, after %s\n", c.paint(green, "nothing is left"), ref.Namespace, ref.Name, time.Since(began).Round(100*time.Millisecond))
	return nil
}
