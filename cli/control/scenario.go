package control

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/view"
)

// stopScenario deletes a scenario and waits until it is gone, or one of its disruptions stuck.
func (c call) stopScenario(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario, detach bool, timeout time.Duration) error {
	if err := client.DeleteScenario(ctx, s); err != nil {
		return err
	}
	if detach {
		_, _ = fmt.Fprintf(c.Out, "scenario %s/%s is being ended\n", s.Namespace, s.Name)
		return nil
	}
	ctx, cancel := bounded(ctx, timeout)
	defer cancel()
	p := c.Progress()
	for {
		left, stuck, gone, err := leftOfScenario(ctx, client, s)
		switch {
		case ctx.Err() != nil:
			p.End()
			return fmt.Errorf("scenario %s/%s is not gone yet; the clean-up continues; see squall -n %[1]s status %[3]s%[2]s", s.Namespace, s.Name, console.ScenarioPrefix)
		case err != nil:
			p.End()
			return err
		case gone && left == 0:
			p.End()
			_, _ = fmt.Fprintf(c.Out, "%s of scenario %s/%s\n", c.Paint(console.Green, "nothing is left"), s.Namespace, s.Name)
			return nil
		case left > 0 && left == len(stuck):
			p.End()
			for i := range stuck {
				c.Describe(&stuck[i], false)
			}
			return console.Silently(console.ExitStuck)
		}
		text := fmt.Sprintf("%s/%s: %d disruptions are being cleaned", s.Namespace, s.Name, left)
		p.Show(text, text)
		select {
		case <-ctx.Done():
		case <-time.After(console.Refresh):
		}
	}
}

// leftOfScenario counts the disruptions that are not over, with those that wait for a person.
func leftOfScenario(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario) (left int, stuck []v1beta1.Disruption, gone bool, err error) {
	now, err := client.Scenario(ctx, s.Namespace, s.Name)
	gone = cluster.Gone(err) || err == nil && now.UID != s.UID
	if err != nil && !gone {
		return 0, nil, false, err
	}
	owned, err := client.DisruptionsOf(ctx, s)
	if err != nil {
		return 0, nil, false, err
	}
	left, stuck = view.Left(owned)
	return left, stuck, gone, nil
}
