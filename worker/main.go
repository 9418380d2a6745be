// Program worker runs the workflows and activities of disruptions, which it polls from
// Temporal. Any number of replicas may run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/zapr"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "worker:", err)
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
	klog.SetLogger(zapr.NewLogger(logger.Named("kubernetes")))
	acts, err := newActivities(config)
	if err != nil {
		return err
	}
	telemetry, err := newTelemetry(config, logger)
	if err != nil {
		return err
	}
	defer telemetry.tracing.Close()
	health := serveHealth(config, telemetry.page, logger)
	defer health.close()
	if err := awaitRights(ctx, acts.Kube, config, logger); err != nil {
		return err
	}
	cluster, err := identify(ctx, acts.Kube, logger)
	if err != nil {
		return err
	}
	temporal, err := dial(ctx, config, telemetry.extend, logger)
	if err != nil {
		return err
	}
	defer temporal.Close()
	if err := watch(ctx, acts); err != nil {
		return err
	}
	polling, fatal := context.WithCancelCause(ctx)
	defer fatal(nil)
	for _, q := range config.taskQueues(acts, temporal, cluster) {
		w := q.poll(temporal, fatal)
		if err := w.Start(); err != nil {
			return fmt.Errorf("poll the task queue %s: %w", q.name, err)
		}
		defer w.Stop()
	}
	if config.TaskQueues != queuesProbes {
		schedule := scheduleKeeper{schedules: temporal.ScheduleClient(), every: config.SweepInterval, look: scheduleLook, cluster: cluster, logger: logger}
		go schedule.keepOr(ctx, fatal)
	}
	health.ready()
	logger.Info("worker polls", zap.String("temporal", config.Temporal.Address), zap.String("task queues", config.TaskQueues), zap.String("image", config.Image))
	<-polling.Done()
	if ctx.Err() != nil {
		return nil // a signal asked for the end
	}
	return fmt.Errorf("poll temporal at %s: %w", config.Temporal.Address, connect.Advise(context.Cause(polling)))
}

// watch starts the worker's watches and waits until they have listed everything. A worker
// for probes has only the watch on records.
func watch(ctx context.Context, acts *activities.Activities) error {
	go acts.Targets.Watch.Run(ctx)
	if acts.ChaosPods == nil {
		return acts.Targets.Watch.Sync(ctx)
	}
	go acts.ChaosPods.Run(ctx)
	go acts.Rules.Policies.Run(ctx)
	go acts.Rules.SafeMode.Run(ctx)
	return errors.Join(acts.ChaosPods.Sync(ctx), acts.Targets.Watch.Sync(ctx), acts.Rules.Policies.Sync(ctx), acts.Rules.SafeMode.Sync(ctx))
}
