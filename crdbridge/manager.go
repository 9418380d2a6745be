package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/cron"
	"github.com/squall-chaos/squall/crdbridge/disruption"
	"github.com/squall-chaos/squall/crdbridge/emergencystop"
	"github.com/squall-chaos/squall/crdbridge/oninit"
	"github.com/squall-chaos/squall/crdbridge/orphan"
	"github.com/squall-chaos/squall/crdbridge/podops"
	"github.com/squall-chaos/squall/crdbridge/requester"
	"github.com/squall-chaos/squall/crdbridge/rollout"
	"github.com/squall-chaos/squall/crdbridge/scenario"
	"github.com/squall-chaos/squall/crdbridge/scope"
	"github.com/squall-chaos/squall/crdbridge/temporal"
)

const (
	// leaseName is the lease that bridges elect a leader with.
	leaseName = "squall-crdbridge"
	// stopTimeout bounds a stop on SIGTERM. A call in flight ends with its context.
	stopTimeout = 2500 * time.Millisecond
)

// newManager builds the bridge of c: caches, controllers, election, endpoints.
func newManager(c Config, cluster *rest.Config, client temporal.Client, registry prometheus.Registerer) (manager.Manager, error) {
	options, err := managerOptions(c)
	if err != nil {
		return nil, err
	}
	return assemble(c, cluster, options, client, registry)
}

// metricsFilter restricts the page of metrics as the settings require.
func (c Config) metricsFilter(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(_ logr.Logger, page http.Handler) (http.Handler, error) { return c.Metrics.Page(page), nil }, nil
}

func managerOptions(c Config) (manager.Options, error) {
	scheme, err := cached.Scheme()
	if err != nil {
		return manager.Options{}, err
	}
	stop := stopTimeout
	lease, renewal, attempt := c.LeaderElectionLease, c.LeaderElectionLease*2/3, c.LeaderElectionLease*2/15
	// Every controller has its own name in the program; tests run several managers in one process.
	sameName := true
	return manager.Options{
		Scheme:                        scheme,
		Cache:                         cached.Options(c.ChaosNamespace, c.WatchNamespaces),
		Controller:                    controllerconfig.Controller{SkipNameValidation: &sameName},
		Metrics:                       metricsserver.Options{BindAddress: c.Metrics.MetricsAddress, FilterProvider: c.metricsFilter},
		HealthProbeBindAddress:        c.HealthAddress,
		LeaderElection:                c.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       c.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // main returns right after
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renewal,
		RetryPeriod:                   &attempt,
		GracefulShutdownTimeout:       &stop,
	}, nil
}

// assemble builds the manager with every controller and webhook of the bridge.
func assemble(c Config, cluster *rest.Config, o manager.Options, client temporal.Client, registry prometheus.Registerer) (manager.Manager, error) {
	cluster = rest.CopyConfig(cluster)
	cluster.QPS = -1 // the API server's own priorities and fairness decide
	clients, err := certificate.Clients(c.WebhookClientCA)
	if err != nil {
		return nil, err
	}
	own := &certificate.Certificate{}
	o.WebhookServer = oninit.Server(c.OnInit, own, clients)
	m, err := manager.New(cluster, o)
	if err != nil {
		return nil, fmt.Errorf("build the manager: %w", err)
	}
	namespaces := scope.Namespaces{System: c.LeaderElectionNamespace, Chaos: c.ChaosNamespace, Watched: c.WatchNamespaces}
	workflows, err := temporal.Setup(m, client, registry, c.PollInterval)
	if err != nil {
		return nil, err
	}
	return m, errors.Join(
		registry.Register(disruption.NewGauges(m, workflows)),
		cached.Index(m.GetFieldIndexer(), c.ChaosNamespace),
		disruption.Setup(m, workflows, c.ChaosNamespace, c.TTLAfterFinished),
		orphan.Setup(m, workflows, c.ChaosNamespace),
		cron.Setup(m, workflows, c.MinimumCronFrequency),
		rollout.Setup(m, workflows),
		scenario.Setup(m, workflows),
		oninit.Setup(m, c.OnInit, namespaces, oninit.InCluster(namespaces.System), own),
		podops.Setup(m, c.PodOps, namespaces, podops.InCluster(namespaces.System, clients), registry),
		podops.SetupProtections(m, c.ChaosNamespace),
		requester.Setup(m, c.Requesters, requester.InCluster(namespaces.System, clients)),
		emergencystop.Setup(m, c.ChaosNamespace, c.WatchNamespaces),
		m.AddHealthzCheck("ping", healthz.Ping),
		m.AddReadyzCheck("ping", healthz.Ping),
	)
}
