package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

const (
	// leaseName is the lease bridges elect with.
	leaseName = "squall-crdbridge"
	// stopTimeout bounds a stop on SIGTERM. A call in flight ends with its context.
	stopTimeout = 2500 * time.Millisecond
	// workers is how many Disruptions are looked at together; they wait for
	// Temporal more than they compute.
	workers = 8
	// After an error a Disruption waits firstRetry, then twice as long each
	// time, up to lastRetry: that is how long Temporal may be back unnoticed.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// newManager builds the bridge of c: caches, watches, queue, election, endpoints.
func newManager(c Config, cluster *rest.Config, temporal orchestrator, registry prometheus.Registerer) (manager.Manager, error) {
	options, err := managerOptions(c)
	if err != nil {
		return nil, err
	}
	return assemble(c, cluster, options, temporal, registry)
}

// newInformer sees soon that an API server is back.
func newInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(kube.QuickReconnect(lw), object, resync, indexers)
}

// managerOptions give every type one cache for the whole cluster, so one list
// and one watch, in which objects hold no more than the bridge reads. With
// watch-namespaces there is one for each of them.
func managerOptions(c Config) (manager.Options, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return manager.Options{}, fmt.Errorf("build the scheme: %w", err)
	}
	stop := stopTimeout
	// Every controller has its own name in the program; tests run several managers in one process.
	sameName := true
	return manager.Options{
		Scheme: scheme,
		Cache: cache.Options{
			// A read of a type nobody watches would start another watch.
			ReaderFailOnMissingInformer: true,
			NewInformer:                 newInformer,
			ByObject: map[client.Object]cache.ByObject{
				&v1beta1.Disruption{}:    {Transform: cache.TransformStripManagedFields(), Namespaces: only(c.WatchNamespaces)},
				&v1beta1.EmergencyStop{}: {Transform: cache.TransformStripManagedFields()},
				&corev1.Pod{}:            {Transform: stripPod, Namespaces: only(c.WatchNamespaces, c.ChaosNamespace)},
				&corev1.Node{}:           {Transform: stripNode},
			},
		},
		Controller:                    controllerconfig.Controller{SkipNameValidation: &sameName},
		Metrics:                       metricsserver.Options{BindAddress: c.MetricsAddress},
		HealthProbeBindAddress:        c.HealthAddress,
		LeaderElection:                c.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       c.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // main returns right after
		GracefulShutdownTimeout:       &stop,
	}, nil
}

// only limits a cache to some namespaces, and to more that it needs with them;
// nil, for all, when there are none.
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

func assemble(c Config, cluster *rest.Config, o manager.Options, temporal orchestrator, registry prometheus.Registerer) (manager.Manager, error) {
	counters, err := newCounters(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	cluster = rest.CopyConfig(cluster)
	cluster.QPS = -1 // the API server's own priorities and fairness decide
	m, err := manager.New(cluster, o)
	if err != nil {
		return nil, fmt.Errorf("build the manager: %w", err)
	}
	memory, pulse := newMemory(), newPulse(temporal)
	r := &reconciler{
		client:         m.GetClient(),
		workflows:      &workflows{temporal: temporal, pulse: pulse, counters: counters},
		chaosNamespace: c.ChaosNamespace,
		memory:         memory,
		pulse:          pulse,
		terminated:     newTerminated(temporal, memory),
	}
	if err := errors.Join(watch(m, r, controllerOptions()), watchOrphans(m, r)); err != nil {
		return nil, err
	}
	s := &stopper{client: m.GetClient(), live: m.GetAPIReader(), chaosNamespace: c.ChaosNamespace, watched: c.WatchNamespaces}
	if err := watchStops(m, s, controllerOptions()); err != nil {
		return nil, err
	}
	return m, errors.Join(m.Add(r.pulse), m.Add(r.terminated), m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("ping", healthz.Ping))
}

func controllerOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}
