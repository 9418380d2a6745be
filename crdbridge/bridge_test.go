package main

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	bridgetest.Main(m)
}

// bridge is the whole bridge, as the program runs it.
type bridge struct {
	*bridgetest.Bridge
	config Config
}

func newBridge(t *testing.T) *bridge {
	t.Helper()
	b := &bridge{config: defaults(t)}
	b.config.HealthAddress, b.config.Metrics.MetricsAddress, b.config.LeaderElection = "0", "0", false
	b.config.PollInterval = bridgetest.PollInterval
	b.Bridge = bridgetest.New(t, func(_ *bridgetest.Bridge, cluster *rest.Config, adjust func(*manager.Options)) (manager.Manager, error) {
		b.config.ChaosNamespace, b.config.WatchNamespaces = b.ChaosNamespace, b.Watched
		options, err := managerOptions(b.config)
		if err != nil {
			return nil, err
		}
		adjust(&options)
		return assemble(b.config, cluster, options, b.Temporal, prometheus.NewRegistry())
	})
	return b
}

func (b *bridge) start() *bridge {
	b.T.Helper()
	b.Start()
	return b
}
