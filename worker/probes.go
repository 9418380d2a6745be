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
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Values of the setting task-queues. Probes are written by tenants: they reach many
// addresses, and cost memory and processor time. In a cluster another Deployment asks
// them than the one that cleans up, with fewer rights. Outside of one, as in tests, a
// worker does both.
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

// counters are what a worker of these settings counts. A page that shows a number of
// another program as 0 would hide from alerts that this program is absent.
func (c Config) counters() []metric.Counter {
	if c.TaskQueues == queuesProbes {
		return []metric.Counter{metric.ProbeAnswers, metric.ProbeWaits, metric.EventsLost}
	}
	return metric.All()
}

// taskQueues are those that the settings say.
func (c Config) taskQueues(acts *activities.Activities, temporal client.Client, cluster types.UID) (queues []taskQueue) {
	if c.TaskQueues != queuesProbes {
		queues = disruptionQueues(acts, newSweep(acts, temporal, cluster), newRuns(acts, temporal), cluster)
	}
	if c.TaskQueues != queuesDisruptions {
		queues = append(queues, probeQueue(acts, cluster))
	}
	return queues
}

// probeQueue is the queue of probers, who do nothing else.
func probeQueue(acts *activities.Activities, cluster types.UID) taskQueue {
	return taskQueue{
		name: contract.ProbeTaskQueue,
		options: worker.Options{
			MaxConcurrentActivityExecutionSize: manySlots,
			DisableWorkflowWorker:              true,
			Interceptors:                       []interceptor.WorkerInterceptor{&belongings{cluster: cluster}},
			// Probers heartbeat themselves, with what the next one goes on with,
			// and by that learn that their phase is over.
			MaxHeartbeatThrottleInterval: time.Second,
		},
		register: func(r worker.Registry) {
			r.RegisterActivityWithOptions(acts.AskProbes, activity.RegisterOptions{Name: "AskProbes"})
		},
	}
}

// probingActivities can ask probes and do nothing else: they watch the records of
// targets, and neither chaos pods nor policies, nor do they count the cluster's pods.
func (c Config) probingActivities(at reached) *activities.Activities {
	return &activities.Activities{
		Kube: at.kube, Clock: at.clock, Disruptions: at.disruptions, Targets: at.records, Namespace: c.ChaosNamespace,
		Prober: c.prober(at.kube, at.config),
	}
}

// prober asks probes, as far as the settings allow it.
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
