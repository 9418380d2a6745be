package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/crdbridge/service"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Setup adds the controller of Disruptions to m. It watches Disruptions, the pods, nodes,
// PodDisruptionBudgets and DisruptionPolicies that concern one, and the services it names.
// Handlers only put keys into the queue. The controller deletes a Disruption that ended ttl
// ago; 0 means never.
func Setup(m manager.Manager, workflows *temporal.Workflows, chaosNamespace string, ttl time.Duration) error {
	return setup(m, workflows, chaosNamespace, ttl, time.Now)
}

func setup(m manager.Manager, workflows *temporal.Workflows, chaosPods string, ttl time.Duration, now func() time.Time) error {
	services, err := service.New(m.GetConfig())
	if err != nil {
		return err
	}
	r := &reconciler{
		client: m.GetClient(), live: m.GetAPIReader(), workflows: workflows, chaosNamespace: chaosPods, sent: newSentStates(), services: services, ttl: ttl, now: now,
	}
	terminations := workflows.NewTerminationPoller(contract.WorkflowType, r.lost)
	err = builder.ControllerManagedBy(m).
		Named("disruption").
		WithOptions(queue.Options[reconcile.Request]()).
		For(&v1beta1.Disruption{}).
		Watches(&v1beta1.Disruption{}, r.freedBy()).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.concernedByPod), builder.WithPredicates(r.podPredicate())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.concernedByNode), builder.WithPredicates(cached.OnUpdate(cached.NodeChanged))).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.concernedByBudget), builder.WithPredicates(cached.OnUpdate(cached.BudgetChanged))).
		Watches(&v1beta1.DisruptionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.concernedByPolicies), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(cached.OnUpdate(cached.DeletionBegan))).
		Watches(&v1beta1.EmergencyStop{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(workflows.Health.Changed, handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(source.Channel(workflows.Problems.Changed, handler.EnqueueRequestsFromMapFunc(r.named))).
		WatchesRawSource(source.Channel(services.Changed, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(terminations.Found, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("build the controller of disruptions: %w", err)
	}
	return errors.Join(m.Add(services), m.Add(terminations))
}

// lost is the Disruption of a workflow that was terminated, which then counts as never
// started; nil if it is gone.
func (r *reconciler) lost(workflowID string) client.Object {
	ref, ours := contract.ParseWorkflowID(workflowID)
	if !ours || !r.sent.lose(ref) {
		return nil
	}
	d := &v1beta1.Disruption{}
	d.Namespace, d.Name = ref.Namespace, ref.Name
	return d
}

// concernedByPod are the Disruptions a pod may change. For a chaos pod that is its own
// Disruption, else those of its namespace that chose it or could. A Disruption whose
// workflow reads the cluster itself is left out: its status changes when it needs
// observations again.
func (r *reconciler) concernedByPod(ctx context.Context, pod client.Object) []reconcile.Request {
	if cached.IsChaosPod(pod, r.chaosNamespace) {
		return cached.Find(ctx, r.client, wantsObservations, client.MatchingFields{cached.IndexDisruptionUID: pod.GetLabels()[v1beta1.LabelDisruptionUID]})
	}
	return cached.Find(ctx, r.client, concerns(pod), client.InNamespace(pod.GetNamespace()), client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelPod)})
}

// concernedByNode are the Disruptions of nodes that chose the node or could, and those of
// pods that would choose more targets: pods on a node that is not ready are no candidates.
func (r *reconciler) concernedByNode(ctx context.Context, node client.Object) []reconcile.Request {
	return append(
		cached.Find(ctx, r.client, concerns(node), client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelNode)}),
		cached.Find(ctx, r.client, waitsForTargets, client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelPod)})...)
}

// concernedByBudget are the Disruptions of its namespace that would choose more
// targets if budgets allowed more.
func (r *reconciler) concernedByBudget(ctx context.Context, budget client.Object) []reconcile.Request {
	wants := func(d *v1beta1.Disruption) bool { return wantsObservations(d) && wantsBudgets(d) }
	return cached.Find(ctx, r.client, wants, client.InNamespace(budget.GetNamespace()), client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelPod)})
}

// concernedByPolicies are the Disruptions that would choose more targets if policies
// denied fewer.
func (r *reconciler) concernedByPolicies(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.ofBothLevels(ctx, waitsForTargets)
}

// all are the Disruptions that are not settled.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.ofBothLevels(ctx, cached.Everyone)
}

func (r *reconciler) ofBothLevels(ctx context.Context, wanted func(*v1beta1.Disruption) bool) []reconcile.Request {
	return append(
		cached.Find(ctx, r.client, wanted, client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelPod)}),
		cached.Find(ctx, r.client, wanted, client.MatchingFields{cached.IndexLevel: string(v1beta1.LevelNode)})...)
}

// named is the Disruption that an event names, or all when it names none.
func (r *reconciler) named(ctx context.Context, d client.Object) []reconcile.Request {
	if d.GetName() == "" {
		return r.all(ctx, d)
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(d)}}
}

// concerns selects the Disruptions that have target as a target or a candidate. An update
// is mapped in its old and its new form, so a target that ceases to match is still found.
func concerns(target client.Object) func(*v1beta1.Disruption) bool {
	return func(d *v1beta1.Disruption) bool {
		if !wantsObservations(d) {
			return false
		}
		_, chosen := d.Status.TargetInjections[target.GetName()]
		return chosen || d.Spec.Matches(target.GetLabels(), target.GetAnnotations())
	}
}

// podPredicate passes the updates that cached.OnUpdate passes. Of chaos pods it passes only
// those that end or cease to be ready: the workflow that made them knows that they begin.
func (r *reconciler) podPredicate() predicate.Predicate {
	changes := cached.OnUpdate(func(before, after client.Object) bool {
		if cached.IsChaosPod(after, r.chaosNamespace) && !going(after) {
			return cached.MarkChanged(before, after) || ceasedToBeReady(before, after)
		}
		return cached.PodChanged(before, after)
	})
	changes.CreateFunc = func(e event.CreateEvent) bool {
		return !cached.IsChaosPod(e.Object, r.chaosNamespace) || going(e.Object)
	}
	return changes
}

func ceasedToBeReady(before, after client.Object) bool {
	old, ok := before.(*corev1.Pod)
	now, found := after.(*corev1.Pod)
	return ok && found && kube.Unready(old) == nil && kube.Unready(now) != nil
}

// going is true of a pod that has ended or is being deleted.
func going(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return !ok || kube.InjectorEnded(pod) || pod.DeletionTimestamp != nil
}
