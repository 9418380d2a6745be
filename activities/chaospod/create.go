package chaospod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// MetadataOnly, as the header Accept, asks the API server to leave spec and status out
// of its answer to a write, because no caller reads them.
const MetadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Create creates one pod. A pod of that name that is ours is the same pod. refusal is
// the API server's text for a pod that it will never accept.
func Create(ctx context.Context, clientset kubernetes.Interface, pod *corev1.Pod) (refusal string, err error) {
	err = clientset.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").
		SetHeader("Accept", MetadataOnly).Body(pod).Do(ctx).Error()
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
