package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/workflows"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

// dial connects to a Temporal that has what a workflow needs.
func dial(ctx context.Context, c Config, metrics client.MetricsHandler, logger *zap.Logger) (client.Client, error) {
	temporal, err := connect.Dial(ctx, c.Temporal, logger, metrics)
	if err != nil {
		return nil, err
	}
	if err := checkSearchAttributes(ctx, temporal, c.Temporal.Namespace); err != nil {
		temporal.Close()
		return nil, err
	}
	return temporal, nil
}

// newWorkers returns the worker that decides and acts, and the one that only
// watches: watchers keep their slots for as long as they watch.
func newWorkers(temporal client.Client, acts *activities.Activities) (short, watchers worker.Worker) {
	short = worker.New(temporal, contract.TaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: 200,
		WorkerStopTimeout:                  10 * time.Second,
		// A cancelled creation must stop within a second, and it learns of it
		// by a heartbeat.
		MaxHeartbeatThrottleInterval:     time.Second,
		DefaultHeartbeatThrottleInterval: time.Second,
	})
	short.RegisterWorkflowWithOptions(workflows.Disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
	short.RegisterWorkflowWithOptions(workflows.Sweep, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
	short.RegisterActivity(acts)
	watchers = worker.New(temporal, contract.WatcherTaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: 10000,
		DisableWorkflowWorker:              true,
		WorkerStopTimeout:                  10 * time.Second,
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
	disruptions, err := activities.NewDisruptions(config)
	if err != nil {
		return nil, err
	}
	fast := rest.CopyConfig(config)
	fast.ContentType, fast.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(fast)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	pods, err := activities.NewChaosPods(kube, c.ChaosNamespace)
	if err != nil {
		return nil, err
	}
	return &activities.Activities{
		Kube: kube, Disruptions: disruptions, ChaosPods: pods, Namespace: c.ChaosNamespace,
		Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, AllowedHosts: c.AllowedHosts, Parallel: c.Parallel,
	}, nil
}

// wanted are the search attributes a workflow sets: without them it cannot run.
var wanted = map[string]enums.IndexedValueType{
	contract.AttributePhase:     enums.INDEXED_VALUE_TYPE_KEYWORD,
	contract.AttributeNamespace: enums.INDEXED_VALUE_TYPE_KEYWORD,
	contract.AttributeKinds:     enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	contract.AttributeStuck:     enums.INDEXED_VALUE_TYPE_BOOL,
	contract.AttributeTargets:   enums.INDEXED_VALUE_TYPE_INT,
}

// checkSearchAttributes says exactly what Temporal lacks, and how to add it.
func checkSearchAttributes(ctx context.Context, temporal client.Client, namespace string) error {
	there, err := temporal.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes of temporal namespace %s: %w", namespace, err)
	}
	var missing []string
	for name, kind := range wanted {
		if there.CustomAttributes[name] != kind {
			missing = append(missing, fmt.Sprintf("--name %s --type %s", name, kind))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sort.Strings(missing)
	return fmt.Errorf("temporal namespace %s lacks search attributes; add them with: temporal operator search-attribute create --namespace %s %s",
		namespace, namespace, strings.Join(missing, " "))
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
