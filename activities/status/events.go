package status

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Events are created one by one, without the client library's recorder, which
// drops events in a burst. The name of an event is made from what it says, so
// that an activity that is tried again tells it once.

// Events records events.
type Events struct {
	Kube kubernetes.Interface
}

// Record records that something normal happened to the disruption. key tells
// apart happenings of the same reason.
func (e Events) Record(ctx context.Context, d *v1beta1.Disruption, reason, message, key string) error {
	return e.create(ctx, disruptionReference(d), corev1.EventTypeNormal, reason, message, key, nil)
}

// Warn records that something went wrong with the disruption.
func (e Events) Warn(ctx context.Context, d *v1beta1.Disruption, reason, message, key string) error {
	return e.create(ctx, disruptionReference(d), corev1.EventTypeWarning, reason, message, key, nil)
}

// RecordOnTarget records on the target that it is disrupted.
func (e Events) RecordOnTarget(ctx context.Context, d *v1beta1.Disruption, t targets.Target) error {
	object := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: t.Namespace, Name: t.Name, UID: t.UID}
	if t.Namespace == "" {
		object.Kind = "Node"
	}
	message := fmt.Sprintf("disruption %s/%s disrupts this %s", d.Namespace, d.Name, strings.ToLower(object.Kind))
	return e.create(ctx, object, corev1.EventTypeNormal, "Disrupted", message, string(d.UID), map[string]string{"disruption": d.Namespace + "/" + d.Name})
}

func (e Events) create(ctx context.Context, about corev1.ObjectReference, eventType, reason, message, key string, annotations map[string]string) error {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{string(about.UID), reason, key}, "/")))
	now := metav1.Now()
	_, err := e.Kube.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Annotations: annotations,
			Name: about.Name[:min(len(about.Name), 200)] + "." + hex.EncodeToString(sum[:])[:16],
		},
		InvolvedObject: about, Type: eventType, Reason: reason, Message: message[:min(len(message), 1000)],
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "disruption-controller"}, ReportingController: "disruption-controller",
	}, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // nobody can read events of a namespace that goes away
	}
	return fmt.Errorf("record event %s on %s %s: %w", reason, about.Kind, about.Name, err)
}

// Named is a disruption of which only the name is known: enough for an event.
func Named(ref v1beta1.DisruptionRef) *v1beta1.Disruption {
	return &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
}

func disruptionReference(d *v1beta1.Disruption) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption",
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion,
	}
}
