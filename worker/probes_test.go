package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/contract"
)

// registered records the activities and workflows of a task queue.
type registered struct {
	worker.Registry
	activities, workflows []string
	all                   int
}

func (r *registered) RegisterActivity(any) { r.all++ }

func (r *registered) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	r.activities = append(r.activities, o.Name)
}

func (r *registered) RegisterWorkflowWithOptions(_ any, o workflow.RegisterOptions) {
	r.workflows = append(r.workflows, o.Name)
}

// Finding N12: the worker that cleans up polls no queue of probes, and the worker that asks
// probes can do nothing else.
func TestProbesAreAskedByAnotherWorker(t *testing.T) {
	t.Setenv("KUBECONFIG", write(t, "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"+
		"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"))
	temporal, err := client.NewLazyClient(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer temporal.Close()
	others := []string{contract.NotificationTaskQueue, contract.TaskQueue, contract.WatcherTaskQueue}
	for setting, want := range map[string][]string{
		queuesAll: append(append([]string(nil), others...), contract.ProbeTaskQueue), queuesDisruptions: others, queuesProbes: {contract.ProbeTaskQueue},
	} {
		c, err := readConfig([]string{"--task-queues", setting}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		acts, err := newActivities(c)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, q := range c.taskQueues(acts, temporal, "") {
			names = append(names, q.name)
			if q.name != contract.ProbeTaskQueue {
				continue
			}
			var has registered
			q.register(&has)
			if diff := cmp.Diff([]string{"AskProbes"}, has.activities); diff != "" || has.all+len(has.workflows) > 0 {
				t.Errorf("%s: the queue of probes has %v, workflows %v and %d sets of activities; want AskProbes alone", setting, has.activities, has.workflows, has.all)
			}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s: task queues (-want +got):\n%s", setting, diff)
		}
		if asks := acts.Prober != nil; asks != (setting != queuesDisruptions) {
			t.Errorf("%s: it can ask probes: %t", setting, asks)
		}
		if watches := acts.ChaosPods != nil || acts.Rules.Policies != nil || acts.Rules.SafeMode != nil; watches != (setting != queuesProbes) {
			t.Errorf("%s: it watches chaos pods, policies and all pods: %t", setting, watches)
		}
	}
}

func TestTaskQueuesThatAreNone(t *testing.T) {
	_, err := readConfig([]string{"--task-queues", "sweeps"}, io.Discard)
	wantParts(t, err, `setting task-queues "sweeps"`, "all, disruptions, probes")
}

// An alert notices an absent worker by its missing counters.
func TestThePageOfProbesHasNoNumberOfTheWorker(t *testing.T) {
	c := Config{TaskQueues: queuesProbes, Traces: settings.Traces{Sampling: 1}}
	telemetry, err := newTelemetry(c, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer telemetry.tracing.Close()
	text := shown(t, telemetry.page)
	if !strings.Contains(text, "squall_probe_answers_total") || strings.Contains(text, "squall_stuck_total") {
		t.Errorf("the page of probes:\n%s\nwant squall_probe_answers_total on it, and not squall_stuck_total", text)
	}
}
