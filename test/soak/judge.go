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
	"github.com/squall-chaos/squall/test/promise"
	"github.com/squall-chaos/squall/workflows/contract"
)

// judge waits until all is healed, looks at everything, and tells.
func (s *soak) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.heal)
	defer cancel()
	s.waitHealed(ctx, s.heal)
	s.await(ctx, s.heal, func() bool {
		for _, t := range s.view.trials {
			if t.ended.IsZero() {
				return false
			}
		}
		return true
	})
	s.stopWatching()
	ctx = context.WithoutCancel(ctx)
	o := s.outcome()
	s.findLost(ctx, &o)
	o.left = s.left(ctx)
	for _, line := range o.lines(s.options) {
		s.screen.say("%s", line)
	}
	missed := 0
	for _, l := range o.limits(s.options) {
		s.screen.check(l.kept, "%s", l.what)
		if !l.kept {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d lines are missed, see above; namespace %s stays, to be looked at; the same again: -seed %d", missed, s.space, s.seed)
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

// findLost asks Temporal for the workflow of every disruption. One that was
// deleted before the bridge had seen it has none, and is no trial.
func (s *soak) findLost(ctx context.Context, o *outcome) {
	var begun []trial
	for _, t := range o.trials {
		why := s.lost(ctx, t)
		if why == "" && !t.begun && t.status.Phase == "" && s.workflow(ctx, t) == enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED {
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

// lost says what is wrong with the end of a disruption; empty if nothing is.
func (s *soak) lost(ctx context.Context, t trial) string {
	if t.ended.IsZero() {
		return fmt.Sprintf("has not ended: phase %s %s", t.status.Phase, t.stuck)
	}
	if !t.begun {
		return ""
	}
	deadline := time.Now().Add(30 * time.Second) // the workflow completes a moment after the object is gone
	for {
		status := s.workflow(ctx, t)
		if status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			return ""
		}
		if time.Now().After(deadline) {
			return fmt.Sprintf("ended, and its workflow is %s", status)
		}
		_ = pause(ctx, lookGap)
	}
}

// workflow is the status of a disruption's workflow, unspecified if it has none.
func (s *soak) workflow(ctx context.Context, t trial) (status enums.WorkflowExecutionStatus) {
	id := contract.WorkflowID(v1beta1.DisruptionRef{Namespace: s.space, Name: t.name, UID: t.uid})
	_ = persist(ctx, func(ctx context.Context) error {
		found, err := s.temporal.DescribeWorkflowExecution(ctx, id, "")
		var none *serviceerror.NotFound
		if errors.As(err, &none) {
			return nil
		}
		status = found.GetWorkflowExecutionInfo().GetStatus()
		return err
	})
	return status
}

// left lists what is left of the soak's disruptions: in the API, and what the
// injectors, the journals and the probe find on the nodes.
func (s *soak) left(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := persist(ctx, func(ctx context.Context) error {
		found, err := s.look(ctx)
		left = found
		return err
	})
	if err != nil {
		return append(left, "it could not be looked at: "+err.Error())
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
		for _, node := range s.journalsOf(uid) {
			left = append(left, fmt.Sprintf("node %s: journal of %s", node, uid))
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
	if err := s.client.List(ctx, &pods, client.InNamespace(s.space), client.MatchingLabels{"app": "target"}); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if containerID(pod) == "" || pod.Status.ContainerStatuses[0].State.Running == nil {
			return nil, fmt.Errorf("target %s does not run", pod.Name)
		}
		said, err := s.run(ctx, s.probe, "snapshot", "--container", containerID(pod))
		if err != nil {
			return nil, err
		}
		one := map[string]string{}
		if err := json.Unmarshal([]byte(said), &one); err != nil {
			return nil, fmt.Errorf("the probe said %q of target %s: %w", said, pod.Name, err)
		}
		for key, value := range one {
			all[pod.Name+" "+key] = value
		}
	}
	return all, nil
}
