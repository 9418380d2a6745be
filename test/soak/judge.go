package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/promise"
	"github.com/squall-chaos/squall/workflows/contract"
)

// judge waits until all is healed, inspects everything, and reports.
func (s *soak) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.heal)
	defer cancel()
	s.waitHealed(ctx, s.heal)
	s.await(ctx, s.heal, func() bool { return s.view.underWay() == 0 })
	s.stopWatching()
	ctx = context.WithoutCancel(ctx)
	o := s.outcome()
	s.findLost(ctx, &o)
	o.left = s.left(ctx)
	for _, line := range o.lines(s.options) {
		s.screen.logf("%s", line)
	}
	missed := 0
	for _, l := range o.limits(s.options) {
		s.screen.check(l.kept, "%s", l.what)
		if !l.kept {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d lines are missed, see above; namespace %s stays until the next run, to be looked at; the same again: -seed %d", missed, s.space, s.seed)
	}
	return s.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.space}})
}

// outcome takes together what was seen.
func (s *soak) outcome() outcome {
	o := outcome{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kills {
		o.kills = append(o.kills, *k)
	}
	s.view.read(func() {
		for _, t := range s.view.trials {
			o.trials = append(o.trials, *t)
		}
	})
	slices.SortFunc(o.trials, func(a, b trial) int { return a.created.Compare(b.created) })
	return o
}

// askPatience is how long Temporal is asked for one workflow, which completes a
// moment after the object is gone.
const askPatience = 30 * time.Second

// findLost asks Temporal for the workflow of every disruption. A disruption that
// was deleted before the bridge had seen it has none, and is no trial.
func (s *soak) findLost(ctx context.Context, o *outcome) {
	var begun []trial
	for _, t := range o.trials {
		why, known := s.lost(ctx, t)
		if !known {
			o.notBegun++
			continue
		}
		if why != "" {
			o.lost = append(o.lost, t.name+": "+why)
		}
		begun = append(begun, t)
	}
	o.trials = begun
}

// lost returns the defect in the end of a disruption; why is empty if there is
// none. begun is false of a disruption that no program has ever seen.
func (s *soak) lost(ctx context.Context, t trial) (why string, begun bool) {
	if t.ended.IsZero() {
		return fmt.Sprintf("has not ended: phase %s %s", t.status.Phase, t.stuck), true
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return t.ask(ctx, s.workflow)
}

// ask waits until the workflow of a disruption that has ended has completed, or
// there is none. It is asked for of every trial: the list of Disruptions that
// shows the finalizer may never have been answered.
func (t trial) ask(ctx context.Context, workflow func(context.Context, trial) (enums.WorkflowExecutionStatus, error)) (why string, begun bool) {
	for {
		status, err := workflow(ctx, t)
		switch {
		case err != nil:
			why = "ended, and what its workflow did is not known: " + err.Error()
		case status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
			return "", true
		case status == enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED && !t.begun && t.status.Phase == "":
			return "", false
		default:
			why = fmt.Sprintf("ended, and its workflow is %s", status)
		}
		if promise.Pause(ctx, lookGap) != nil {
			return why, true
		}
	}
}

// workflow is the status of a disruption's workflow, unspecified if it has none.
func (s *soak) workflow(ctx context.Context, t trial) (enums.WorkflowExecutionStatus, error) {
	id := contract.WorkflowID(v1beta1.DisruptionRef{Namespace: s.space, Name: t.name, UID: t.uid})
	found, err := s.temporal.DescribeWorkflowExecution(ctx, id, "")
	var none *serviceerror.NotFound
	if errors.As(err, &none) {
		return enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, nil
	}
	if err != nil {
		return enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, fmt.Errorf("describe workflow %s: %w", id, err)
	}
	return found.GetWorkflowExecutionInfo().GetStatus(), nil
}

// left lists what is left of the soak's disruptions: in the API, and what the
// injectors, the journals and the probe find on the nodes.
func (s *soak) left(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := promise.Persist(ctx, func(ctx context.Context) error {
		found, err := s.look(ctx)
		left = found
		return err
	})
	if err != nil {
		return append(left, "it could not be checked: "+err.Error())
	}
	return left
}

func (s *soak) look(ctx context.Context) ([]string, error) {
	audits := map[string]v1beta1.Audit{}
	for _, n := range s.nodes {
		audit, err := promise.Injectors{Kube: s.kube, Namespace: s.space, Image: s.image}.Audit(ctx, n.name)
		if err != nil {
			return nil, err
		}
		audits[n.name] = audit
	}
	var uids []types.UID
	s.view.read(func() {
		for _, t := range s.view.trials {
			uids = append(uids, t.uid)
		}
	})
	left, err := promise.Cluster{Kube: s.kube, Chaos: chaosNamespace, Shop: s.space, Audits: audits}.Left(ctx, uids...)
	if err != nil {
		return nil, err
	}
	for _, uid := range uids {
		nodes, err := s.journalsOf(uid)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			left = append(left, fmt.Sprintf("node %s: journal of %s", node, uid))
		}
	}
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		if node.Spec.Unschedulable || node.Labels[v1beta1.LabelCordoned] != "" {
			left = append(left, fmt.Sprintf("node %s: cordoned", node.Name))
		}
	}
	after, err := s.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	return append(left, differences(s.before, after)...), nil
}

// snapshots are the settings of all targets that a disruption could leave
// changed, as the probe sees them from the host.
func (s *soak) snapshots(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(s.space)); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if pod.Labels["app"] == "moved" {
			continue // others by now
		}
		if in, err := podops.Available(&pod); pod.Labels["app"] == "served" && (!in || err != nil) {
			return nil, fmt.Errorf("target %s is not in service: labels %v", pod.Name, pod.Labels)
		}
		if containerID(pod) == "" || pod.Status.ContainerStatuses[0].State.Running == nil {
			return nil, fmt.Errorf("target %s does not run", pod.Name)
		}
		output, err := s.run(ctx, s.probe, "snapshot", "--container", containerID(pod))
		if err != nil {
			return nil, err
		}
		one := map[string]string{}
		if err := json.Unmarshal([]byte(output), &one); err != nil {
			return nil, fmt.Errorf("the probe said %q of target %s: %w", output, pod.Name, err)
		}
		for key, value := range one {
			all[pod.Name+" "+key] = value
		}
	}
	return all, nil
}
