package survival

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/sweep"
)

// node plays what is on the one node that a sweep looks at.
type node struct {
	mu    sync.Mutex
	marks []v1beta1.Mark
}

// command answers the sweep's pods as the injector would.
func (n *node) command(pod *corev1.Pod) (e world.Exit) {
	if pod.Labels[v1beta1.LabelSweep] == "" {
		return world.Clean(pod)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	<-time.After(1500 * time.Millisecond) // a real one takes as long, and heartbeats are sent meanwhile
	e, n.marks = world.Swept(pod, n.marks)
	return e
}

// TestOrphans lets disruptions lose everything that would end them.
func TestOrphans(t *testing.T) {
	s := begin(t, 10, "SQUALL_SWEEP_INTERVAL=24h")
	n := &node{}
	s.Kubelets.Exits(n.command)
	for _, part := range []struct {
		name string
		test func(survival, *node)
	}{
		{"its finalizer is ripped off", survival.rippedOff},
		{"the same, and its workflow is terminated", survival.rippedOffAndTerminated},
		{"the same while no bridge runs, and its chaos pods are deleted by force", survival.allLost},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(s.in(t), n) })
	}
}

func (w survival) rippedOff(*node) {
	d := w.Create(w.Disruption("ripped", 5))
	w.Injected(d)
	w.ripOff(d)
	w.nothingLeft(d)
	if ending := w.Completed(d).Ending; ending != "deleted" {
		w.Errorf("the workflow ended for %q, want deleted", ending)
	}
	w.OneRun(d)
}

func (w survival) rippedOffAndTerminated(*node) {
	d := w.Create(w.Disruption("terminated", 5))
	w.Injected(d)
	w.Must(w.Workflows.TerminateWorkflow(w.Context(), world.WorkflowOf(d), "", "by the test"))
	w.ripOff(d)
	w.nothingLeft(d)
}

func (w survival) allLost(n *node) {
	d := w.Create(w.Disruption("lost", 5))
	w.Injected(d)
	w.bridge.Kill()
	defer w.bridge.Start()
	w.Must(w.Workflows.TerminateWorkflow(w.Context(), world.WorkflowOf(d), "", "by the test"))
	w.ripOff(d)
	w.forceChaosPods(d)
	w.carries(n, d)

	swept, history := w.sweep()
	w.Logf("%s; %d events", swept.Summary, len(history.GetEvents()))
	if swept.Records != (orphans.Tally{Found: 2, Cleaned: 2}) || swept.Marks != (orphans.Tally{Found: 1, Cleaned: 1}) || swept.Audited != 1 {
		w.Errorf("swept = %+v, want two records and one mark cleaned", swept)
	}
	w.nothingLeft(d)
	if again, _ := w.sweep(); again.Summary != "looked at 1 of 1 node: nothing is there that no disruption owns" {
		w.Errorf("a second sweep found something: %s", again.Summary)
	}
	if *record {
		w.Keep("sweep", history)
	}
}

// ripOff removes d's finalizer by force. The workflow would end d in good order if
// it saw the deletion, so the object must not exist in between.
func (w survival) ripOff(d *v1beta1.Disruption) {
	w.Helper()
	rip := []byte(`{"metadata":{"finalizers":null}}`)
	w.Must(w.Disruptions.Patch(w.Context(), d, client.RawPatch(types.MergePatchType, rip)))
	w.Must(w.Disruptions.Delete(w.Context(), d))
	_ = w.Disruptions.Patch(w.Context(), d, client.RawPatch(types.MergePatchType, rip)) // where the bridge was faster
}

// forceChaosPods deletes d's chaos pods by force, as a desperate user would.
func (w survival) forceChaosPods(d *v1beta1.Disruption) {
	w.Helper()
	now := int64(0)
	pods, err := w.Kube.CoreV1().Pods(w.Chaos).List(w.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)})
	w.Must(err)
	for _, pod := range pods.Items {
		_, err := w.Kube.CoreV1().Pods(w.Chaos).Patch(w.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		w.Must(client.IgnoreNotFound(err))
		w.Must(client.IgnoreNotFound(w.Kube.CoreV1().Pods(w.Chaos).Delete(w.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})))
	}
}

// carries makes a node with what d's injector left.
func (w survival) carries(n *node, d *v1beta1.Disruption) {
	w.Helper()
	made, err := w.Kube.CoreV1().Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "swept"}}, metav1.CreateOptions{})
	w.Must(err)
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = w.Kube.CoreV1().Nodes().UpdateStatus(w.Context(), made, metav1.UpdateOptions{})
	w.Must(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.marks = []v1beta1.Mark{{Object: "journal", Disruption: v1beta1.DisruptionRef{Namespace: d.Namespace, Name: d.Name, UID: d.UID}}}
}

// nothingLeft waits until the API has nothing of d any more.
func (w survival) nothingLeft(d *v1beta1.Disruption) {
	w.Helper()
	began := time.Now()
	ours := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)}
	world.Eventually(w, time.Minute, "nothing is left of "+d.Name, func() bool {
		pods, err := w.Kube.CoreV1().Pods(w.Chaos).List(w.Context(), ours)
		w.Must(err)
		records, err := w.Kube.CoreV1().ConfigMaps(w.Chaos).List(w.Context(), ours)
		w.Must(err)
		return len(pods.Items)+len(records.Items) == 0
	})
	w.Logf("nothing is left after %.1fs", time.Since(began).Seconds())
}

// sweep starts one by hand, as a person would, and waits for its result. Its
// history must be replayable (T3).
func (w survival) sweep() (swept sweep.Result, history *historypb.History) {
	w.Helper()
	before := w.sweeps()
	w.Must(w.Workflows.ScheduleClient().GetHandle(w.Context(), contract.SweepSchedule).Trigger(w.Context(), temporalclient.ScheduleTriggerOptions{}))
	var id string
	world.Eventually(w, time.Minute, "a sweep has ended", func() bool {
		for _, one := range w.sweeps() {
			if !slices.Contains(before, one) {
				id = one
			}
		}
		return id != ""
	})
	w.Must(w.Workflows.GetWorkflow(w.Context(), id, "").Get(w.Context(), &swept))
	events := w.Workflows.GetWorkflowHistory(w.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	history = &historypb.History{}
	for events.HasNext() {
		event, err := events.Next()
		w.Must(err)
		history.Events = append(history.Events, event)
	}
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(sweep.Workflow, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
	if err := replayer.ReplayWorkflowHistory(nil, history); err != nil {
		w.Errorf("the sweep's history does not replay: %v", err)
	}
	return swept, history
}

// sweeps are the workflow IDs of the sweeps so far.
func (w survival) sweeps() (ids []string) {
	w.Helper()
	answer, err := w.Workflows.ListWorkflow(w.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = %q", contract.SweepWorkflowType),
	})
	w.Must(err)
	for _, one := range answer.GetExecutions() {
		ids = append(ids, one.GetExecution().GetWorkflowId())
	}
	return ids
}
