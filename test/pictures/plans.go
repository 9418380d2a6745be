package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/chart"
)

// plan is how the picture of a kind is made.
type plan struct {
	kind  v1beta1.Kind
	title string
	// needs is the component of deploy with the rights for it; empty for none.
	needs string
	// ownKernel has the target on a node with a kernel of its own.
	ownKernel bool
	runs      []run
}

// run is one disruption and what is measured of it.
type run struct {
	// spec is what the Disruption asks for, beside its targets and its duration.
	spec string
	// workload creates what there shall be beside target and client, or alone.
	workload func(context.Context, *space) error
	alone    bool
	// target changes the pod that is disturbed.
	target func(*corev1.Pod)
	look   look
	// during is the least time that it stays injected; until may extend it.
	during  time.Duration
	until   func(context.Context, *space) error
	figures []figure
}

// before and after are how long the target is looked at while nothing is injected.
const before, after = 8 * time.Second, 9 * time.Second

// plans are all kinds.
var plans = []plan{
	{kind: v1beta1.KindNetwork, title: "Network disruption: what a client sees of a target, in three runs", runs: []run{
		{spec: "network: {drop: 40}", look: lost, during: 14 * time.Second,
			figures: []figure{{title: "Datagrams that are not answered", unit: " %", most: 100, curves: []string{"lost"}, asked: []chart.Asked{{Name: "drop: 40", Value: 40}}}}},
		{spec: "network: {delay: 200}", look: late, during: 14 * time.Second,
			figures: []figure{{title: "Mean time until an answer", unit: " ms", curves: []string{"late"}, asked: []chart.Asked{{Name: "delay: 200", Value: 200}}}}},
		{spec: "network: {bandwidthLimit: 2000}", look: rate, during: 24 * time.Second,
			figures: []figure{{title: "Bytes answered in a second, when a client asks for 8000", unit: " B/s", most: 8000, curves: []string{"rate"}, asked: []chart.Asked{{Name: "bandwidthLimit: 2000", Value: 2000}}}}},
	}},
	{kind: v1beta1.KindCPUPressure, title: "CPU pressure: a container that may take half a core", runs: []run{
		{spec: "cpuPressure: {count: 100%}", target: limited(corev1.ResourceCPU, "500m"), look: cores, during: 14 * time.Second,
			figures: []figure{{title: "Processor time that its cgroup takes, in cores", most: 1, curves: []string{"cores"}, asked: []chart.Asked{{Name: "all that its limit allows: 0.5", Value: 0.5}}}}},
	}},
	{kind: v1beta1.KindMemoryPressure, title: "Memory pressure: a container that may take 200 MiB", runs: []run{
		{spec: "memoryPressure: {targetPercent: 75%, rampDuration: 10s}", target: limited(corev1.ResourceMemory, "200Mi"), look: memory, during: 20 * time.Second,
			figures: []figure{{title: "Memory that is charged to its cgroup, of its limit", unit: " %", most: 100, curves: []string{"memory"}, asked: []chart.Asked{{Name: "targetPercent: 75%", Value: 75}}}}},
	}},
	{kind: v1beta1.KindDiskPressure, title: "Disk pressure: a container that writes all the time", runs: []run{
		{spec: "diskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576}}", target: serving("--write", "/data/file", "--write-block", "16384"), look: written, during: 16 * time.Second,
			figures: []figure{{title: "MiB that it writes to its disk in a second", perSecond: true, curves: []string{"written"}, asked: []chart.Asked{{Name: "writeBytesPerSec: 1048576", Value: 1}}}}},
	}},
	{kind: v1beta1.KindDiskFailure, title: "Disk failure: a container opens a file, 100 times in each look", runs: []run{
		{spec: "diskFailure: {paths: [/data], openat: {exitCode: ENOSPC}, probability: 20%}", target: serving("--write", "/data/file"), look: opens, during: 14 * time.Second,
			figures: []figure{{title: "Opens that fail: no space left on device", unit: " %", most: 50, curves: []string{"failed"}, asked: []chart.Asked{{Name: "probability: 20%", Value: 20}}}}},
	}},
	{kind: v1beta1.KindDNS, title: "DNS disruption: what a pod is told about three services", runs: []run{
		{spec: "dns: {records: [{hostname: orders-db, record: {type: A, value: NXDOMAIN}}, {hostname: orders-db, record: {type: AAAA, value: NXDOMAIN}}, " +
			"{hostname: payments, record: {type: A, value: 192.0.2.1}}]}",
			workload: services, look: names, during: 14 * time.Second, figures: []figure{{title: "The address of a name"}}},
	}},
	{kind: v1beta1.KindGRPC, title: "gRPC disruption: calls of one method, 200 in each look", runs: []run{
		{spec: "grpc: {port: 50051, endpoints: [{endpoint: /grpc.health.v1.Health/Check, error: UNAVAILABLE, queryPercent: 30}, " +
			"{endpoint: /grpc.health.v1.Health/Check, error: RESOURCE_EXHAUSTED, queryPercent: 10}]}",
			target: answersGRPC, look: calls, during: 14 * time.Second,
			figures: []figure{{title: "Calls that fail, by their code", unit: " %", most: 50, curves: []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"},
				asked: []chart.Asked{{Name: "queryPercent: 30", Value: 30}, {Name: "queryPercent: 10", Value: 10}}}}},
	}},
	{kind: v1beta1.KindContainerFailure, title: "Container failure: a target that the kubelet starts again", runs: []run{
		{spec: "containerFailure: {forced: true, interval: 15s}", look: restarts, during: 28 * time.Second, figures: []figure{
			{title: "Datagrams that are answered", unit: " %", most: 100, curves: []string{"answered"}},
			{title: "How often the container was started again", most: 4, curves: []string{"restarts"}}}},
	}},
	{kind: v1beta1.KindPodReplacement, title: "Pod replacement: one of the two pods of a Deployment", needs: "pod-replacement", runs: []run{
		{spec: "podReplacement: {gracePeriodSeconds: 1}", workload: deployment, alone: true, look: pods, during: 14 * time.Second,
			figures: []figure{{title: "Its pods, and whether nodes take new ones"}}},
	}},
	{kind: v1beta1.KindNodeFailure, title: "Node failure: what a client on another node sees of a target", ownKernel: true, runs: []run{
		{spec: "nodeFailure: {shutdown: false}", look: reached, during: 10 * time.Second, until: cameBack, figures: []figure{
			{title: "Datagrams that are answered", unit: " %", most: 100, curves: []string{"answered"}},
			{title: "What the API server says"}}},
	}},
}

// limited gives a target a limit, and what it may take also on a busy node.
func limited(name corev1.ResourceName, most string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		list := corev1.ResourceList{name: resource.MustParse(most)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	}
}

// serving gives a target something to do.
func serving(args ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = append([]string{"serve"}, args...) }
}

// answersGRPC makes a target an application with a listener.
func answersGRPC(pod *corev1.Pod) {
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Args = probeImage, []string{"grpc"}
}
