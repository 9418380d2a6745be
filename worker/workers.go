package main

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/workflows"
	"github.com/squall-chaos/squall/workflows/contract"
)

// taskQueue is one that the worker polls, and what it carries out for it.
type taskQueue struct {
	name     string
	options  worker.Options
	register func(worker.Registry)
}

// taskQueues are all there are. Watchers keep their slots for as long as they
// watch, so they have a queue of their own and never keep a cleaning from
// starting.
func taskQueues(acts *activities.Activities, sweep *orphans.Activities) []taskQueue {
	return []taskQueue{
		{
			name: contract.TaskQueue,
			options: worker.Options{
				MaxConcurrentActivityExecutionSize: 200,
				// A cancelled creation must stop within a second.
				Interceptors:                     []interceptor.WorkerInterceptor{&heartbeats{gap: time.Second}},
				MaxHeartbeatThrottleInterval:     time.Second,
				DefaultHeartbeatThrottleInterval: time.Second,
			},
			register: func(r worker.Registry) {
				r.RegisterWorkflowWithOptions(workflows.Disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
				r.RegisterWorkflowWithOptions(workflows.Sweep, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
				r.RegisterActivity(acts)
				r.RegisterActivity(sweep)
			},
		},
		{
			name: contract.WatcherTaskQueue,
			options: worker.Options{
				MaxConcurrentActivityExecutionSize: 10000,
				DisableWorkflowWorker:              true,
				Interceptors:                       []interceptor.WorkerInterceptor{&heartbeats{gap: 4 * time.Second}},
			},
			register: func(r worker.Registry) { r.RegisterActivity(acts) },
		},
	}
}

// cachedWorkflows is how many of the workflows that wait are kept in memory, as
// goroutines; what happens to another one costs the reading of its history.
const cachedWorkflows = 500

// poll returns a worker that polls q once it is started. fatal is told why it
// will never poll again.
func (q taskQueue) poll(temporal client.Client, fatal func(error)) worker.Worker {
	worker.SetStickyWorkflowCacheSize(cachedWorkflows)
	options := q.options
	options.WorkerStopTimeout, options.OnFatalError = 10*time.Second, fatal
	w := worker.New(temporal, q.name, options)
	q.register(w)
	return w
}

// newSweep are the activities of a sweep, which work on what those of
// disruptions work on.
func newSweep(acts *activities.Activities, temporal client.Client) *orphans.Activities {
	return &orphans.Activities{
		Kube: acts.Kube, Disruptions: acts.Disruptions, Temporal: temporal, Builder: acts.Builder, Parallel: acts.Parallel,
	}
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
