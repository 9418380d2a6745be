package matrix

import (
	"fmt"
	"slices"

	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/sweep"
)

// mark has the node carry what the disruption's injector left there.
func (w *witness) mark(chaos string, d *v1beta1.Disruption) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks[chaos] = append(w.marks[chaos], v1beta1.Mark{Object: "journal", Disruption: d.Ref()})
}

// marked are the marks that the node carries of a slot.
func (w *witness) marked(chaos string) []v1beta1.Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.marks[chaos])
}

// allLost is a disruption that loses its object, its workflow and its chaos pods while no
// bridge runs. A sweep finds what is left: its records and its node's mark.
func (r *run) allLost() error {
	r.programs[bridge].Kill()
	defer r.bringUp(bridge)
	if err := r.temporal.TerminateWorkflow(r.ctx, world.WorkflowOf(r.d), "", "by the test"); err != nil {
		return err
	}
	r.saw.mark(r.chaos, r.d)
	withoutFinalizers := []byte(`{"metadata":{"finalizers":null}}`)
	if err := r.world.Disruptions.Patch(r.ctx, r.d, client.RawPatch(types.MergePatchType, withoutFinalizers)); err != nil {
		return err
	}
	if err := r.world.Disruptions.Delete(r.ctx, r.d); err != nil {
		return err
	}
	pods := r.world.Kube.CoreV1().Pods(r.chaos)
	there, err := pods.List(r.ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(r.d.UID)})
	if err != nil {
		return err
	}
	now := int64(0)
	for _, pod := range there.Items {
		if _, err := pods.Patch(r.ctx, pod.Name, types.MergePatchType, withoutFinalizers, metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(pods.Delete(r.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})); err != nil {
			return err
		}
	}
	return r.swept()
}

// swept has the cluster swept. The counts of a sweep depend on what an interrupted one had
// cleaned. Its end is what it could not clean, and what it could not see.
func (r *run) swept() error {
	// The worker sweeps for runs of the schedule alone, which have IDs like this one.
	options := temporalclient.StartWorkflowOptions{ID: fmt.Sprintf("%s-%s", contract.SweepSchedule, r.d.UID), TaskQueue: contract.TaskQueue}
	swept, err := r.temporal.ExecuteWorkflow(r.ctx, options, contract.SweepWorkflowType)
	if err != nil {
		return err
	}
	var result sweep.Result
	if err := swept.Get(r.ctx, &result); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	r.parentStatus = struct {
		Nodes, Audited int
		Left, Skipped  []orphans.Orphan
	}{result.Nodes, result.Audited, result.Left, result.Skipped}
	return nil
}
