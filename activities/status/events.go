package status

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Events are created one by one, without the client library's recorder, which drops
// events in a burst. The name of an event is a hash of its content, so that a retried
// activity records it once.

// eventPatience bounds the attempts to store an event. Nothing waits longer: a
// disruption begins, continues and ends whether or not events can be stored.
const eventPatience = 3 * time.Second

// Events records events. If the API server refuses an event or does not answer within 3
// s, Events calls Lost; the activity does not fail.
type Events struct {
	Kube kubernetes.Interface
	Lost func(context.Context, *corev1.Event, error)
}

// Record records an event of type Normal on the disruption. Two events with the same
// reason and key are stored once.
func (e Events) Record(ctx context.Context, d *v1beta1.Disruption, reason, message, key string) {
	e.create(ctx, newEvent(disruptionReference(d), corev1.EventTypeNormal, reason, message, key))
}

// Warn records an event of type Warning on the disruption.
func (e Events) Warn(ctx context.Context, d *v1beta1.Disruption, reason, message, key string) {
	e.create(ctx, newEvent(disruptionReference(d), corev1.EventTypeWarning, reason, message, key))
}

// Of records an event on another object of Squall: a DisruptionScenario, DisruptionCron
// or DisruptionRollout.
func (e Events) Of(ctx context.Context, kind string, object metav1.Object, eventType, reason, message, key string) {
	about := corev1.ObjectReference{
		APIVersion: v1beta1.GroupVersion.String(), Kind: kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
	e.create(ctx, newEvent(about, eventType, reason, message, key))
}

// Disrupted records on the target that it is disrupted.
func (e Events) Disrupted(ctx context.Context, d *v1beta1.Disruption, t v1beta1.InjectionTarget) {
	e.onTarget(ctx, d, t, corev1.EventTypeNormal, "Disrupted", "disrupts this %s")
}

// Chosen records on the target that it was chosen, while nothing is injected.
func (e Events) Chosen(ctx context.Context, d *v1beta1.Disruption, t v1beta1.InjectionTarget) {
	e.onTarget(ctx, d, t, corev1.EventTypeNormal, "Chosen", "chose this %s and has not injected anything yet")
}

// InjectionFailed records on the target why nothing is injected into it.
func (e Events) InjectionFailed(ctx context.Context, d *v1beta1.Disruption, t v1beta1.InjectionTarget, why string) {
	e.onTarget(ctx, d, t, corev1.EventTypeWarning, "InjectionFailed", "chose this %s and could not inject: "+strings.ReplaceAll(why, "%", "%%"))
}

// Replaced records on the target that it is replaced, and what was done for it.
func (e Events) Replaced(ctx context.Context, d *v1beta1.Disruption, t v1beta1.InjectionTarget, what string) {
	e.onTarget(ctx, d, t, corev1.EventTypeNormal, "Replaced", "replaces this %s: "+strings.ReplaceAll(what, "%", "%%"))
}

// onTarget records what a disruption did to a target. The annotation lets tools find
// the disruption of an event that is on another object.
func (e Events) onTarget(ctx context.Context, d *v1beta1.Disruption, t v1beta1.InjectionTarget, eventType, reason, did string) {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: t.Namespace, Name: t.Name, UID: t.UID}
	if t.Namespace == "" {
		about.Kind = "Node"
	}
	by := d.Namespace + "/" + d.Name
	event := newEvent(about, eventType, reason, "disruption "+by+" "+fmt.Sprintf(did, strings.ToLower(about.Kind)), string(d.UID))
	event.Annotations = map[string]string{"disruption": by}
	e.create(ctx, event)
}

func newEvent(about corev1.ObjectReference, eventType, reason, message, key string) *corev1.Event {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(about.UID), reason, key}, "/")))
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault),
			Name:      about.Name[:min(len(about.Name), 200)] + "." + hex.EncodeToString(sum[:])[:16],
		},
		InvolvedObject: about, Type: eventType, Reason: reason, Message: text.Shorten(text.Line(message), 1000),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "disruption-controller"}, ReportingController: "disruption-controller",
	}
}

func (e Events) create(ctx context.Context, event *corev1.Event) {
	limited, cancel := context.WithTimeout(ctx, eventPatience)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		_, err := e.Kube.CoreV1().Events(event.Namespace).Create(limited, event, metav1.CreateOptions{})
		if stored(err) {
			return
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			e.Lost(ctx, event, err)
			return
		}
		select {
		case <-limited.Done():
			e.Lost(ctx, event, err)
			return
		case <-time.After(wait):
		}
	}
}

// stored is true when the event exists, or when its namespace is gone, so that no one
// could read it.
func stored(err error) bool {
	return err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// Named is a disruption with only a name and a UID: enough for an event.
func Named(ref v1beta1.DisruptionRef) *v1beta1.Disruption {
	return &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
}

func disruptionReference(d *v1beta1.Disruption) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption",
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion,
	}
}
