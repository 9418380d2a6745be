package chaospod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Create makes one pod. A pod of that name that is ours is the same pod;
// refusal is what the API server says of a pod it will never take.
func Create(ctx context.Context, clientset kubernetes.Interface, pod *corev1.Pod) (refusal string, err error) {
	_, err = clientset.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return "", nil // the name holds our UID, see Name
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("create chaos pod %s: %w", pod.Name, err)
	}
	return "", nil
}
