package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

const (
	// stopManager owns the condition Stopped of Disruptions, and the status of
	// EmergencyStops.
	stopManager = "squall-bridge-stop"
	// parallel bounds the API calls of an emergency stop under way at once.
	parallel = 32
)

// stopper carries out EmergencyStops as far as Kubernetes goes, and calls
// nobody else: with Temporal away, or slow, it works as fast. What it does is
// twofold. It marks every Disruption that could still inject as stopped, for
// good; and it deletes the chaos pods, which makes their injectors clean. They
// keep their finalizers: what became of them is judged by the workflow.
type stopper struct {
	client client.Client
	// live reads from the API server.
	live           client.Reader
	chaosNamespace string
	// watched are the namespaces whose Disruptions this bridge looks after;
	// empty means all. Chaos pods of others are another bridge's.
	watched []string
	// wrote is when status was last written.
	wrote time.Time
}

// watchStops lets s hear of everything it acts on. There is one key, since all
// it does concerns all.
func watchStops(m manager.Manager, s *stopper, o controller.Options) error {
	o.MaxConcurrentReconciles = 1
	pass := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "everything"}}}
	when := func(concerned func(context.Context, client.Object) bool) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
			if concerned(ctx, object) {
				return pass
			}
			return nil
		})
	}
	err := builder.ControllerManagedBy(m).
		Named("emergencystop").
		WithOptions(o).
		Watches(&v1beta1.EmergencyStop{}, when(func(context.Context, client.Object) bool { return true })).
		Watches(&v1beta1.Disruption{}, when(s.concernsDisruption)).
		Watches(&corev1.Pod{}, when(s.concernsPod), builder.WithPredicates(onUpdate(podChanged))).
		Complete(reconcile.Func(s.enforce))
	if err != nil {
		return fmt.Errorf("build the controller of emergency stops: %w", err)
	}
	return nil
}

func (s *stopper) concernsDisruption(ctx context.Context, object client.Object) bool {
	d, ok := object.(*v1beta1.Disruption)
	return ok && (d.Stopped() != "" && !settled(d) || stopExists(ctx, s.client))
}

// concernsPod is true also when no stop exists any more: what one stopped must
// not come back.
func (s *stopper) concernsPod(ctx context.Context, object client.Object) bool {
	if !isChaosPod(object, s.chaosNamespace) {
		return false
	}
	var owners v1beta1.DisruptionList
	err := s.client.List(ctx, &owners, client.UnsafeDisableDeepCopy,
		client.MatchingFields{indexDisruptionUID: object.GetLabels()[v1beta1.LabelDisruptionUID]})
	return err == nil && len(owners.Items) == 1 && owners.Items[0].Stopped() != "" || stopExists(ctx, s.client)
}

// stopExists reads from the cache.
func stopExists(ctx context.Context, cached client.Reader) bool {
	var stops v1beta1.EmergencyStopList
	err := cached.List(ctx, &stops, client.UnsafeDisableDeepCopy)
	return err == nil && len(stops.Items) > 0 // the cache fails only for a type nobody watches
}

// enforce is one pass over all Disruptions and chaos pods, from the caches. It
// may be repeated at any time, and goes on where a bridge before it was killed.
func (s *stopper) enforce(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	o, err := s.see(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(o.stops) > 0 {
		err = s.markAll(ctx, o)
	}
	pods := o.toDelete()
	if len(pods) > 0 {
		log.FromContext(ctx).Info("deleting chaos pods for an emergency stop", "chaosPods", len(pods))
	}
	err = errors.Join(err, s.deleteAll(ctx, pods))
	again, failed := s.report(ctx, o)
	if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// overview is what the caches show of everything a stop concerns.
type overview struct {
	stops       []v1beta1.EmergencyStop
	disruptions []v1beta1.Disruption // none may be changed
	chaosPods   []corev1.Pod         // nor these
	// marked has the Disruptions that were stopped for good, by UID.
	marked map[types.UID]bool
}

func (s *stopper) see(ctx context.Context) (*overview, error) {
	var stops v1beta1.EmergencyStopList
	var disruptions v1beta1.DisruptionList
	var pods corev1.PodList
	shared := client.UnsafeDisableDeepCopy
	err := errors.Join(s.client.List(ctx, &stops), s.client.List(ctx, &disruptions, shared),
		s.client.List(ctx, &pods, shared, client.InNamespace(s.chaosNamespace), client.HasLabels{v1beta1.LabelDisruptionUID}))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLook, err)
	}
	o := &overview{stops: stops.Items, disruptions: disruptions.Items, marked: map[types.UID]bool{}}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ours := len(s.watched) == 0 || slices.Contains(s.watched, pod.Labels[v1beta1.LabelDisruptionNamespace])
		if ours && isChaosPod(pod, s.chaosNamespace) {
			o.chaosPods = append(o.chaosPods, *pod)
		}
	}
	for i := range o.disruptions {
		d := &o.disruptions[i]
		o.marked[d.UID] = d.Stopped() != ""
	}
	return o, nil
}

// markAll marks every Disruption that may still inject, if there is still a
// stop: the caches are not in step, and one begun after a stop is not stopped.
// Nothing is deleted of one that could not be marked: its workflow would take
// other targets.
func (s *stopper) markAll(ctx context.Context, o *overview) error {
	var unmarked []*v1beta1.Disruption
	for i := range o.disruptions {
		if d := &o.disruptions[i]; !ending(d) {
			unmarked = append(unmarked, d)
		}
	}
	if len(unmarked) == 0 {
		return nil
	}
	var stops v1beta1.EmergencyStopList
	if err := s.live.List(ctx, &stops); err != nil {
		return fmt.Errorf("look whether there is still an emergency stop: %w", err)
	}
	stop := v1beta1.FirstStop(stops.Items)
	if stop == nil {
		return nil
	}
	failed := each(unmarked, func(d *v1beta1.Disruption) error { return s.mark(ctx, d, stop.Ending()) })
	for i, d := range unmarked {
		o.marked[d.UID] = failed[i] == nil
		if apierrors.IsConflict(failed[i]) || apierrors.IsNotFound(failed[i]) {
			failed[i] = nil // a newer version is on its way into the cache, and comes by itself
		}
	}
	return errors.Join(failed...)
}

func (s *stopper) mark(ctx context.Context, d *v1beta1.Disruption, why string) error {
	err := applyCondition(ctx, s.client, d, stopManager, metav1.Condition{
		Type: v1beta1.ConditionStopped, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonEmergencyStop, Message: why,
		ObservedGeneration: d.Generation, LastTransitionTime: metav1.Now(),
	})
	if err != nil {
		return fmt.Errorf("mark disruption %s/%s as stopped: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// toDelete are the chaos pods that still run and may not: while a stop exists
// all of them, later those of the Disruptions it stopped. One that ended is
// left as it is for the workflow, or a person, to look at.
func (o *overview) toDelete() (pods []*corev1.Pod) {
	alive := map[types.UID]bool{}
	for i := range o.disruptions {
		d := &o.disruptions[i]
		alive[d.UID] = !ending(d) && !o.marked[d.UID]
	}
	for i := range o.chaosPods {
		pod := &o.chaosPods[i]
		uid := types.UID(pod.Labels[v1beta1.LabelDisruptionUID])
		goes := o.marked[uid] || len(o.stops) > 0 && !alive[uid]
		if goes && pod.DeletionTimestamp == nil && !kube.InjectorEnded(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// deleteAll asks for the end of exactly these pods. One that is gone is done.
func (s *stopper) deleteAll(ctx context.Context, pods []*corev1.Pod) error {
	return errors.Join(each(pods, func(pod *corev1.Pod) error {
		err := s.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete chaos pod %s: %w", pod.Name, err)
		}
		return nil
	})...)
}

// each does something to all, parallel at a time, and returns every outcome:
// one that fails stops no other.
func each[T any](all []*T, do func(*T) error) []error {
	failed := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, one := range all {
		group.Go(func() error { failed[i] = do(one); return nil })
	}
	_ = group.Wait() // nobody fails the group
	return failed
}
