package main

import (
	"math/rand/v2"
	"time"

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
	if p.spec.ContainerFailure != nil {
		p.spec.Selector = map[string]string{"fragile": "yes"}
	}
	lasts := 2 * time.Minute // no injector is left to its deadline
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		p.ending = expires
		lasts = 3*time.Second + span(r, 5*time.Second)
	case 4, 5, 6:
		p.ending, p.after = deleted, span(r, 3*time.Second)
	default:
		p.ending, p.after = nipped, span(r, 1500*time.Millisecond)
	}
	p.spec.Duration = &v1beta1.Duration{Duration: lasts.Round(100 * time.Millisecond)}
	return p
}

// someFaults are one kind or two that hardly anybody feels; the kinds that
// leave more on a node come more often.
func someFaults(r *rand.Rand) v1beta1.Faults {
	network := &v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: "192.0.2.1"}}} // nobody's address
	burn, bytes := intstr.FromString("10%"), int64(1<<20)
	cpu := &v1beta1.CPUPressure{Count: &burn}
	disk := &v1beta1.DiskPressure{Path: "/data", Throttling: v1beta1.DiskPressureThrottling{WriteBytesPerSec: &bytes}}
	switch r.IntN(13) {
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
		return v1beta1.Faults{MemoryPressure: &v1beta1.MemoryPressure{TargetPercent: "50%"}}
	case 10:
		return v1beta1.Faults{DNS: &v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{{
			Hostname: "made-up.example.com", Record: v1beta1.DNSRecord{Type: "A", Value: "192.0.2.1"},
		}}}}
	case 11:
		return v1beta1.Faults{DiskFailure: &v1beta1.DiskFailure{
			Paths: []string{"/data"}, OpenatSyscall: &v1beta1.OpenatSyscall{ExitCode: "EPERM"}, Probability: "1%",
		}}
	default:
		return v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{Forced: r.IntN(2) == 0}}
	}
}

// blow is one kill of the storm: what, how long after the one before, and a
// number that chooses among several of the kind that run then.
type blow struct {
	part   string
	after  time.Duration
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
)

var parts = []string{injector, worker, bridge, temporal, apiserver, kubelet, containerd}

// storm decides about kill number n, counted from 0, with every as the mean
// time between two. The first ones kill each part once; later every second one
// kills an injector.
func storm(seed uint64, n int, every time.Duration) blow {
	r := rand.New(rand.NewPCG(seed, ^uint64(n)))
	b := blow{after: every/2 + span(r, every), choice: r.Uint64()}
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

func span(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}
