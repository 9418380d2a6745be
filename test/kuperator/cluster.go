package kuperator

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/kube/podops"
)

// Webhook is by which others know that Kuperator is installed. It is called for no pod.
func Webhook() *admissionv1.MutatingWebhookConfiguration {
	ignore, none, url := admissionv1.Ignore, admissionv1.SideEffectClassNone, "https://127.0.0.1:1/"
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "kuperator"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: podops.KuperatorWebhook, FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
		}},
	}
}

// Settle moves the pods of a namespace until none moves any more: it plays the
// driver, and kubelets too on request.
func Settle(ctx context.Context, kube kubernetes.Interface, namespace string, kubelets bool) error {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if err := SettlePod(ctx, kube, &pods.Items[i], kubelets); err != nil {
			return err
		}
	}
	return nil
}

// SettlePod is Settle for one pod.
func SettlePod(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, kubelets bool) error {
	for range 100 {
		next := pod.DeepCopy()
		if !Move(next) && (!kubelets || !Kubelet(next)) {
			return nil
		}
		var err error
		if pod, err = write(ctx, kube, next); err != nil {
			return err
		}
		if pod == nil {
			return nil
		}
	}
	return fmt.Errorf("pod %s/%s never settles", pod.Namespace, pod.Name)
}

// write stores labels and status. It returns the pod as it is then, which includes
// the writes of other clients, and nil when it is gone.
func write(ctx context.Context, kube kubernetes.Interface, next *corev1.Pod) (*corev1.Pod, error) {
	pods := kube.CoreV1().Pods(next.Namespace)
	written, err := pods.Update(ctx, next, metav1.UpdateOptions{})
	if err == nil {
		written.Status = next.Status // the webhook may have changed the rest
		written, err = pods.UpdateStatus(ctx, written, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) {
		written, err = pods.Get(ctx, next.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return written, err
}
