package kube

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Identity is what tells a cluster from all others as long as it lives: the UID of
// its namespace kube-system, which get reads. It is empty, without an error, where
// the rights for that are missing, as they are with the manifests of an older
// release: nothing can be told apart by it then.
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
