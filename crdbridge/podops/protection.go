package podops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/live"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/kube/podops"
)

// lookAgain is after how long a protected pod is read again although no watch reported a
// change.
const lookAgain = 5 * time.Minute

// protections removes the finalizers by which disruptions keep others from their targets
// when their time is over, even if the worker is down (rule L16). It also ends operations
// of disruptions that are over. All the facts it needs are on the pod.
type protections struct {
	client         client.Client
	live           client.Reader
	now            func() time.Time
	chaosNamespace string
}

// SetupProtections adds that controller to m. It does nothing until a disruption has asked
// for a pod. Then it needs the right to patch pods, which the component pod-operations
// grants.
func SetupProtections(m manager.Manager, chaosNamespace string) error {
	p := &protections{client: m.GetClient(), live: m.GetAPIReader(), now: time.Now, chaosNamespace: chaosNamespace}
	err := builder.ControllerManagedBy(m).
		Named("pod-protection").
		WithOptions(queue.Options[reconcile.Request]()).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(operated))).
		Watches(&v1beta1.Disruption{}, handler.EnqueueRequestsFromMapFunc(p.of), builder.WithPredicates(over())).
		Complete(p)
	if err != nil {
		return fmt.Errorf("build the controller of protected pods: %w", err)
	}
	return nil
}

// operated is true for a pod that a disruption has asked for, or keeps others from.
func operated(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && len(podops.Protections(pod))+len(podops.OfDisruptions(pod)) > 0
}

// over passes Disruptions that have settled or whose name has a new UID.
func over() predicate.Predicate {
	settled := func(o client.Object) bool {
		d, ok := o.(*v1beta1.Disruption)
		return ok && d.Settled()
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return settled(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
		},
	}
}

// of returns the operated pods of the disruption's namespace.
func (p *protections) of(ctx context.Context, d client.Object) (requests []reconcile.Request) {
	var pods corev1.PodList
	if err := p.client.List(ctx, &pods, client.UnsafeDisableDeepCopy, client.InNamespace(d.GetNamespace())); err != nil {
		return nil // the cache is not ready, and will enqueue each pod
	}
	for i := range pods.Items {
		if operated(&pods.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}

// Reconcile removes protections that are over, and writes on the pod until when the others
// have to wait.
func (p *protections) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := p.client.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	again := lookAgain
	for _, protection := range podops.Protections(pod) {
		d, err := p.disruption(ctx, pod.Namespace, protection.Operation)
		if err != nil {
			return reconcile.Result{}, err
		}
		why := protection.Over(pod, p.now())
		if d == nil {
			why = cmp.Or(why, "its disruption is over or gone")
		}
		if why != "" {
			soon, err := p.end(ctx, pod, protection.Operation, d, why)
			if err != nil {
				return reconcile.Result{}, err
			}
			again = min(again, soon)
			continue
		}
		patch, wait := protection.Next(pod, p.now())
		if _, err := p.patch(ctx, pod, types.MergePatchType, patch); err != nil {
			return reconcile.Result{}, err
		}
		again = min(again, wait)
	}
	for _, operation := range podops.OfDisruptions(pod) {
		if err := p.endOrphan(ctx, pod, operation); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// end removes a protection and reports it. It reports nothing if the worker has removed it
// since the watch saw the pod, or if the pod is gone. It returns when to look again.
func (p *protections) end(ctx context.Context, seen *corev1.Pod, operation podops.Operation, d *v1beta1.Disruption, why string) (time.Duration, error) {
	pod := &corev1.Pod{}
	err := p.live.Get(ctx, client.ObjectKeyFromObject(seen), pod)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != seen.UID || !operation.Protects(pod)) {
		return lookAgain, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read pod %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	done, err := p.patch(ctx, pod, types.StrategicMergePatchType, operation.UnprotectUnchanged(pod))
	if err != nil {
		return 0, err
	}
	if !done {
		return time.Second, nil
	}
	message := fmt.Sprintf("pod %s is released, clean or not: finalizer %s was removed: %s", pod.Name, podops.FinalizerPrefix+operation.ID, why)
	p.recordEvent(ctx, pod, d, "ProtectionOver", message, operation.ID)
	return lookAgain, nil
}

// disruption returns the one whose operation it is; nil if it is gone or settled. It reads
// live what the cache lacks.
func (p *protections) disruption(ctx context.Context, namespace string, operation podops.Operation) (*v1beta1.Disruption, error) {
	var found *v1beta1.Disruption
	find := func(some *v1beta1.DisruptionList) {
		for i := range some.Items {
			if d := &some.Items[i]; podops.OfDisruption(d.UID) == operation {
				found = d
			}
		}
	}
	var known v1beta1.DisruptionList
	err := p.client.List(ctx, &known, client.InNamespace(namespace))
	if find(&known); err == nil && found == nil {
		err = live.Pages(ctx, p.live, find, client.InNamespace(namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("read the disruptions of namespace %s: %w", namespace, err)
	}
	if found != nil && found.Settled() {
		return nil, nil
	}
	return found, nil
}

// patch returns done false and no error when there is nothing to write, or when the pod was
// deleted or changed since it was read. The watch enqueues the pod then.
func (p *protections) patch(ctx context.Context, pod *corev1.Pod, kind types.PatchType, patch []byte) (done bool, err error) {
	if patch == nil {
		return false, nil
	}
	to := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	refused := p.client.Patch(ctx, to, client.RawPatch(kind, patch))
	if err := written(ctx, p.live, pod, refused); err != nil {
		return false, fmt.Errorf("%w; the component pod-operations gives the controller the right to patch pods", err)
	}
	return refused == nil, nil
}

// recordEvent records a warning on the pod and the disruption. A failure is only logged.
func (p *protections) recordEvent(ctx context.Context, pod *corev1.Pod, d *v1beta1.Disruption, reason, message, operation string) {
	log.FromContext(ctx).Info("operation on a pod looked after", "reason", reason, "message", message)
	about := []corev1.ObjectReference{{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	if d != nil {
		about = append(about, corev1.ObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption", Namespace: d.Namespace, Name: d.Name, UID: d.UID})
	}
	for _, object := range about {
		if err := p.client.Create(ctx, newEvent(object, reason, message, string(pod.UID)+operation, p.now())); err != nil && !apierrors.IsAlreadyExists(err) {
			log.FromContext(ctx).Info("event not stored", "about", object.Kind, "error", err.Error())
		}
	}
}

// newEvent derives the name from the object, reason and key, so that the event is stored
// once.
func newEvent(about corev1.ObjectReference, reason, message, key string, now time.Time) *corev1.Event {
	sum, at := sha256.Sum256([]byte(string(about.UID)+"/"+reason+"/"+key)), metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace, Name: about.Name[:min(len(about.Name), 200)] + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: about, Type: corev1.EventTypeWarning, Reason: reason, Message: text.Shorten(text.Line(message), 1000),
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: "crdbridge"}, ReportingController: "crdbridge",
	}
}
