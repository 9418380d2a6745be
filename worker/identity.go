package main

import (
	"context"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/kube"
)

// identify reads the identity of the worker's cluster, see kube.Identity. While the API
// server does not answer, it logs that and waits.
func identify(ctx context.Context, client kubernetes.Interface, logger *zap.Logger) (cluster types.UID, err error) {
	err = retryUntilReachable(ctx, logger, func() (err error) {
		cluster, err = kube.Identity(func(name string) (*corev1.Namespace, error) {
			return client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		})
		return err
	}, func(err error) bool { return !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err) })
	if err == nil && cluster == "" {
		logger.Warn("the worker may not read the namespace kube-system and cannot detect disruptions of other clusters; install the current ClusterRoles")
	}
	return cluster, err
}
