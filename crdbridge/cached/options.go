// Package cached defines the bridge's caches, their indexes, and which changes matter. All
// controllers read the same caches. So the API server sees one list and one watch for each
// type, and objects have only the fields that the bridge reads.
package cached

import (
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Scheme has the types that the bridge reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme), policyv1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return scheme, nil
}

// Options give every type one cache for the whole cluster. Types with namespaces have one
// cache for each watched namespace, if the setting names some.
func Options(chaosNamespace string, watched []string) cache.Options {
	return cache.Options{
		// A read of a type without a watch would start another watch.
		ReaderFailOnMissingInformer: true,
		NewInformer:                 newInformer,
		ByObject: map[client.Object]cache.ByObject{
			&v1beta1.Disruption{}:         {Transform: cache.TransformStripManagedFields(), Namespaces: only(watched)},
			&v1beta1.DisruptionCron{}:     {Transform: cache.TransformStripManagedFields(), Namespaces: only(watched)},
			&v1beta1.DisruptionRollout{}:  {Transform: cache.TransformStripManagedFields(), Namespaces: only(watched)},
			&v1beta1.DisruptionScenario{}: {Transform: cache.TransformStripManagedFields(), Namespaces: only(watched)},
			&v1beta1.DisruptionPolicy{}:   {Transform: cache.TransformStripManagedFields()},
			&v1beta1.EmergencyStop{}:      {Transform: cache.TransformStripManagedFields()},
			&corev1.Pod{}:                 {Transform: stripPod, Namespaces: only(watched, chaosNamespace)},
			&corev1.Node{}:                {Transform: stripNode},
			&corev1.Namespace{}:           {Transform: cache.TransformStripManagedFields(), Field: fields.OneTermEqualSelector("metadata.name", chaosNamespace)},

			&policyv1.PodDisruptionBudget{}: {Transform: stripBudget, Namespaces: only(watched)},
		},
	}
}

// newInformer reconnects quickly when an API server is back.
func newInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(kube.QuickReconnect(lw), object, resync, indexers)
}

// only limits a cache to the namespaces in some and more; nil, for all, when some is empty.
func only(some []string, more ...string) map[string]cache.Config {
	if len(some) == 0 {
		return nil
	}
	limit := map[string]cache.Config{}
	for _, namespace := range slices.Concat(some, more) {
		limit[namespace] = cache.Config{}
	}
	return limit
}
