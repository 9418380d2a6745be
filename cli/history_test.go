package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/story"
	"github.com/squall-chaos/squall/cli/view"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// endedWorkflow ends as that of a disruption does.
func endedWorkflow(ctx workflow.Context, in contract.Input) (map[string]any, error) {
	err := workflow.UpsertTypedSearchAttributes(ctx, start.AttributeNamespace.ValueSet(in.Disruption.Namespace),
		start.AttributeKinds.ValueSet([]string{"cpu-pressure"}))
	if err != nil {
		return nil, err
	}
	var end any
	workflow.GetSignalChannel(ctx, contract.SignalEnd).Receive(ctx, &end)
	plan := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: time.Minute})
	prepared := workflow.ExecuteLocalActivity(plan, func(context.Context) (map[string]string, error) {
		return map[string]string{"specHash": "1", "requester": "ann"}, nil
	})
	if err := prepared.Get(ctx, nil); err != nil {
		return nil, err
	}
	return map[string]any{"summary": "2 targets disrupted, ended (expired), nothing is left", "targets": 2, "ending": "expired"}, nil
}

func TestHistory(t *testing.T) {
	l := newLive(t)
	server := temporalserver.Shared(t)
	squall := func(args ...string) call { return l.squall(append(args, "--temporal-address", server.Address)...) }
	l.want(squall("history"), console.ExitOK, "Temporal knows of no disruption that has ended in namespace "+l.Shop+": squall history -A")
	if all := squall("history", "-A"); strings.Contains(all.err, "in namespace") || strings.Contains(all.err, "squall history -A") {
		t.Errorf("history -A = %q, want no advice to list all namespaces", all.err)
	}
	l.want(squall("history", "lossy"), console.ExitError, "temporal knows of no disruption "+l.Shop+"/lossy: squall history -A")
	c := server.Dial(client.DefaultNamespace)
	w := worker.New(c, contract.TaskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(endedWorkflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	l.Must(w.Start())
	t.Cleanup(w.Stop)
	ref := l.Disruption("lossy", nil)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: contract.WorkflowID(ref), TaskQueue: contract.TaskQueue, StaticSummary: "cpu-pressure on 2 of the pods",
		TypedSearchAttributes: temporal.NewSearchAttributes(start.AttributeNamespace.ValueSet(l.Shop)),
	}, contract.WorkflowType, contract.Input{Disruption: ref})
	l.Must(err)
	l.Must(start.End(t.Context(), c, ref, ""))
	l.Must(run.Get(t.Context(), nil))
	l.Eventually("Temporal's list has it", func() bool { return strings.Contains(squall("history").out, l.Shop+"/lossy") })
	l.want(squall("history"), console.ExitOK, "RESULT   KINDS          REQUESTER   ENDING", "Passed   cpu-pressure   ann         expired", time.Now().Format(" MST "))
	l.want(squall("history", "-o", "wide"), console.ExitOK, "2 targets disrupted, ended (expired), nothing is left")
	l.want(squall("history", "--since", "1h"), console.ExitOK, "Passed")
	l.Eventually("what ended a second ago is older than --since 1s", func() bool {
		return strings.Contains(squall("history", "--since", "1s").err, "has ended in namespace "+l.Shop+" in the last 1s")
	})
	t.Run("without a kubeconfig", func(t *testing.T) {
		l := l.in(t)
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
		l.want(squall("history", "-n", l.Shop), console.ExitOK, "Passed")
		l.want(squall("history"), console.ExitOK, "in namespace default")
		l.want(l.squall("history"), console.ExitError, "no cluster is configured")
	})
	l.want(squall("history", "-n", l.Chaos), console.ExitOK, "knows of no disruption that has ended")
	l.want(squall("history", "lossy", "--events"), console.ExitOK, "the workflow begins: cpu-pressure on 2 of the pods", "receives the signal end", "the workflow ends: ")
	l.want(squall("history", "lossy"), console.ExitOK, "begins: cpu-pressure on 2 of the pods", "is to end",
		"Passed: 2 targets disrupted, ended (expired), nothing is left")
	var found story.Story
	if err := json.Unmarshal([]byte(squall("history", "lossy", "-o", "json").out), &found); err != nil || found.Disruption != l.Shop+"/lossy" || len(found.Steps) != 2 || found.Events != nil || found.Requester != "ann" {
		t.Errorf("as JSON it is %+v, %v", found, err)
	}
	for _, live := range []bool{true, false} { // the object, and only its history
		dir, options := reportsIn(t)
		l.want(squall(append([]string{"history", "lossy"}, options...)...), console.ExitOK)
		r := l.reportedAs(dir, map[bool]view.Outcome{true: report.Unfinished, false: view.Passed}[live], 0, "")
		if d := r.Disruptions[0]; len(d.Steps) != 2 || d.Cleaned == live || (d.Requester == "ann") == live {
			t.Errorf("with its object %t it is reported as %+v", live, d)
		}
		if live {
			l.finalize(ref)
			l.Must(l.Plain.Delete().Namespace(l.Shop).Resource("disruptions").Name("lossy").Do(t.Context()).Error())
		}
	}
	l.want(squall("history", "--events"), console.ExitUsage, "about one disruption")
}
