package main

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/workflows"
	"github.com/squall-chaos/squall/workflows/contract"
)

// newWorkers returns the worker that decides and acts, and the one that only
// watches: watchers keep their slots for as long as they watch. fatal is told
// why one of them will never poll again.
//
// Of the workflows that wait, some are kept in memory, as goroutines; what
// happens to another one costs the reading of its history.
func newWorkers(temporal client.Client, acts *activities.Activities, fatal func(error)) (short, watchers worker.Worker) {
	worker.SetStickyWorkflowCacheSize(500)
	short = worker.New(temporal, contract.TaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: 200,
		WorkerStopTimeout:                  10 * time.Second,
		OnFatalError:                       fatal,
		// A cancelled creation must stop within a second.
		Interceptors:                     []interceptor.WorkerInterceptor{&heartbeats{gap: time.Second}},
		MaxHeartbeatThrottleInterval:     time.Second,
		DefaultHeartbeatThrottleInterval: time.Second,
	})
	short.RegisterWorkflowWithOptions(workflows.Disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
	short.RegisterWorkflowWithOptions(workflows.Sweep, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
	short.RegisterActivity(acts)
	watchers = worker.New(temporal, contract.WatcherTaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: 10000,
		DisableWorkflowWorker:              true,
		Interceptors:                       []interceptor.WorkerInterceptor{&heartbeats{gap: 4 * time.Second}},
		WorkerStopTimeout:                  10 * time.Second,
		OnFatalError:                       fatal,
	})
	watchers.RegisterActivity(acts)
	return short, watchers
}

func newActivities(c Config) (*activities.Activities, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (in a pod: its service account, elsewhere: KUBECONFIG): %w", err)
	}
	config.QPS, config.Burst = c.ClientQPS, int(c.ClientQPS)*2
	config.UserAgent = "squall-worker"
	config.WarningHandler = rest.NoWarnings{}
	disruptions, err := status.NewDisruptions(config)
	if err != nil {
		return nil, err
	}
	fast := rest.CopyConfig(config)
	fast.ContentType, fast.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(fast)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	pods, err := chaospod.NewWatch(kube, c.ChaosNamespace)
	if err != nil {
		return nil, err
	}
	return &activities.Activities{
		Kube: kube, Disruptions: disruptions, ChaosPods: pods,
		Targets: targets.NewStore(kube, c.ChaosNamespace, targets.NewWatch(kube, c.ChaosNamespace), c.Parallel), Namespace: c.ChaosNamespace,
		Builder: chaospod.Builder{
			Namespace: c.ChaosNamespace, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, AllowedHosts: c.AllowedHosts,
		},
		Parallel: c.Parallel,
	}, nil
}

func newLogger(level string) (*zap.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log-level: %w", err)
	}
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(parsed)
	config.Sampling = nil
	return config.Build()
}
