package main

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ending is how a disruption of the soak shall end.
type ending string

const (
	expires ending = "expires"
	deleted ending = "deleted while it holds"
	nipped  ending = "deleted while it starts"
)

// plan is all that is decided of one disruption before it begins.
type plan struct {
	spec   v1beta1.DisruptionSpec
	ending ending
	// after is from the injection to the deletion, or, nipped, from the creation.
	after time.Duration
}

// planOf decides about disruption number n: the same for the same seed,
// whatever happened to those before.
func planOf(seed uint64, n int) plan {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	count := intstr.FromInt(1 + r.IntN(3))
	p := plan{spec: v1beta1.DisruptionSpec{
		Faults: someFaults(r), Count: &count, Level: v1beta1.LevelPod,
		Selector: map[string]string{"app": "target"}, AllowDisruptedTargets: true,
	}}
	switch faults := p.spec.Faults; {
	case faults.ContainerFailure != nil:
		p.spec.Selector = map[string]string{"fragile": "yes"}
	case faults.GRPC != nil:
		p.spec.Selector = map[string]string{"app": "listener"}
	case faults.PodReplacement != nil:
		p.spec.Selector, count = map[string]string{"app": "moved"}, intstr.FromInt(1)
	case faults.CPUPressure == nil && (faults.Network != nil || faults.DiskPressure != nil) && r.IntN(4) == 0:
		p.spec.Level, p.spec.Selector = v1beta1.LevelNode, nil
		p.spec.AdvancedSelector = []metav1.LabelSelectorRequirement{{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpExists}} // also nodes with our own pods
		if faults.DiskPressure != nil {
			p.spec.DiskPressure.Path = "/var/lib/kubelet"
		}
	}
	lasts, starts := 2*time.Minute, time.Duration(0) // no injector is left to its deadline
	if p.spec.Selector["app"] == "target" && r.IntN(3) == 0 {
		p.spec.Selector, p.spec.PodOpsLifecycle = map[string]string{"app": "served"}, operates(r)
		starts = 4 * time.Second // a target is taken out of service first
	}
	if r.IntN(5) == 0 {
		p.spec.SteadyState = steady(r)
		starts += 2 * time.Second
	}
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		p.ending = expires
		lasts = starts + 3*time.Second + span(r, 5*time.Second)
	case 4, 5, 6:
		p.ending, p.after = deleted, span(r, 3*time.Second)
	default:
		p.ending, p.after = nipped, span(r, starts+1500*time.Millisecond)
	}
	p.spec.Duration = &v1beta1.Duration{Duration: lasts.Round(100 * time.Millisecond)}
	return p
}

// operates lets a disruption take part in the operations on its targets, and lets
// others wait for most of these until they are clean. The times are longer than a node
// is away.
func operates(r *rand.Rand) *v1beta1.PodOpsLifecycle {
	given, available, kept := 60, 120, 20
	return &v1beta1.PodOpsLifecycle{
		Policy: v1beta1.OperationsJoined, UnmanagedPods: v1beta1.SkipUnmanaged, OperatingTimeoutSeconds: &given, AvailableTimeoutSeconds: &available,
		ProtectTargets: r.IntN(4) > 0, ProtectionTimeoutSeconds: &kept,
	}
}

// steady has a disruption wait until pods are ready, and end when they are not: those
// of which containers are killed, or those that lose a node alone.
func steady(r *rand.Rand) *v1beta1.SteadyState {
	selector := map[string]string{"app": "listener"}
	if r.IntN(2) == 0 {
		selector = map[string]string{"fragile": "yes"}
	}
	return &v1beta1.SteadyState{GateTimeoutSeconds: 20, RecoveryTimeoutSeconds: 20, Probes: []v1beta1.Probe{{
		Name: "ready", PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: selector}},
	}}}
}

// someFaults are one kind or two with hardly any effect; the kinds that leave more
// on a node come more often.
func someFaults(r *rand.Rand) v1beta1.Faults {
	network := &v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: "192.0.2.1"}}} // an unused address
	burn, bytes := intstr.FromString("10%"), int64(1<<20)
	cpu := &v1beta1.CPUPressure{Count: &burn}
	disk := &v1beta1.DiskPressure{Path: "/data", Throttling: v1beta1.DiskPressureThrottling{WriteBytesPerSec: &bytes}}
	switch r.IntN(16) {
	case 0, 1, 2:
		return v1beta1.Faults{Network: network}
	case 3, 4, 5:
		return v1beta1.Faults{DiskPressure: disk}
	case 6:
		return v1beta1.Faults{CPUPressure: cpu}
	case 7:
		return v1beta1.Faults{Network: network, DiskPressure: disk}
	case 8:
		return v1beta1.Faults{CPUPressure: cpu, DiskPressure: disk}
	case 9:
		return v1beta1.Faults{MemoryPressure: &v1beta1.MemoryPressure{TargetPercent: v1beta1.Percentage{Text: "50%"}}}
	case 10:
		return v1beta1.Faults{DNS: &v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{{
			Hostname: "made-up.example.com", Record: v1beta1.DNSRecord{Type: "A", Value: "192.0.2.1"},
		}}}}
	case 11:
		return v1beta1.Faults{DiskFailure: &v1beta1.DiskFailure{
			Paths: []string{"/data"}, OpenatSyscall: &v1beta1.OpenatSyscall{ExitCode: "EPERM"}, Probability: &v1beta1.Percentage{Text: "1%"},
		}}
	case 12:
		return v1beta1.Faults{GRPC: &v1beta1.GRPCDisruption{Port: listenerPort, Endpoints: []v1beta1.GRPCEndpoint{{
			TargetEndpoint: "/grpc.health.v1.Health/Check", ErrorToReturn: "UNAVAILABLE", QueryPercent: 50,
		}}}}
	case 13, 14:
		return v1beta1.Faults{PodReplacement: &v1beta1.PodReplacement{}}
	default:
		return v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{Forced: r.IntN(2) == 0}}
	}
}

// blow is one kill of the storm: what, how long after the one before, and a
// number that chooses among several of the kind that run then. A node that is
// frozen or cut off stays so for a time.
type blow struct {
	part   string
	after  time.Duration
	lasts  time.Duration
	choice uint64
}

// Parts that are killed.
const (
	worker     = "worker"
	bridge     = "crdbridge"
	temporal   = "temporal"
	apiserver  = "kube-apiserver"
	kubelet    = "kubelet"
	containerd = "containerd"
	injector   = "injector"
	nodeCrash  = "node, crashed"
	nodeFreeze = "node, frozen"
	nodeCut    = "node, cut off"
)

var parts = []string{injector, worker, bridge, temporal, apiserver, kubelet, containerd, nodeCrash, nodeFreeze, nodeCut}

// storm decides about kill number n, counted from 0, with every as the mean
// time between two. The first ones kill each part once; later every second one
// kills an injector.
func storm(seed uint64, n int, every time.Duration) blow {
	r := rand.New(rand.NewPCG(seed, ^uint64(n)))
	b := blow{after: every/2 + span(r, every), choice: r.Uint64(), lasts: 5*time.Second + span(r, 15*time.Second)}
	if r.IntN(4) == 0 {
		b.lasts = notReady + span(r, 10*time.Second)
	}
	switch {
	case n < len(parts):
		b.part = parts[rand.New(rand.NewPCG(seed, 0)).Perm(len(parts))[n]]
	case r.IntN(2) == 0:
		b.part = injector
	default:
		b.part = parts[1+r.IntN(len(parts)-1)]
	}
	return b
}

// notReady is longer than the development cluster waits for a silent node before
// it marks the node as not ready.
const notReady = 25 * time.Second

func span(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}
