package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/temporal"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// answerTimeout bounds the wait for a workflow's answer, which any worker gives within
// a second; without a worker there is none.
const answerTimeout = 30 * time.Second

// Resume is squall resume.
func Resume(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var reach console.TemporalFlags
	var decision contract.Resume
	resume := &cobra.Command{
		Use:   "resume NAME --action retry|release",
		Short: "Retry or force-release a stuck disruption",
		Long: "retry cleans up again from the journal on the node; fix the cause first. release\n" +
			"gives up what is left on the node for good. It needs --by and --reason, which\n" +
			"are recorded. The workflow checks the decision and answers.",
		Example: "  squall resume lossy --action retry\n" +
			"  squall resume lossy --action release --targets web-0 \\\n      --by ann --reason 'the node is scrapped today'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkResume(decision); err != nil {
				return err
			}
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			d, err := client.Disruption(cmd.Context(), client.Namespace, args[0])
			if err != nil {
				return err
			}
			workflows, _, err := reach.Dial(cmd.Context(), cmd, client)
			if err != nil {
				return err
			}
			defer workflows.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), answerTimeout)
			defer cancel()
			answer, err := start.Resume(ctx, workflows, d.Ref(), decision)
			if err != nil {
				return resumeError(ctx, err, d.Namespace, d.Name)
			}
			_, _ = fmt.Fprintf(c.Out, "%s/%s: %s\n", d.Namespace, d.Name, answer)
			return nil
		},
	}
	flags.Add(resume)
	reach.Add(resume)
	resume.Flags().StringVar(&decision.Action, "action", "", "retry or release")
	resume.Flags().StringSliceVar(&decision.Targets, "targets", nil, "names of targets, separated by commas; nothing: all that are stuck")
	resume.Flags().StringVar(&decision.By, "by", "", "who decides")
	resume.Flags().StringVar(&decision.Reason, "reason", "", "why")
	_ = resume.RegisterFlagCompletionFunc("action", cobra.FixedCompletions([]string{contract.ActionRetry, contract.ActionRelease}, cobra.ShellCompDirectiveNoFileComp))
	resume.ValidArgsFunction = flags.DisruptionNames(c.Streams)
	return resume
}

// checkResume refuses what the workflow would refuse in any state.
func checkResume(r contract.Resume) error {
	switch {
	case r.Action != contract.ActionRetry && r.Action != contract.ActionRelease:
		return console.Usage("--action is %q: want retry (clean again) or release (accept what is left)", r.Action)
	case r.Action == contract.ActionRelease && (r.By == "" || r.Reason == ""):
		return console.Usage("release leaves something on a node for good: add --by (who decides) and --reason (why)")
	}
	return nil
}

// resumeError explains a missing or negative answer and what to do.
func resumeError(ctx context.Context, err error, namespace, name string) error {
	if refusal, refused := errors.AsType[*temporal.ApplicationError](err); refused {
		return fmt.Errorf("the workflow of disruption %s/%s refuses: %s", namespace, name, refusal.Message())
	}
	switch {
	case errors.Is(err, start.ErrNotRunning):
		return fmt.Errorf("no workflow of disruption %s/%s runs, so there is nothing to resume; run squall doctor: %w", namespace, name, err)
	case ctx.Err() != nil:
		return fmt.Errorf("the workflow of disruption %s/%s did not answer within %s; run squall doctor to see whether a worker runs: %w", namespace, name, answerTimeout, err)
	}
	return err
}
