// Package emergencystop is the bridge's controller of EmergencyStops: it marks every
// Disruption as stopped, and everything that begins Disruptions, and deletes the chaos
// pods. It does not call Temporal, so it works as fast while Temporal is away or slow.
package emergencystop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/kube"
)

const (
	// stopManager owns the condition Stopped of Disruptions, and the status of
	// EmergencyStops.
	stopManager = "squall-bridge-stop"
	// parallel bounds the API calls of an emergency stop under way at once.
	parallel = 32
)

// stopReconciler does the part of an EmergencyStop that Kubernetes can do. It marks every
// Disruption that could still inject as stopped, for good. It deletes the chaos pods, which
// makes their injectors clean up. They keep their finalizers: the workflow judges what
// became of them.
type stopReconciler struct {
	client client.Client
	// live reads from the API server.
	live           client.Reader
	chaosNamespace string
	// watched are the namespaces whose Disruptions this bridge handles; empty means all.
	// Chaos pods of others are another bridge's.
	watched []string
	// wrote is when status was last written.
	wrote time.Time
	// deleted are the chaos pods that the previous pass deleted, which the caches may not
	// show yet.
	deleted map[types.UID]bool
}

// Setup adds the controller of EmergencyStops to m. It has one key, because each pass
// covers everything. watched are the namespaces whose Disruptions this bridge handles;
// empty means all.
func Setup(m manager.Manager, chaosNamespace string, watched []string) error {
	r := &stopReconciler{client: m.GetClient(), live: m.GetAPIReader(), chaosNamespace: chaosNamespace, watched: watched}
	options := queue.Options[reconcile.Request]()
	options.MaxConcurrentReconciles = 1
	pass := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "everything"}}}
	when := func(concerned func(context.Context, client.Object) bool) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
			if concerned(ctx, object) {
				return pass
			}
			return nil
		})
	}
	always := func(context.Context, client.Object) bool { return true }
	duringStop := when(func(ctx context.Context, _ client.Object) bool { return cached.StopExists(ctx, r.client) })
	err := builder.ControllerManagedBy(m).
		Named("emergencystop").
		WithOptions(options).
		Watches(&v1beta1.EmergencyStop{}, when(always)).
		Watches(&v1beta1.DisruptionScenario{}, duringStop).
		Watches(&v1beta1.DisruptionRollout{}, duringStop).
		Watches(&v1beta1.DisruptionCron{}, duringStop).
		Watches(&v1beta1.Disruption{}, when(r.concernsDisruption)).
		Watches(&corev1.Pod{}, when(r.concernsPod), builder.WithPredicates(cached.OnUpdate(cached.PodChanged))).
		Complete(reconcile.Func(r.enforce))
	if err != nil {
		return fmt.Errorf("build the controller of emergency stops: %w", err)
	}
	return nil
}

func (r *stopReconciler) concernsDisruption(ctx context.Context, object client.Object) bool {
	d, ok := object.(*v1beta1.Disruption)
	return ok && (d.Stopped() != "" && !d.Settled() || cached.StopExists(ctx, r.client))
}

// concernsPod is true also when no stop exists any more: a stopped disruption must not
// inject again.
func (r *stopReconciler) concernsPod(ctx context.Context, object client.Object) bool {
	if !cached.IsChaosPod(object, r.chaosNamespace) {
		return false
	}
	var owners v1beta1.DisruptionList
	err := r.client.List(ctx, &owners, client.UnsafeDisableDeepCopy,
		client.MatchingFields{cached.IndexDisruptionUID: object.GetLabels()[v1beta1.LabelDisruptionUID]})
	return err == nil && len(owners.Items) == 1 && owners.Items[0].Stopped() != "" || cached.StopExists(ctx, r.client)
}

// enforce is one pass over all Disruptions and chaos pods, from the caches. It may be
// repeated at any time, and resumes where a bridge that was killed stopped.
func (r *stopReconciler) enforce(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	s, err := r.snapshot(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(s.stops) > 0 {
		err = r.markAll(ctx, s)
	}
	err = errors.Join(err, r.deleteAll(ctx, s.toDelete()))
	again, failed := r.report(ctx, s)
	if err = errors.Join(err, failed); err != nil && ctx.Err() == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// stopSnapshot is what the caches show of everything a stop concerns.
type stopSnapshot struct {
	stops       []v1beta1.EmergencyStop
	disruptions []v1beta1.Disruption // shared with the cache: do not change
	chaosPods   []corev1.Pod         // shared with the cache: do not change
	// parents begin disruptions: DisruptionScenarios that are not over, all
	// DisruptionRollouts and DisruptionCrons. They are shared with the cache: do not change
	// them.
	parents []client.Object
	// scenarios are the names of those DisruptionScenarios.
	scenarios []string
	// marked has the Disruptions that were stopped for good, by UID.
	marked map[types.UID]bool
}

func (r *stopReconciler) snapshot(ctx context.Context) (*stopSnapshot, error) {
	var stops v1beta1.EmergencyStopList
	var disruptions v1beta1.DisruptionList
	var pods corev1.PodList
	shared := client.UnsafeDisableDeepCopy
	err := errors.Join(r.client.List(ctx, &stops), r.client.List(ctx, &disruptions, shared),
		r.client.List(ctx, &pods, shared, client.InNamespace(r.chaosNamespace), client.HasLabels{v1beta1.LabelDisruptionUID}))
	if err != nil {
		return nil, fmt.Errorf("read the caches: %w", err)
	}
	s := &stopSnapshot{stops: stops.Items, disruptions: disruptions.Items, marked: map[types.UID]bool{}}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ours := len(r.watched) == 0 || slices.Contains(r.watched, pod.Labels[v1beta1.LabelDisruptionNamespace])
		if ours && cached.IsChaosPod(pod, r.chaosNamespace) {
			s.chaosPods = append(s.chaosPods, *pod)
		}
	}
	for i := range s.disruptions {
		d := &s.disruptions[i]
		s.marked[d.UID] = d.Stopped() != ""
	}
	return s, r.listParents(ctx, s)
}

// listParents adds to a snapshot the objects that begin disruptions, if there is a stop.
func (r *stopReconciler) listParents(ctx context.Context, s *stopSnapshot) error {
	if len(s.stops) == 0 {
		return nil
	}
	var scenarios v1beta1.DisruptionScenarioList
	var rollouts v1beta1.DisruptionRolloutList
	var crons v1beta1.DisruptionCronList
	shared := client.UnsafeDisableDeepCopy
	if err := errors.Join(r.client.List(ctx, &scenarios, shared), r.client.List(ctx, &rollouts, shared), r.client.List(ctx, &crons, shared)); err != nil {
		return fmt.Errorf("read the caches: %w", err)
	}
	for i := range scenarios.Items {
		if scenario := &scenarios.Items[i]; !scenario.Status.Phase.Over() {
			s.parents = append(s.parents, scenario)
			s.scenarios = append(s.scenarios, scenario.Namespace+"/"+scenario.Name)
		}
	}
	for i := range rollouts.Items {
		s.parents = append(s.parents, &rollouts.Items[i])
	}
	for i := range crons.Items {
		s.parents = append(s.parents, &crons.Items[i])
	}
	return nil
}

// markAll marks every Disruption that may still inject, and everything that may begin one.
// It first reads live that a stop still exists: the caches of different types are not in
// step, and a disruption that began after a stop is not stopped. The chaos pods of a
// Disruption that could not be marked stay: its workflow would select other targets.
func (r *stopReconciler) markAll(ctx context.Context, s *stopSnapshot) error {
	var unmarked []*v1beta1.Disruption
	for i := range s.disruptions {
		if d := &s.disruptions[i]; !d.Ending() {
			unmarked = append(unmarked, d)
		}
	}
	parents := slices.DeleteFunc(slices.Clone(s.parents), func(o client.Object) bool { return metBy(o, v1beta1.FirstStop(s.stops)) })
	if len(unmarked)+len(parents) == 0 {
		return nil
	}
	var stops v1beta1.EmergencyStopList
	if err := r.live.List(ctx, &stops); err != nil {
		return fmt.Errorf("look whether there is still an emergency stop: %w", err)
	}
	stop := v1beta1.FirstStop(stops.Items)
	if stop == nil {
		return nil
	}
	failed := kube.Each(len(unmarked), parallel, func(i int) error { return r.mark(ctx, unmarked[i], stop.Ending()) })
	for i, d := range unmarked {
		s.marked[d.UID] = failed[i] == nil
		if apierrors.IsConflict(failed[i]) || apierrors.IsNotFound(failed[i]) {
			failed[i] = nil // a newer version reaches the cache and causes another pass
		}
	}
	return errors.Join(append(failed, r.markParents(ctx, parents, stop)...)...)
}

// metBy is true for an object that already has the mark of this stop.
func metBy(o client.Object, stop *v1beta1.EmergencyStop) bool {
	at, why := v1beta1.MetStop(o)
	return why == stop.Ending() && !at.Before(stop.CreationTimestamp.Time)
}

// markParents marks the objects that begin disruptions. No chaos pod depends on these
// marks, so an object that cannot be marked delays nothing else.
func (r *stopReconciler) markParents(ctx context.Context, parents []client.Object, stop *v1beta1.EmergencyStop) []error {
	mark := v1beta1.StoppedMark(time.Now(), stop.Ending())
	return kube.Each(len(parents), parallel, func(i int) error {
		o := parents[i]
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "annotations": map[string]string{v1beta1.AnnotationStopped: mark}}})
		if err != nil {
			return err
		}
		marked := o.DeepCopyObject().(client.Object)
		err = r.client.Patch(ctx, marked, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(stopManager))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("mark %T %s/%s as stopped: %w", o, o.GetNamespace(), o.GetName(), err)
		}
		return nil
	})
}

func (r *stopReconciler) mark(ctx context.Context, d *v1beta1.Disruption, why string) error {
	err := condition.Apply(ctx, r.client, d, stopManager, metav1.Condition{
		Type: v1beta1.ConditionStopped, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonEmergencyStop, Message: why,
		ObservedGeneration: d.Generation, LastTransitionTime: metav1.Now(),
	})
	if err != nil {
		return fmt.Errorf("mark disruption %s/%s as stopped: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// toDelete are the chaos pods that still run and must not. While a stop exists these are
// all, later those of the Disruptions it stopped. It leaves chaos pods that have ended for
// the workflow, or a person, to inspect.
func (s *stopSnapshot) toDelete() (pods []*corev1.Pod) {
	alive := map[types.UID]bool{}
	for i := range s.disruptions {
		d := &s.disruptions[i]
		alive[d.UID] = !d.Ending() && !s.marked[d.UID]
	}
	for i := range s.chaosPods {
		pod := &s.chaosPods[i]
		uid := types.UID(pod.Labels[v1beta1.LabelDisruptionUID])
		goes := s.marked[uid] || len(s.stops) > 0 && !alive[uid]
		if goes && pod.DeletionTimestamp == nil && !kube.InjectorEnded(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// deleteAll deletes exactly these pods, once each. A pod that is gone counts as deleted.
func (r *stopReconciler) deleteAll(ctx context.Context, pods []*corev1.Pod) error {
	deleted := map[types.UID]bool{}
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		deleted[pod.UID] = r.deleted[pod.UID]
		return deleted[pod.UID]
	})
	if len(pods) > 0 {
		log.FromContext(ctx).Info("deleting chaos pods for an emergency stop", "chaosPods", len(pods))
	}
	failed := kube.Each(len(pods), parallel, func(i int) error {
		pod := pods[i]
		err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete chaos pod %s: %w", pod.Name, err)
		}
		return nil
	})
	for i, pod := range pods {
		deleted[pod.UID] = failed[i] == nil
	}
	r.deleted = deleted
	return errors.Join(failed...)
}
