// Package podops is the bridge's driver of PodOpsLifecycle, off by default. It moves pods
// that opted in from phase to phase for any operator, and does nothing where another driver
// is installed.
package podops

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/live"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/crdbridge/scope"
	"github.com/squall-chaos/squall/kube/podops"
)

// askAgain is after how long the budgets are read again for an operation for which they had
// no room, although no watch reported a change.
const askAgain = 5 * time.Minute

// reconciler moves one pod by one write. It decides from the cache: the API server refuses
// a write if the pod has changed since.
type reconciler struct {
	client  client.Client
	live    client.Reader
	now     func() time.Time
	deletes bool // deletions begin an operation
	pods    scope.Namespaces

	down  prometheus.Gauge
	mu    sync.Mutex
	state string // the state of other drivers that was logged last
}

// downGauge is on the page of a bridge that has the driver.
var downGauge = prometheus.GaugeOpts{
	Name: "squall_driver_stands_down",
	Help: "1 while the driver of pod operations does nothing because Kuperator is installed, else 0.",
}

// Setup adds the driver to m if it is wanted, its gauge to the registry, and the wanted
// webhooks for the pods of the namespaces.
func Setup(m manager.Manager, s Settings, n scope.Namespaces, p Places, registry prometheus.Registerer) error {
	if !s.Driver {
		return nil
	}
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), now: time.Now, deletes: s.GracefulDelete, pods: n, down: prometheus.NewGauge(downGauge)}
	if err := registry.Register(r.down); err != nil {
		return fmt.Errorf("show the driver of PodOpsLifecycle among the metrics: %w", err)
	}
	if err := serve(m, s, n, p, r); err != nil {
		return fmt.Errorf("serve the webhooks of the driver of PodOpsLifecycle: %w", err)
	}
	options := queue.Options[reconcile.Request]()
	options.MaxConcurrentReconciles = 1 // two that are permitted together could exceed a budget
	managed := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[podops.LabelManaged] == podops.ManagedValue })
	err := builder.ControllerManagedBy(m).
		Named("pod-ops-driver").
		WithOptions(options).
		For(&corev1.Pod{}, builder.WithPredicates(managed)).
		Watches(&admissionv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.asking), builder.WithPredicates(cached.OnUpdate(cached.BudgetChanged))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.asking), builder.WithPredicates(givenBack())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("build the driver of PodOpsLifecycle: %w", err)
	}
	return nil
}

// serve adds the webhooks that are wanted to every replica of m.
func serve(m manager.Manager, s Settings, n scope.Namespaces, p Places, r *reconciler) error {
	if !s.GracefulDelete && !s.ReadinessGate {
		return nil
	}
	// Replicas that do not lead answer too, and need to know of other drivers.
	_, err := m.GetCache().GetInformer(context.Background(), &admissionv1.MutatingWebhookConfiguration{}, cache.BlockUntilSynced(false))
	if err == nil && s.GracefulDelete {
		err = certificate.Serve(m, "graceful-delete", s.GracefulDeletePort, GracefulDeletePath, deletions{r, n, p.GracefulDelete.Clients != nil}, p.GracefulDelete)
	}
	if err == nil && s.ReadinessGate {
		err = certificate.Serve(m, "readiness-gate", s.ReadinessGatePort, ReadinessGatePath, gates{r, n}, p.ReadinessGate)
	}
	return err
}

// all are the pods to enqueue when a driver was installed or removed.
func (r *reconciler) all(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	if down, err := r.standsDown(ctx); down || err != nil {
		return nil
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.UnsafeDisableDeepCopy, client.MatchingLabels{podops.LabelManaged: podops.ManagedValue}); err != nil {
		return nil // the cache is not ready, and will enqueue each pod
	}
	for i := range pods.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
	}
	return requests
}

// asking are the pods of a namespace for which an operation asks: the change may leave room
// for one in a budget.
func (r *reconciler) asking(ctx context.Context, changed client.Object) (requests []reconcile.Request) {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.UnsafeDisableDeepCopy, client.InNamespace(changed.GetNamespace()), client.MatchingLabels{podops.LabelManaged: podops.ManagedValue})
	if err != nil {
		return nil // as in all
	}
	for i := range pods.Items {
		if podops.Asks(&pods.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}

// givenBack passes the end of an operation on a pod, and the deletion of a pod that one
// had.
func givenBack() predicate.Predicate {
	taken := func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && podops.Taken(pod)
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return taken(e.ObjectOld) && !taken(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return taken(e.Object) },
	}
}

// kuperator is true while Kuperator is installed. The webhooks of every replica call it.
func (r *reconciler) kuperator(ctx context.Context) (bool, error) {
	var list admissionv1.MutatingWebhookConfigurationList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("look for another driver of PodOpsLifecycle: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(c admissionv1.MutatingWebhookConfiguration) bool { return podops.OfKuperator(&c) }), nil
}

// standsDown is true while Kuperator is installed: two drivers of one pod would undo each
// other's steps. The replica that leads calls it before each write and logs changes.
func (r *reconciler) standsDown(ctx context.Context) (bool, error) {
	other, err := r.kuperator(ctx)
	if err != nil {
		return false, err
	}
	state, down := "this driver moves the pods", 0.0
	if other {
		state, down = "another driver is installed: this one does nothing", 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down.Set(down)
	if r.state != state {
		r.state = state
		log.FromContext(ctx).Info("driver of PodOpsLifecycle", "state", state)
	}
	return other, nil
}

// Reconcile makes the next write to a pod, if there is one; the watch enqueues the pod for
// the write after it.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if down, err := r.standsDown(ctx); down || err != nil {
		return reconcile.Result{}, err
	}
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !podops.Drivable(pod) || !r.pods.Has(pod.Namespace) {
		return reconcile.Result{}, nil
	}
	if r.deletes {
		if acted, err := r.deletion(ctx, pod); acted || err != nil {
			return reconcile.Result{}, err
		}
	}
	asks := podops.Asks(pod)
	// The pod is out of service already, or about to be deleted: no budget prevents a
	// DELETE.
	permitted := asks && (podops.Taken(pod) || r.deletes && podops.ToBeDeleted(pod))
	if asks && !permitted {
		var err error
		if permitted, err = r.permitted(ctx, pod); err != nil {
			return reconcile.Result{}, err
		}
	}
	result := reconcile.Result{}
	if asks && !permitted {
		result.RequeueAfter = askAgain
	}
	move, problem := podops.Drive(pod, permitted, r.now())
	if err := r.write(ctx, pod, move); err != nil {
		return reconcile.Result{}, err
	}
	if problem != nil {
		// only a change of the pod can resolve it
		return reconcile.Result{}, reconcile.TerminalError(problem)
	}
	return result, nil
}

func (r *reconciler) write(ctx context.Context, pod *corev1.Pod, move podops.Move) error {
	patch, ofStatus := move.Patch(pod, r.now())
	if patch == nil {
		return nil
	}
	to := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if ofStatus {
		return written(ctx, r.live, pod, r.client.Status().Patch(ctx, to, client.RawPatch(types.StrategicMergePatchType, patch)))
	}
	return written(ctx, r.live, pod, r.client.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch)))
}

// written interprets the answer to a write.
func written(ctx context.Context, live client.Reader, pod *corev1.Pod, err error) error {
	if apierrors.IsNotFound(err) || (apierrors.IsConflict(err) || apierrors.IsInvalid(err)) && changed(ctx, live, pod) {
		return nil // the pod changed or is gone: the watch enqueues it
	}
	if err != nil {
		return fmt.Errorf("move pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// changed is true when the pod is gone, has another UID or another version. A patch with
// another UID is invalid, and one with another version a conflict. A conflict without a
// change, such as a webhook may cause, must be retried: no watch reports it.
func changed(ctx context.Context, live client.Reader, pod *corev1.Pod) bool {
	var now metav1.PartialObjectMetadata
	now.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := live.Get(ctx, client.ObjectKeyFromObject(pod), &now)
	return apierrors.IsNotFound(err) || err == nil && (now.UID != pod.UID || now.ResourceVersion != pod.ResourceVersion)
}

// permitted is true when each PodDisruptionBudget that covers the pod has room for it. The
// pods that operations have already are subtracted from what it allows. Its status may not
// count them yet, and too few is the safe error. Both are read live.
func (r *reconciler) permitted(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var covering []policyv1.PodDisruptionBudget
	err := live.Pages(ctx, r.live, func(page *policyv1.PodDisruptionBudgetList) {
		for _, budget := range page.Items {
			if covers(&budget, pod) {
				covering = append(covering, budget)
			}
		}
	}, client.InNamespace(pod.Namespace))
	if err != nil {
		return false, fmt.Errorf("read the PodDisruptionBudgets of namespace %s: %w", pod.Namespace, err)
	}
	if len(covering) == 0 {
		return true, nil
	}
	left := make([]int32, len(covering))
	for i := range covering {
		left[i] = allowed(&covering[i])
	}
	err = live.Pages(ctx, r.live, func(page *corev1.PodList) {
		for i := range covering {
			left[i] -= taken(&covering[i], page.Items)
		}
	}, client.InNamespace(pod.Namespace), client.MatchingLabels{podops.LabelManaged: podops.ManagedValue})
	if err != nil {
		return false, fmt.Errorf("read the managed pods of namespace %s: %w", pod.Namespace, err)
	}
	return slices.Min(left) >= 1, nil
}

// allowed is how many pods the budget lets be taken; 0 while its status is older than its
// spec.
func allowed(budget *policyv1.PodDisruptionBudget) int32 {
	if budget.Status.ObservedGeneration < budget.Generation {
		return 0
	}
	return budget.Status.DisruptionsAllowed
}

// taken counts the pods that the budget covers and operations have.
func taken(budget *policyv1.PodDisruptionBudget, pods []corev1.Pod) (n int32) {
	for i := range pods {
		if podops.Taken(&pods[i]) && covers(budget, &pods[i]) {
			n++
		}
	}
	return n
}

func covers(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}
