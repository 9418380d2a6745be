package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The values of the setting task-queues. Tenants write probes, which reach many addresses
// and cost memory and processor time. So in a cluster a Deployment with fewer rights asks
// them, and not the one that cleans up. A worker outside a cluster, as in tests, does both.
const (
	queuesAll         = "all"
	queuesDisruptions = "disruptions"
	queuesProbes      = "probes"
)

// The service accounts that the worker runs as, by the task queues that it polls.
const (
	workerAccount = "squall-worker"
	probesAccount = "squall-probes"
)

// account is the service account that deploy gives a worker of these settings.
func (c Config) account() string {
	if c.TaskQueues == queuesProbes {
		return probesAccount
	}
	return workerAccount
}

func (c Config) checkTaskQueues() error {
	known := []string{queuesAll, queuesDisruptions, queuesProbes}
	if slices.Contains(known, c.TaskQueues) {
		return nil
	}
	return fmt.Errorf("setting task-queues %q: want one of %s", c.TaskQueues, strings.Join(known, ", "))
}

// counters are the counters of a worker with these settings. A page that shows another
// program's counter as 0 would hide from alerts that this program is absent.
func (c Config) counters() []metric.Counter {
	if c.TaskQueues == queuesProbes {
		return []metric.Counter{metric.ProbeAnswers, metric.ProbeWaits, metric.EventsLost}
	}
	return metric.All()
}

// taskQueues are the task queues of these settings.
func (c Config) taskQueues(acts *activities.Activities, temporal client.Client, cluster types.UID) (queues []taskQueue) {
	if c.TaskQueues != queuesProbes {
		queues = disruptionQueues(acts, temporal, cluster)
	}
	if c.TaskQueues != queuesDisruptions {
		queues = append(queues, probeQueue(acts, cluster))
	}
	return queues
}

// probeQueue is the queue whose only activity is AskProbes.
func probeQueue(acts *activities.Activities, cluster types.UID) taskQueue {
	return taskQueue{
		name: contract.ProbeTaskQueue,
		options: worker.Options{
			MaxConcurrentActivityExecutionSize: manySlots,
			DisableWorkflowWorker:              true,
			Interceptors:                       []interceptor.WorkerInterceptor{&belongings{cluster: cluster}},
			// AskProbes records its own heartbeats, with the state for the next attempt.
			// They also report to it that its phase is over.
			MaxHeartbeatThrottleInterval: time.Second,
		},
		register: func(r worker.Registry) {
			r.RegisterActivityWithOptions(acts.AskProbes, activity.RegisterOptions{Name: "AskProbes"})
		},
	}
}

// probingActivities can only ask probes: they watch the records of targets, but not chaos
// pods or policies, and do not count the cluster's pods.
func (c Config) probingActivities(at reached) *activities.Activities {
	all := activities.New(&cluster.Cluster{Kube: at.kube, Clock: at.clock, Disruptions: at.disruptions, Targets: at.records, Namespace: c.ChaosNamespace})
	all.Prober = c.prober(at.kube, at.config)
	return all
}

// prober asks the probes that the settings allow.
func (c Config) prober(kube kubernetes.Interface, config *rest.Config) *steadystate.Prober {
	p := &steadystate.Prober{Kube: kube, APIServer: config.Host, Version: version(), Hosts: c.ProbeHosts, Rate: probe.NewRate(c.ProbeRequests)}
	if c.ProbeExec {
		p.Exec = &probe.Exec{Client: kube, Config: config}
	}
	if c.PrometheusAddress == "" {
		return p
	}
	p.Prometheus = func() (*probe.Prometheus, error) {
		server := &probe.Prometheus{URL: c.PrometheusAddress, NamespaceLabel: c.PrometheusNamespaceLabel}
		if c.PrometheusTokenFile == "" {
			return server, nil
		}
		token, err := os.ReadFile(c.PrometheusTokenFile)
		server.Token = strings.TrimSpace(string(token))
		return server, err
	}
	return p
}
