package kube

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Identity distinguishes a cluster from all others as long as it lives: the UID of its
// namespace kube-system, which get reads. It is empty, without an error, if the right
// to read it is missing, as with the manifests of an older version. Then it
// distinguishes nothing.
func Identity(get func(name string) (*corev1.Namespace, error)) (types.UID, error) {
	namespace, err := get(metav1.NamespaceSystem)
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err == nil && namespace.UID == "" {
		err = errors.New("it has no UID")
	}
	if err != nil {
		return "", fmt.Errorf("read namespace %s, whose UID identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	return namespace.UID, nil
}
