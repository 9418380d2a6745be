package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// NodePage is a part of the cluster's nodes.
type NodePage struct {
	// From is where the page begins: empty, or Next of the page before.
	From string `json:"from,omitempty"`
	// Size is how many nodes the page has, at most.
	Size int64 `json:"size"`
}

// SweptNodes reports what a sweep found on one page of nodes.
type SweptNodes struct {
	// Next is where the next page begins; empty after the last.
	Next    string `json:"next,omitempty"`
	Nodes   int    `json:"nodes"`
	Audited int    `json:"audited"`
	Marks   Tally  `json:"marks"`
	// Cleaned are removed marks, Left marks that could not be removed, and Skipped nodes
	// that could not be searched; at most 50 of each.
	Cleaned []Orphan `json:"cleaned,omitempty"`
	Left    []Orphan `json:"left,omitempty"`
	Skipped []Orphan `json:"skipped,omitempty"`
}

// SweepNodes searches each node of a page for marks of disruptions that are not live.
// It removes cordons, and removes what injectors left by the journals on the node. It
// skips and names a node that is not ready or cannot be searched. It costs two API
// writes for each node, and six more for a node with orphans.
func (a *Activities) SweepNodes(ctx context.Context, page NodePage) (SweptNodes, error) {
	nodes, next, err := a.listNodes(ctx, page)
	if err != nil {
		return SweptNodes{}, err
	}
	s := &nodeSweep{a: a, swept: SweptNodes{Next: next}, marked: map[string]v1beta1.Audit{}}
	if err := s.sweepCordons(ctx, nodes); err != nil {
		return SweptNodes{}, err
	}
	nodes = slices.DeleteFunc(nodes, func(node corev1.Node) bool { return !kube.NodeRunsInjectors(&node) })
	s.swept.Nodes = len(nodes)
	if err := s.each(ctx, nodes, s.auditNode); err != nil {
		return SweptNodes{}, err
	}
	if len(s.marked) > 0 {
		// Read after the marks: their disruptions existed before.
		if s.inventory, err = a.inventory(ctx); err != nil {
			return SweptNodes{}, err
		}
		if err := s.each(ctx, nodes, s.clean); err != nil {
			return SweptNodes{}, err
		}
	}
	if err := a.deleteLeftCommands(ctx); err != nil {
		return SweptNodes{}, err
	}
	s.swept.Cleaned, s.swept.Left, s.swept.Skipped = someOf(s.swept.Cleaned), someOf(s.swept.Left), someOf(s.swept.Skipped)
	countOrphans(ctx, "mark", s.swept.Marks)
	metric.SweepNodesSkipped.Add(ctx, s.swept.Nodes-s.swept.Audited, "")
	return s.swept, nil
}

// listNodes lists one page of the nodes, live. If the page's position has expired, it
// lists from the same place in the newest list.
func (a *Activities) listNodes(ctx context.Context, page NodePage) ([]corev1.Node, string, error) {
	list, err := a.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: page.Size, Continue: page.From})
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
		list, err = a.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: page.Size, Continue: status.Status().Continue})
	}
	if err != nil {
		return nil, "", fmt.Errorf("list the nodes: %w", err)
	}
	return list.Items, list.Continue, nil
}

// nodeSweep is the state of one SweepNodes.
type nodeSweep struct {
	a         *Activities
	inventory map[types.UID]*footprint
	mu        sync.Mutex
	swept     SweptNodes
	// marked has the audits with marks, by node.
	marked map[string]v1beta1.Audit
}

// each calls do for several nodes at once; after an error it begins no other node. It
// does not pass on the group's own context: heartbeats are sent late, and a heartbeat
// on a context that ended cancels the activity.
func (s *nodeSweep) each(ctx context.Context, nodes []corev1.Node, do func(context.Context, *corev1.Node) error) error {
	group, failed := errgroup.WithContext(ctx)
	group.SetLimit(s.a.Parallel)
	for i := range nodes {
		group.Go(func() error {
			if failed.Err() != nil {
				return failed.Err()
			}
			return do(ctx, &nodes[i])
		})
	}
	return group.Wait()
}

// auditNode reads which marks a node carries.
func (s *nodeSweep) auditNode(ctx context.Context, node *corev1.Node) error {
	if !kube.NodeReady(node) {
		s.skip(ctx, node, "the node is not ready")
		return nil
	}
	audit, why, err := s.a.commands().Audit(ctx, sweepOwner(ctx), node)
	if err != nil {
		return err
	}
	if why != "" {
		s.skip(ctx, node, why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == "" {
		s.swept.Audited++
	}
	if len(audit.Marks) > 0 || len(audit.Disruptions) > 0 {
		s.marked[node.Name] = audit
	}
	return nil
}

func (s *nodeSweep) skip(ctx context.Context, node *corev1.Node, why string) {
	activity.GetLogger(ctx).Warn("node not swept", "node", node.Name, "why", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept.Skipped = append(s.swept.Skipped, Orphan{Node: node.Name, What: "all of the node", Why: why})
}

// clean removes the orphans' marks from a node, searches it again, and counts.
func (s *nodeSweep) clean(ctx context.Context, node *corev1.Node) error {
	first := orphanedMarks(s.marked[node.Name], s.inventory)
	if len(first) == 0 {
		return nil
	}
	// A disruption that began after the inventory was read is not in it, and no orphan.
	orphaned := func(audit v1beta1.Audit) []v1beta1.Mark {
		return slices.DeleteFunc(orphanedMarks(audit, s.inventory), func(mark v1beta1.Mark) bool {
			return !slices.ContainsFunc(first, func(f v1beta1.Mark) bool { return f.Disruption.UID == mark.Disruption.UID })
		})
	}
	// A disruption that ended normally meanwhile has removed its marks.
	again, _, err := s.a.commands().Audit(ctx, sweepOwner(ctx), node)
	if err != nil {
		return err
	}
	before := orphaned(again)
	if len(before) == 0 {
		return nil
	}
	// One pod for all, so that a node with a hundred orphans takes no longer.
	var reports map[types.UID]string
	if uids := disruptionsOf(before); len(uids) > 0 {
		if reports, err = s.a.commands().Clean(ctx, sweepOwner(ctx), node, uids...); err != nil {
			return err
		}
	}
	left, unseen, err := s.a.commands().Audit(ctx, sweepOwner(ctx), node)
	if err != nil {
		return err
	}
	after := orphaned(left)
	if unseen != "" {
		after = before // an unread node proves nothing: the next sweep searches it again
	}
	s.count(ctx, node, before, after, reports)
	return nil
}

func (s *nodeSweep) count(ctx context.Context, node *corev1.Node, before, after []v1beta1.Mark, reports map[types.UID]string) {
	log := activity.GetLogger(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept.Marks.Found += len(before)
	s.swept.Marks.Left += len(after)
	s.swept.Marks.Cleaned += max(len(before)-len(after), 0)
	for _, mark := range before {
		orphan := Orphan{Disruption: describe(mark.Disruption), Node: node.Name, What: mark.Object}
		if !slices.Contains(after, mark) {
			log.Warn("orphan cleaned", "node", orphan.Node, "disruption", orphan.Disruption, "what", orphan.What)
			s.swept.Cleaned = append(s.swept.Cleaned, orphan)
		}
	}
	for _, mark := range after {
		orphan := Orphan{Disruption: describe(mark.Disruption), Node: node.Name, What: mark.Object, Why: whyLeft(mark, reports)}
		log.Error("orphan left", "node", orphan.Node, "disruption", orphan.Disruption, "what", orphan.What, "why", orphan.Why)
		s.swept.Left = append(s.swept.Left, orphan)
	}
}

// sweepOwner is the owner of a sweep's node commands, which belong to no disruption.
func sweepOwner(ctx context.Context) chaospod.Owner {
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	return chaospod.Owner{Name: run, Labels: map[string]string{v1beta1.LabelSweep: run}}
}

// deleteStaleCommands deletes the node commands of sweeps that died: the schedule never
// runs two sweeps at once.
func (a *Activities) deleteStaleCommands(ctx context.Context) error {
	return a.deleteCommands(ctx, v1beta1.LabelSweep+","+v1beta1.LabelSweep+"!="+activity.GetInfo(ctx).WorkflowExecution.RunID)
}

// deleteLeftCommands deletes the node commands that an earlier attempt left and this
// one did not need: what they were to clean was clean by then.
func (a *Activities) deleteLeftCommands(ctx context.Context) error {
	info := activity.GetInfo(ctx)
	if info.Attempt == 1 {
		return nil
	}
	return a.deleteCommands(ctx, v1beta1.LabelSweep+"="+info.WorkflowExecution.RunID)
}

func (a *Activities) deleteCommands(ctx context.Context, selector string) error {
	now := int64(0)
	err := a.Kube.CoreV1().Pods(a.Builder.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("delete the pods that an earlier sweep left: %w", err)
	}
	return nil
}
