package main

import (
	"fmt"
	"runtime/debug"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/census"
	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/crons"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/activities/permission"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows"
	"github.com/squall-chaos/squall/workflows/contract"
)

// taskQueue is a queue that the worker polls, with its workflows and activities.
type taskQueue struct {
	name     string
	options  worker.Options
	register func(worker.Registry)
}

const (
	// manySlots are enough for activities that only wait most of the time.
	manySlots = 10000
	// busySlots is the limit for activities that call the API server all the time.
	busySlots = 200
)

// disruptionQueues are all queues except that of probes. The activity that watches an
// injection is on the workflows' queue: Temporal can return it together with the answer to
// a workflow task of the same queue. It takes no slot from a cleaning. Notifications wait
// for other servers, so they have a queue of their own.
func disruptionQueues(acts *activities.Activities, temporal client.Client, cluster types.UID) []taskQueue {
	own := &belongings{cluster: cluster}
	return []taskQueue{
		notifications(acts, own),
		{
			name: contract.TaskQueue,
			options: worker.Options{
				MaxConcurrentActivityExecutionSize: manySlots,
				// A cancelled creation must stop within a second.
				Interceptors:                     []interceptor.WorkerInterceptor{own, &heartbeats{gap: time.Second, slots: make(chan struct{}, busySlots)}},
				MaxHeartbeatThrottleInterval:     time.Second,
				DefaultHeartbeatThrottleInterval: time.Second,
			},
			register: func(r worker.Registry) {
				workflows.Register(r)
				r.RegisterActivity(acts)
				r.RegisterActivity(newSweep(acts, temporal, cluster))
				r.RegisterActivity(newRuns(acts, temporal))
				r.RegisterActivity(newScenarios(acts, temporal))
			},
		},
		{
			name: contract.WatcherTaskQueue,
			options: worker.Options{
				MaxConcurrentActivityExecutionSize: manySlots,
				DisableWorkflowWorker:              true,
				Interceptors:                       []interceptor.WorkerInterceptor{own, &heartbeats{gap: watcherGap}},
			},
			register: func(r worker.Registry) { r.RegisterActivity(acts) },
		},
	}
}

// notifications is the queue of notifications. Few at once are enough, as each attempt is
// short.
func notifications(acts *activities.Activities, own *belongings) taskQueue {
	return taskQueue{
		name: contract.NotificationTaskQueue,
		options: worker.Options{
			MaxConcurrentActivityExecutionSize:     20,
			MaxConcurrentWorkflowTaskExecutionSize: 20,
			Interceptors:                           []interceptor.WorkerInterceptor{own, &heartbeats{gap: watcherGap}},
		},
		register: func(r worker.Registry) {
			workflows.RegisterNotification(r)
			r.RegisterActivity(&notify.Activities{Settings: acts.Notify, Kube: acts.Kube})
		},
	}
}

// cachedWorkflows is the number of waiting workflows that stay in memory, as goroutines.
// For another workflow the worker first reads its history.
const cachedWorkflows = 500

// poll returns a worker that polls q once it is started. It calls fatal with the reason
// when it stops for good.
func (q taskQueue) poll(temporal client.Client, fatal func(error)) worker.Worker {
	worker.SetStickyWorkflowCacheSize(cachedWorkflows)
	options := q.options
	options.WorkerStopTimeout, options.OnFatalError = 10*time.Second, fatal
	w := worker.New(temporal, q.name, options)
	q.register(w)
	return w
}

// newSweep are the activities of a sweep, with the clients of the disruptions' activities.
func newSweep(acts *activities.Activities, temporal client.Client, cluster types.UID) *orphans.Activities {
	return &orphans.Activities{
		Kube: acts.Kube, Disruptions: acts.Disruptions, Temporal: temporal, Cluster: cluster, Builder: acts.Builder, Parallel: acts.Parallel,
	}
}

// newRuns are the activities of runs of crons and rollouts.
func newRuns(acts *activities.Activities, temporal client.Client) *crons.Activities {
	return &crons.Activities{Kube: acts.Kube, Client: acts.Disruptions.Client(), Stops: acts.Disruptions, Events: cluster.Events(acts.Kube), Temporal: temporal}
}

// newScenarios are the activities of scenarios.
func newScenarios(acts *activities.Activities, temporal client.Client) *scenarios.Activities {
	return &scenarios.Activities{Client: acts.Disruptions.Client(), Stops: acts.Disruptions, Targets: acts.Targets, Events: cluster.Events(acts.Kube), Temporal: temporal, Notify: acts.Notify}
}

// reached are the clients of the cluster, and the stores of Squall's objects.
type reached struct {
	// config is for resources that need JSON, fast for those that Kubernetes has in
	// protobuf.
	config, fast *rest.Config
	kube         kubernetes.Interface
	clock        *kube.Clock
	disruptions  *status.Disruptions
	records      *targets.Store
}

func reach(c Config) (reached, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return reached{}, fmt.Errorf("find the cluster (in a pod: its service account, elsewhere: KUBECONFIG): %w", err)
	}
	config.QPS, config.Burst = c.ClientQPS, int(c.ClientQPS)*2
	config.UserAgent = c.account()
	config.WarningHandler = rest.NoWarnings{}
	disruptions, err := status.NewDisruptions(config)
	if err != nil {
		return reached{}, err
	}
	fast, clock := kube.Protobuf(config), &kube.Clock{}
	fast.Wrap(clock.Wrap)
	kube, err := kubernetes.NewForConfig(fast)
	if err != nil {
		return reached{}, fmt.Errorf("make client: %w", err)
	}
	store := targets.NewStore(kube, c.ChaosNamespace, targets.NewWatch(kube, c.ChaosNamespace), c.Parallel)
	store.ControlPlane, store.System = c.ControlPlaneNodes, c.SystemNamespace
	return reached{config: config, fast: fast, kube: kube, clock: clock, disruptions: disruptions, records: store}, nil
}

func newActivities(c Config) (*activities.Activities, error) {
	at, err := reach(c)
	if err != nil {
		return nil, err
	}
	if c.TaskQueues == queuesProbes {
		return c.probingActivities(at), nil
	}
	pods, err := chaospod.NewWatch(at.kube, c.ChaosNamespace)
	if err != nil {
		return nil, err
	}
	policies, err := policy.NewWatch(at.disruptions.Client())
	if err != nil {
		return nil, err
	}
	ranges, err := c.cloudRanges()
	if err != nil {
		return nil, err
	}
	safeMode, err := c.safeMode(at.fast)
	if err != nil {
		return nil, err
	}
	all := activities.New(&cluster.Cluster{
		Kube: at.kube, Clock: at.clock, Disruptions: at.disruptions, ChaosPods: pods, Targets: at.records, Namespace: c.ChaosNamespace,
		Builder: chaospod.Builder{
			Namespace: c.ChaosNamespace, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, AllowedHosts: c.AllowedHosts,
			PriorityClass: c.PriorityClass, ImagePullSecrets: c.ImagePullSecrets, CPU: resource.MustParse(c.CPU), SELinuxType: c.SELinuxType, NodeTimeout: c.NodeTimeout,
		},
		Parallel: c.Parallel,
	})
	all.Rules.Policies, all.Rules.OptIn, all.Rules.SafeMode = policies, c.NamespaceOptIn == policy.SwitchEnforce, safeMode
	all.Clouds = &cloud.Clouds{Kube: at.kube, ConfigMap: ranges, Fetch: c.CloudRangesFetch}
	all.NodeShare, all.CordonsAtOnce, all.Notify = c.NodeShare, c.CordonsAtOnce, c.Notify
	if c.TaskQueues != queuesDisruptions {
		all.Prober = c.prober(at.kube, at.config)
	}
	return all, nil
}

// safeMode has the settings of safe mode; nil if it is off.
func (c Config) safeMode(config *rest.Config) (*permission.SafeMode, error) {
	if c.SafeMode == policy.SwitchOff {
		return nil, nil
	}
	count, err := census.New(config, c.ChaosNamespace)
	return &permission.SafeMode{
		Enforced: c.SafeMode == policy.SwitchEnforce, Census: count,
		Thresholds: policy.Thresholds{Namespace: c.SafeModeNamespaceThreshold, Cluster: c.SafeModeClusterThreshold},
	}, err
}

// version is the module's version, for the user agent of probes.
func version() string {
	if build, known := debug.ReadBuildInfo(); known && build.Main.Version != "" {
		return build.Main.Version
	}
	return "devel"
}
