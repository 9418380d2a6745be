// Package replace carries out podReplacement: the activity ReplacePods. It promises that
// another attempt continues where an earlier one stopped, and replaces no pod twice.
package replace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Times of ReplacePods.
const (
	// goneGap is the time between two checks whether the deleted pods of a node are gone.
	goneGap = 500 * time.Millisecond
	// turnGap is the least time between two checks whether the disruption may cordon a
	// node.
	turnGap = time.Second
	// gonePatience is how long a pod may exist after its grace period.
	gonePatience = 2 * time.Minute
	// successorPatience is how long a node stays cordoned, once its pods are gone, until
	// their successors have another node.
	successorPatience = 30 * time.Second
	// writeGap is the time between two writes of progress into records and status.
	writeGap = time.Second
)

// Activities has the activity ReplacePods.
type Activities struct {
	*cluster.Cluster
	// CordonsAtOnce is the highest number of the cluster's nodes that pod replacement keeps
	// cordoned at once. 0 means 1.
	CordonsAtOnce int
	// GonePatience is how long ReplacePods waits for a pod's removal after its grace
	// period. 0 means 2 minutes.
	GonePatience time.Duration
	// SuccessorPatience is how long ReplacePods then waits until the pods' successors have a
	// node. 0 means 30 s.
	SuccessorPatience time.Duration
}

// Result counts the targets that ReplacePods replaced.
type Result struct {
	Replaced int `json:"replaced"`
	Total    int `json:"total"`
	// Lost counts targets that were gone before ReplacePods did anything.
	Lost int `json:"lost,omitempty"`
	// Stopped is why nothing may be replaced any more.
	Stopped string `json:"stopped,omitempty"`
}

// ReplacePods replaces the disruption's targets, node by node. It cordons the node, deletes
// the pods, waits until they are gone and their successors have another node, and
// uncordons. It writes each result into status as it comes (rules 28-31, 33). Another call
// continues with the pods that are not replaced yet, and touches no target twice (rule 18).
// A pod that cannot be replaced is no error. If it is cancelled, it leaves nodes cordoned,
// and CleanChaosPods uncordons them.
func (a *Activities) ReplacePods(ctx context.Context, ref v1beta1.DisruptionRef) (Result, error) {
	r, err := a.newReplacing(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	if err := r.begin(ctx); err != nil {
		return Result{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.replaceAll(ctx) }()
	tick := time.NewTicker(writeGap)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case err = <-ended:
			over = true
		case <-tick.C:
			_ = r.writeProgress(ctx) // the last write below repeats a failed one
		}
	}
	if err := errors.Join(err, r.writeProgress(ctx)); err != nil {
		return Result{}, err
	}
	r.recordEvents(ctx)
	return r.result(), nil
}

// replacing is the state of one ReplacePods. The shards are its journal.
type replacing struct {
	a       *Activities
	d       *v1beta1.Disruption
	pods    replacement.Pods
	cordons replacement.Cordons
	users   replacement.Users
	// fresh are the targets on which no earlier attempt worked.
	fresh map[types.UID]bool

	mu     sync.Mutex
	shards []targets.Shard
	// shardOf has the index of each target's shard, dirty the indexes of shards that are
	// not written yet.
	shardOf map[types.UID]int
	dirty   map[int]bool
	stopped string
	lost    []targets.Target
}

func (a *Activities) newReplacing(ctx context.Context, ref v1beta1.DisruptionRef) (*replacing, error) {
	d, err := a.Targets.LoadSpec(ctx, ref)
	if err != nil {
		return nil, err
	}
	shards, err := a.Targets.Shards(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &replacing{
		a: a, d: d, shards: shards, cordons: replacement.Cordons{Kube: a.Kube},
		fresh: map[types.UID]bool{}, shardOf: map[types.UID]int{}, dirty: map[int]bool{},
		pods: replacement.Pods{Kube: a.Kube, Namespace: d.Namespace, Params: *d.Spec.PodReplacement},
	}, nil
}

// begin records the targets that are about to be replaced before anything is done. If such
// a target is gone later, it was replaced. The record has the storage of each target, which
// cannot be read from a pod that is gone.
func (r *replacing) begin(ctx context.Context) error {
	var fresh []*targets.Target
	left := false
	for i := range r.shards {
		for j := range r.shards[i].Targets {
			target := &r.shards[i].Targets[j]
			r.shardOf[target.UID] = i
			if target.Active() && target.Replacement == nil {
				fresh = append(fresh, target)
			}
			left = left || target.Active() && (target.Replacement == nil || target.Replacement.State == targets.Replacing)
		}
	}
	if !left {
		return nil
	}
	var err error
	if r.users, err = r.pods.Users(ctx); err != nil {
		return err
	}
	for _, target := range fresh {
		r.fresh[target.UID], r.dirty[r.shardOf[target.UID]] = true, true
		target.Replacement = &targets.Replacement{State: targets.Replacing, Since: metav1.Now()}
		target.Replacement.Claims, target.Replacement.Shared = r.users.Of(target.UID)
	}
	return r.writeRecords(ctx)
}

// replaceAll works on CordonsAtOnce nodes at a time. A failure on one node does not stop
// the others.
func (r *replacing) replaceAll(ctx context.Context) error {
	nodes := map[string][]*targets.Target{}
	for i := range r.shards {
		for j := range r.shards[i].Targets {
			target := &r.shards[i].Targets[j]
			if target.Active() && target.Replacement.State == targets.Replacing {
				nodes[target.NodeName] = append(nodes[target.NodeName], target)
			}
		}
	}
	if len(nodes) == 0 {
		return r.uncordonAll(ctx)
	}
	order, err := r.order(ctx, nodes)
	if err != nil {
		return err
	}
	errs := kube.Each(len(order), r.a.CordonsAtOnce, func(i int) error {
		return r.replaceOn(ctx, order[i], nodes[order[i]])
	})
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > 0 {
		return errors.Join(errs[:min(len(errs), 3)]...)
	}
	return r.uncordonAll(ctx)
}

// order is the order of the nodes. Nodes that an earlier attempt left cordoned come first:
// they have had their turn. It uncordons nodes with no pod left to replace.
func (r *replacing) order(ctx context.Context, nodes map[string][]*targets.Target) ([]string, error) {
	marked, err := r.cordons.Of(ctx, r.d.UID)
	if err != nil {
		return nil, err
	}
	var first []string
	for _, node := range marked {
		if len(nodes[node]) > 0 {
			first = append(first, node)
		} else if err := r.cordons.Uncordon(ctx, node, r.d.UID); err != nil {
			return nil, err
		}
	}
	rest := slices.DeleteFunc(slices.Sorted(maps.Keys(nodes)), func(node string) bool { return slices.Contains(first, node) })
	return append(first, rest...), nil
}

// uncordonAll removes the cordons that an earlier attempt could not remove.
func (r *replacing) uncordonAll(ctx context.Context) error {
	nodes, err := r.cordons.Of(ctx, r.d.UID)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := r.cordons.Uncordon(ctx, node, r.d.UID); err != nil {
			return err
		}
	}
	return nil
}

// replaceOn replaces the targets on one node.
func (r *replacing) replaceOn(ctx context.Context, node string, pods []*targets.Target) error {
	if stopped, err := r.isStopped(ctx); stopped || err != nil {
		return err
	}
	if r.d.Spec.DryRun {
		for _, pod := range pods {
			cluster.Events(r.a.Kube).Replaced(ctx, r.d, pod.InjectionTarget, "a dry run, so nothing is done")
			r.note(pod, targets.Replaced, "")
		}
		return nil
	}
	if stopped, err := r.cordon(ctx, node, pods); stopped || err != nil {
		return err
	}
	before, err := r.pods.Matching(ctx, r.selector())
	if err != nil {
		return err
	}
	deleted, going, err := r.deleteEach(ctx, node, pods)
	if err != nil {
		return err
	}
	if err := r.awaitGone(ctx, node, going); err != nil {
		return err
	}
	if err := r.awaitSuccessors(ctx, deleted, before); err != nil {
		return err
	}
	return r.cordons.Uncordon(ctx, node, r.d.UID)
}

// isStopped is true when nothing may be replaced any more.
func (r *replacing) isStopped(ctx context.Context) (bool, error) {
	why, err := cluster.Stopped(ctx, r.a.Cluster, r.d.Ref())
	if why == "" || err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = cmp.Or(r.stopped, why)
	return true, nil
}

// cordon cordons the node of pods once disruptions keep few enough of the cluster's nodes
// cordoned. Until then status shows, for each of the pods, the cordoned nodes that it waits
// for.
func (r *replacing) cordon(ctx context.Context, node string, pods []*targets.Target) (stopped bool, err error) {
	most := max(r.a.CordonsAtOnce, 1)
	// An attempt before this one may have recorded that the pods wait.
	first := *pods[0].Replacement
	since := first.WaitsSince
	for waited := first.Why; ; {
		others, err := r.cordons.CordonInTurn(ctx, node, r.d.Ref(), most)
		if err != nil {
			return false, err
		}
		why := ""
		if len(others) > 0 {
			since = cmp.Or(since, ptr.To(metav1.Now()))
			why = waitsFor(node, since.Time, others, most)
		}
		if why != waited {
			waited = why
			for _, pod := range pods {
				r.noteWait(pod, why, since)
			}
		}
		if why == "" {
			return false, nil
		}
		if err := r.wait(ctx, turnGap+rand.N(turnGap)); err != nil {
			return false, err
		}
		if stopped, err := r.isStopped(ctx); stopped || err != nil {
			return stopped, err
		}
	}
}

// waitsFor describes for what, and since when, the pods on a node wait.
func waitsFor(node string, since time.Time, others []*corev1.Node, most int) string {
	var holders []string
	for _, other := range others {
		ref := replacement.Marks(other)[0]
		holders = append(holders, fmt.Sprintf("%s by %s/%s", other.Name, ref.Namespace, ref.Name))
	}
	return fmt.Sprintf("waits since %s to cordon node %s: disruptions keep %d of at most %d nodes cordoned (%s); the worker setting cordons-at-once is the limit",
		since.UTC().Format(time.RFC3339), node, len(others), most, cluster.ShortList(holders))
}

func (r *replacing) selector() string {
	selector, err := r.d.Spec.LabelSelector()
	if err != nil {
		return "" // a spec with such a selector was rejected
	}
	return selector.String()
}

// going has the targets that were deleted and may still exist, with the time by which they
// should be gone.
type going map[*targets.Target]time.Time

// deleteEach deletes the targets on a node. A failed deletion does not stop the others.
func (r *replacing) deleteEach(ctx context.Context, node string, pods []*targets.Target) ([]replacement.Deletion, going, error) {
	var deleted []replacement.Deletion
	var errs []error
	left := going{}
	for _, pod := range pods {
		done, err := r.pods.Delete(ctx, pod.InjectionTarget, r.users)
		switch {
		case err != nil:
			errs = append(errs, err)
		case done.Gone && r.fresh[pod.UID]:
			r.noteLost(pod)
		case done.Gone:
			done.Claims, done.Shared = pod.Replacement.Claims, pod.Replacement.Shared
			cluster.Events(r.a.Kube).Replaced(ctx, r.d, pod.InjectionTarget, deletionMessage(node, done))
			r.note(pod, targets.Replaced, "")
		case done.Refused != "":
			r.note(pod, targets.NotReplaced, done.Refused)
			cluster.Events(r.a.Kube).InjectionFailed(ctx, r.d, pod.InjectionTarget, done.Refused)
		default:
			deleted, left[pod] = append(deleted, done), done.Due
			cluster.Events(r.a.Kube).Replaced(ctx, r.d, pod.InjectionTarget, deletionMessage(node, done))
		}
	}
	return deleted, left, errors.Join(errs[:min(len(errs), 3)]...)
}

// deletionMessage is the event's text on a target's deletion.
func deletionMessage(node string, d replacement.Deletion) string {
	text := "node " + node + " takes no new pods meanwhile"
	if len(d.Claims) > 0 {
		text += "; deleted with it: PersistentVolumeClaims " + cluster.ShortList(slices.Sorted(slices.Values(d.Claims)))
	}
	if len(d.Shared) > 0 {
		text += "; left, as other pods mount them: PersistentVolumeClaims " + cluster.ShortList(slices.Sorted(slices.Values(d.Shared)))
	}
	return text
}

// awaitGone waits until the deleted pods are gone, or have existed for too long.
func (r *replacing) awaitGone(ctx context.Context, node string, left going) error {
	for len(left) > 0 {
		there, err := r.pods.On(ctx, node)
		if err != nil {
			return err
		}
		for pod, due := range left {
			switch {
			case !there[pod.UID]:
				r.note(pod, targets.Replaced, "")
			case time.Since(due) > cmp.Or(r.a.GonePatience, gonePatience):
				r.note(pod, targets.NotReplaced, "it was deleted and is still there: a finalizer holds it, or its node's kubelet does not answer")
			default:
				continue
			}
			delete(left, pod)
		}
		if len(left) > 0 {
			if err := r.wait(ctx, goneGap); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitSuccessors waits for at most SuccessorPatience until the successors have another
// node. The node is cordoned meanwhile; if no other node takes them, they return to this
// one.
func (r *replacing) awaitSuccessors(ctx context.Context, deleted []replacement.Deletion, before []corev1.Pod) error {
	for began := time.Now(); time.Since(began) < cmp.Or(r.a.SuccessorPatience, successorPatience); {
		now, err := r.pods.Matching(ctx, r.selector())
		if err != nil {
			return err
		}
		if replacement.Succeeded(deleted, before, now) {
			return nil
		}
		if err := r.wait(ctx, goneGap); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for gap, or until the activity ends.
func (r *replacing) wait(ctx context.Context, gap time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-activity.GetWorkerStopChannel(ctx):
		return cluster.ErrWorkerStops
	case <-time.After(gap):
		return nil
	}
}

// note keeps the state of a target for the next write.
func (r *replacing) note(target *targets.Target, state targets.ReplacementState, why string) {
	r.change(target, func() {
		target.Replacement = &targets.Replacement{State: state, Since: metav1.Now(), Why: why}
	})
}

// noteWait records why a target on a node that cannot be cordoned yet waits, and since
// when. An empty why ends the wait. The rest of the record stays.
func (r *replacing) noteWait(target *targets.Target, why string, since *metav1.Time) {
	if why == "" {
		since = nil
	}
	r.change(target, func() {
		waits := *target.Replacement
		waits.Why, waits.WaitsSince = why, since
		target.Replacement = &waits
	})
}

// noteLost ends a target that was gone before ReplacePods did anything to it.
func (r *replacing) noteLost(target *targets.Target) {
	r.change(target, func() {
		target.End(targets.Ending{Why: targets.Gone, Lost: true}, "")
		r.lost = append(r.lost, *target)
	})
}

func (r *replacing) change(target *targets.Target, change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.dirty[r.shardOf[target.UID]] = true
}
