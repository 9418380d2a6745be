package disruption

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoChaosNamespace means that the namespace of chaos pods is missing or being deleted.
// Every activity that writes there fails until a person creates the namespace again.
var errNoChaosNamespace = errors.New("no namespace for chaos pods")

// checkChaosNamespace returns errNoChaosNamespace, wrapped, unless the cache has the
// namespace of chaos pods and it is not being deleted.
func (r *reconciler) checkChaosNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	err := r.client.Get(ctx, client.ObjectKey{Name: r.chaosNamespace}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: namespace %s is missing", errNoChaosNamespace, r.chaosNamespace)
	case err != nil:
		return nil // the cache does not know
	case namespace.DeletionTimestamp != nil:
		return fmt.Errorf("%w: namespace %s is being deleted", errNoChaosNamespace, r.chaosNamespace)
	}
	return nil
}
