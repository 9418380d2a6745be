package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/manifest"
)

// Approve is squall approve.
func Approve(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	approve := &cobra.Command{
		Use:   "approve SCENARIO STEP",
		Short: "Approve a step of a scenario",
		Long: "Approve a step that waits. The command writes your name into the annotation\n" +
			v1beta1.AnnotationApprovedBy + "STEP, and the status of the scenario\n" +
			"keeps it. You need the ClusterRole squall-scenario-approvals.",
		Example: "  squall status shop-game-day    # shows what to check\n  squall approve shop-game-day look",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			s, err := client.Scenario(cmd.Context(), client.Namespace, strings.TrimPrefix(args[0], console.ScenarioPrefix))
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
			_, _ = fmt.Fprintf(c.Out, "step %s of scenario %s/%s is approved by %s\n", args[1], s.Namespace, s.Name, user)
			return nil
		},
	}
	flags.Add(approve)
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
	return fmt.Errorf("step %s of scenario %s/%s does not wait for an approval now; see squall -n %[2]s status %[4]s%[3]s", step, s.Namespace, s.Name, console.ScenarioPrefix)
}

// approvals completes the name of a scenario that waits for a person, and of its step.
func (c call) approvals(f *console.ClusterFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.Complete(cmd, c.Streams, func(ctx context.Context, client *cluster.Client) (names []string, err error) {
			list, err := client.Scenarios(ctx, client.Namespace)
			if err != nil {
				return nil, err
			}
			for _, s := range list.Items {
				switch {
				case s.Status.Phase != v1beta1.ScenarioSuspended:
				case len(args) == 0:
					names = append(names, s.Name+"\t"+s.Status.Message)
				case len(args) == 1 && args[0] == s.Name:
					names = append(names, s.Status.Step)
				}
			}
			return names, nil
		})
	}
}
