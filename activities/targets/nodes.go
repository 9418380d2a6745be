package targets

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/kube"
)

// NodeShare bounds the chaos pods of each node, so that its other pods, and the
// cleaners, find a place.
type NodeShare struct {
	// Percent of the pods that a node can run.
	Percent int
	// Each is how many chaos pods a target gets, Taken how many chaos pods of other
	// disruptions are on a node.
	Each  int
	Taken func(node string) int
}

// alwaysFits is a number of chaos pods for which NodeBudgets reads no node's capacity:
// any node that runs pods has room for them.
const alwaysFits = 3

// NodeBudgets returns the room that the share leaves on the candidates' nodes: one
// budget for each node with fewer places than candidates. A node without any chaos pod
// has room for one target, however small the node is.
func (s *Store) NodeBudgets(ctx context.Context, share NodeShare, healthy []Candidate) (Budgets, error) {
	on := map[string]map[types.UID]bool{}
	for _, c := range healthy {
		if on[c.Target.NodeName] == nil {
			on[c.Target.NodeName] = map[types.UID]bool{}
		}
		on[c.Target.NodeName][c.Target.UID] = true
	}
	taken := map[string]int{}
	for node, pods := range on {
		if n := share.Taken(node); n+len(pods)*share.Each > alwaysFits {
			taken[node] = n
		}
	}
	slots, err := s.podSlots(ctx, taken)
	if err != nil {
		return nil, err
	}
	var budgets Budgets
	for _, node := range slices.Sorted(maps.Keys(slots)) {
		places := slots[node]
		most := places * share.Percent / 100
		allowed := max(0, most-taken[node]) / share.Each
		if taken[node] == 0 {
			allowed = max(allowed, 1)
		}
		if allowed < len(on[node]) {
			name := fmt.Sprintf("%s (%d %% of %d pods, %d taken by other disruptions)", node, share.Percent, places, taken[node])
			budgets = append(budgets, budget{name: name, allowed: allowed, pods: on[node], counted: true})
		}
	}
	return budgets, nil
}

// fewNodes bounds the nodes that podSlots reads one by one; it lists more.
const fewNodes = 20

// podSlots returns how many pods each of the nodes can run. Nodes that are gone, or
// report no number, are missing.
func (s *Store) podSlots(ctx context.Context, wanted map[string]int) (map[string]int, error) {
	slots := map[string]int{}
	note := func(node *corev1.Node) {
		places := int(node.Status.Allocatable.Pods().Value())
		if _, found := wanted[node.Name]; found && places > 0 {
			slots[node.Name] = places
		}
	}
	if len(wanted) > fewNodes {
		err := kube.Pages(ctx, s.Kube.CoreV1().Nodes().List, metav1.ListOptions{Limit: s.pageSize}, func(page *corev1.NodeList) {
			for i := range page.Items {
				note(&page.Items[i])
			}
		})
		if err != nil {
			return nil, fmt.Errorf("list nodes for the number of pods that they take: %w", err)
		}
		return slots, nil
	}
	nodes := make(chan *corev1.Node, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.Parallel)
	for name := range wanted {
		group.Go(func() error {
			node, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read the number of pods that node %s takes: %w", name, err)
			}
			nodes <- node
			return nil
		})
	}
	err := group.Wait()
	close(nodes)
	for node := range nodes {
		note(node)
	}
	return slots, err
}

// roomEvery is how often a disruption that lacks room on nodes checks whether other
// disruptions, of any namespace, have ended.
const roomEvery = time.Minute

// NoteNodes writes into the selection which candidates were not chosen because their
// nodes have no room for more chaos pods, and sets RetryAt.
func (s *Selection) NoteNodes(healthy []Candidate, nodes Budgets, claims Claims, now time.Time) {
	if s.Selected >= s.Desired {
		return
	}
	held := nodes.beside(claims)
	left, names := held.leftOut(healthy, claims, func(c Candidate, full int) string {
		if full < 0 || claims.Holders[c.Target.UID] != "" || c.Operation != "" {
			return ""
		}
		return nodes[full].name
	})
	if left == 0 {
		return
	}
	s.Full = fmt.Sprintf("%d are left out, as their nodes have no room for more chaos pods (setting chaos-pods-per-node): %s", left, names)
	if next := now.Add(roomEvery); s.RetryAt == nil || next.Before(*s.RetryAt) {
		s.RetryAt = &next
	}
}
