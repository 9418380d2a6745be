package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/manifest"
	"github.com/squall-chaos/squall/cli/view"
)

// scenarioPrefix before a name selects the scenario of that name, if a disruption has the
// same name.
const scenarioPrefix = "scenario/"

// either is the disruption or the scenario of a name.
func either(ctx context.Context, client *cluster.Client, name string) (*v1beta1.Disruption, *v1beta1.DisruptionScenario, error) {
	kind, name, err := kindAndName(name)
	switch {
	case err != nil:
		return nil, nil, err
	case kind.Resource.Name == cluster.Scenarios.Name:
		s, err := client.Scenario(ctx, client.Namespace, name)
		return nil, s, err
	case kind.Resource.Name != cluster.Disruptions.Name:
		return nil, nil, fmt.Errorf("%s %s is neither a disruption nor a scenario: kubectl -n %s delete %s %[2]s ends it with its runs", kind.Kind, name, client.Namespace, kind.Resource.Name)
	}
	d, err := client.Disruption(ctx, client.Namespace, name)
	if !cluster.Gone(err) {
		return d, nil, err
	}
	s, other := client.Scenario(ctx, client.Namespace, name)
	if other != nil {
		return nil, nil, err // also if the user may not read scenarios, or the cluster has no such type
	}
	return nil, s, nil
}

func (c *command) approve() *cobra.Command {
	var flags clusterFlags
	approve := &cobra.Command{
		Use:   "approve SCENARIO STEP",
		Short: "Approve a step of a scenario",
		Long: "Approve a step that waits. The command writes your name into the annotation\n" +
			v1beta1.AnnotationApprovedBy + "STEP, and the status of the scenario\n" +
			"keeps it. You need the ClusterRole squall-scenario-approvals.",
		Example: "  squall status shop-game-day    # shows what to check\n  squall approve shop-game-day look",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.connect(c)
			if err != nil {
				return err
			}
			s, err := client.Scenario(cmd.Context(), client.Namespace, strings.TrimPrefix(args[0], scenarioPrefix))
			if err != nil {
				return err
			}
			if err := mayBeApproved(s, args[1]); err != nil {
				return err
			}
			user, err := client.Approve(cmd.Context(), s, args[1])
			if err != nil {
				return fmt.Errorf("approve step %s of scenario %s/%s: %w", args[1], s.Namespace, s.Name, err)
			}
			_, _ = fmt.Fprintf(c.out, "step %s of scenario %s/%s is approved by %s\n", args[1], s.Namespace, s.Name, user)
			return nil
		},
	}
	flags.add(approve)
	approve.ValidArgsFunction = c.approvals(&flags)
	return approve
}

// mayBeApproved refuses an approval that the API server would refuse, with a shorter
// message.
func mayBeApproved(s *v1beta1.DisruptionScenario, step string) error {
	var names []string
	for _, known := range s.Spec.Steps {
		names = append(names, known.Name)
		if known.Name == step && known.Approval == nil {
			return fmt.Errorf("step %s of scenario %s/%s needs no approval", step, s.Namespace, s.Name)
		}
	}
	for _, at := range s.Status.Steps {
		switch {
		case at.Name != step:
		case at.Phase == v1beta1.ScenarioSuspended:
			return nil
		case at.ApprovedBy != "":
			return fmt.Errorf("step %s of scenario %s/%s was approved by %s", step, s.Namespace, s.Name, at.ApprovedBy)
		}
	}
	if near := manifest.Nearest(step, names); near != "" && near != step {
		return fmt.Errorf("scenario %s/%s has no step %s: did you mean %s?", s.Namespace, s.Name, step, near)
	}
	return fmt.Errorf("step %s of scenario %s/%s does not wait for an approval now; see squall -n %[2]s status %[4]s%[3]s", step, s.Namespace, s.Name, scenarioPrefix)
}

// approvals completes the name of a scenario that waits for a person, and of its step.
func (c *command) approvals(f *clusterFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		client, err := f.connect(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		list, err := client.Scenarios(ctx, client.Namespace)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, s := range list.Items {
			switch {
			case s.Status.Phase != v1beta1.ScenarioSuspended:
			case len(args) == 0:
				names = append(names, s.Name+"\t"+s.Status.Message)
			case len(args) == 1 && args[0] == s.Name:
				names = append(names, s.Status.Step)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *command) showScenario(s *v1beta1.DisruptionScenario, output format) error {
	if output == asJSON || output == asYAML {
		return output.write(c.out, s)
	}
	_, _ = fmt.Fprintf(c.out, "%s\n", c.paint(bold, scenarioPrefix+s.Name+" in "+s.Namespace))
	c.lines(view.Scenario(s, c.now()))
	return nil
}

// stopScenario deletes a scenario and waits until it is gone, or one of its disruptions stuck.
func (c *command) stopScenario(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario, detach bool, timeout time.Duration) error {
	if err := client.DeleteScenario(ctx, s); err != nil {
		return err
	}
	if detach {
		_, _ = fmt.Fprintf(c.out, "scenario %s/%s is being ended\n", s.Namespace, s.Name)
		return nil
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	p := c.progress()
	for {
		left, stuck, gone, err := leftOfScenario(ctx, client, s)
		switch {
		case ctx.Err() != nil:
			p.end()
			return fmt.Errorf("scenario %s/%s is not gone yet; the clean-up continues; see squall -n %[1]s status %[3]s%[2]s", s.Namespace, s.Name, scenarioPrefix)
		case err != nil:
			p.end()
			return err
		case gone && left == 0:
			p.end()
			_, _ = fmt.Fprintf(c.out, "%s of scenario %s/%s\n", c.paint(green, "nothing is left"), s.Namespace, s.Name)
			return nil
		case left > 0 && left == len(stuck):
			p.end()
			for i := range stuck {
				c.describe(&stuck[i], false)
			}
			return silently(exitStuck)
		}
		text := fmt.Sprintf("%s/%s: %d disruptions are being cleaned", s.Namespace, s.Name, left)
		p.show(text, text)
		select {
		case <-ctx.Done():
		case <-time.After(refresh):
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
	owned, err := disruptionsOf(ctx, client, s)
	if err != nil {
		return 0, nil, false, err
	}
	left, stuck = leftOf(owned)
	return left, stuck, gone, nil
}

// disruptionsOf lists the disruptions of a scenario.
func disruptionsOf(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario) ([]v1beta1.Disruption, error) {
	list, err := client.Disruptions(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(d v1beta1.Disruption) bool { return !s.Owns(&d) }), nil
}

// leftOf counts the disruptions that are not over, with those that wait for a person.
func leftOf(owned []v1beta1.Disruption) (left int, stuck []v1beta1.Disruption) {
	for i := range owned {
		d := &owned[i]
		if d.Status.Phase.Over() {
			continue
		}
		left++
		if view.Stuck(d) {
			stuck = append(stuck, *d)
		}
	}
	return left, stuck
}
