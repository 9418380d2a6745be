// Command crdbridge is the bridge between the Kubernetes API and Temporal. It watches
// Disruptions, starts one workflow for each, and signals the workflow the changes that it
// must act on. It decides nothing: it never selects, creates or judges. It deletes chaos
// pods only when a person made an EmergencyStop. If it is killed at any moment, it resumes
// from the state of the cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/zapr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	kubeconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/traces"
)

func main() {
	err := run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "crdbridge:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	config, err := readConfig(args, out)
	if err != nil {
		return err
	}
	logger, err := settings.Logger(config.LogLevel)
	if err != nil {
		return err
	}
	defer func() { _ = logger.Sync() }()
	ctrl.SetLogger(zapr.NewLogger(logger))
	klog.SetLogger(zapr.NewLogger(logger.Named("kubernetes")))

	tracing, err := traces.New("squall-crdbridge", config.Traces, logger)
	if err != nil {
		return err
	}
	defer tracing.Close()
	to := config.connection()
	to.Extend = tracing.Extend
	temporal, err := connect.Dial(ctx, to, logger, nil)
	if err != nil {
		return err
	}
	defer temporal.Close()
	kube, err := kubeconfig.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	manager, err := newManager(config, kube, temporal, metrics.Registry)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
