// Package verify searches nodes for what a Disruption may have left there: the activity
// VerifyNodes. It promises that a node counts as clean only after a search, or once it is
// gone.
package verify

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/nodecommand"
	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Activities has the activity VerifyNodes.
type Activities struct{ *cluster.Cluster }

// Input has the nodes whose chaos pods ended without a proof that they left nothing.
type Input struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	Nodes      []string              `json:"nodes"`
	// Released is true when a person force-released a failed chaos pod: VerifyNodes then
	// reports what is left and does not remove it.
	Released bool `json:"released,omitempty"`
}

// Result has the marks that are left on these nodes.
type Result struct {
	// Left lists what is left, or could not be checked; at most 50 entries.
	Left []string `json:"left,omitempty"`
}

// mostLeft bounds the list in a workflow's history.
const mostLeft = 50

// VerifyNodes searches the nodes for the disruption's marks, cleans up from the journal,
// and returns what is left. A node that is gone has nothing left. It waits for a node that
// is not ready, up to the node timeout. It costs two API writes for each node, and four
// more for a node with something to clean.
func (a *Activities) VerifyNodes(ctx context.Context, in Input) (Result, error) {
	labels := chaospod.OwnerLabels(in.Disruption)
	labels[v1beta1.LabelCleaner] = "true"
	v := &verification{a: a, in: in, owner: chaospod.Owner{Name: activity.GetInfo(ctx).WorkflowExecution.RunID, Labels: labels}}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Parallel)
	for _, name := range in.Nodes {
		group.Go(func() error { return v.verify(groupCtx, name) })
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	slices.Sort(v.left)
	return Result{Left: v.left[:min(len(v.left), mostLeft)]}, nil
}

// verification is the state of one VerifyNodes.
type verification struct {
	a     *Activities
	in    Input
	owner chaospod.Owner
	mu    sync.Mutex
	left  []string
}

func (v *verification) verify(ctx context.Context, name string) error {
	node, err := cluster.ReadNode(ctx, v.a.Cluster, name)
	if node == nil || err != nil {
		return err
	}
	if replacement.Marked(node, v.in.Disruption.UID) {
		if err := v.uncordon(ctx, name); err != nil {
			return err
		}
	}
	if node, err = v.awaitReady(ctx, node); node == nil || err != nil {
		return err
	}
	if !kube.NodeReady(node) {
		v.addLeft(name, "the node is not ready, so it could not be searched")
		return nil
	}
	marks, err := v.audit(ctx, node)
	if err != nil || len(marks) == 0 || v.in.Released {
		v.addLeft(name, marks...)
		return err
	}
	messages, err := v.commands().Clean(ctx, v.owner, node, v.in.Disruption.UID)
	if err != nil {
		return err
	}
	marks, err = v.audit(ctx, node)
	if message := messages[v.in.Disruption.UID]; len(marks) > 0 && message != "" {
		marks = append(marks, message)
	}
	v.addLeft(name, marks...)
	return err
}

// uncordon removes the disruption's cordon from a node. If a person force-released it,
// uncordon only reports it.
func (v *verification) uncordon(ctx context.Context, name string) error {
	if !v.in.Released {
		return replacement.Cordons{Kube: v.a.Kube}.Uncordon(ctx, name, v.in.Disruption.UID)
	}
	v.addLeft(name, fmt.Sprintf("it is cordoned, with the annotation %s%s", v1beta1.AnnotationCordon, v.in.Disruption.UID))
	return nil
}

// commands runs commands on nodes.
func (v *verification) commands() nodecommand.Runner {
	return nodecommand.Runner{Kube: v.a.Kube, Builder: v.a.Builder}
}

// awaitReady waits for a node that is not ready as long as for one that does not answer:
// most nodes that restart or lose their network are ready again by then. nil means that the
// node is gone.
func (v *verification) awaitReady(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	deadline := time.Now().Add(v.a.Builder.Timeout())
	for gap := 250 * time.Millisecond; !kube.NodeReady(node) && time.Now().Before(deadline); gap = min(2*gap, 5*time.Second) {
		if err := cluster.Pause(ctx, gap); err != nil {
			return nil, err
		}
		var err error
		if node, err = cluster.ReadNode(ctx, v.a.Cluster, node.Name); node == nil || err != nil {
			return nil, err
		}
	}
	return node, nil
}

// audit returns the disruption's marks on a node, or why it could not look for them.
func (v *verification) audit(ctx context.Context, node *corev1.Node) (marks []string, err error) {
	audit, why, err := v.commands().Audit(ctx, v.owner, node, "--disruption", string(v.in.Disruption.UID))
	if err != nil {
		return nil, err
	}
	for _, mark := range audit.Marks {
		marks = append(marks, mark.Object)
	}
	if audit.More > 0 {
		marks = append(marks, fmt.Sprintf("%d more", audit.More))
	}
	if why != "" {
		marks = append(marks, why)
	}
	return marks, nil
}

func (v *verification) addLeft(node string, what ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, object := range what {
		v.left = append(v.left, "node "+node+": "+object)
	}
}
