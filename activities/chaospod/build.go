// Package chaospod knows the pods that run the injector: how each is named and
// built, what its state says of an injection, and what became of it. It decides
// from plain values; only the watch, which keeps all chaos pods in memory, speaks
// to an API server.
package chaospod

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

//go:embed chaospod.yaml
var manifest []byte

// template is that manifest, decoded once for all chaos pods.
var template = sync.OnceValues(func() (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(manifest, pod); err != nil {
		return nil, fmt.Errorf("decode the chaos pod's template: %w", err)
	}
	return pod, nil
})

func fromTemplate() (*corev1.Pod, error) {
	pod, err := template()
	if err != nil {
		return nil, err
	}
	return pod.DeepCopy(), nil
}

// How long a chaos pod may outlive the disruption's expiry. The injector ends
// itself first; the kubelet ends a pod whose injector hangs, late enough not
// to cut a cleaning with all its retries short.
const (
	injectorMargin = 2 * time.Second
	podMargin      = 90 * time.Second
)

// DefaultCPU of a chaos pod. Its injector takes far less, but seldom, and then it is
// waited for: pods that ask for more and take all they can leave it a share of what
// it asks for. With 1m, on nodes like that, half of the injectors that were killed had
// not been cleaned up after in 40 s, and cleaners ran out of their minute; with 50m
// half had been in 8 s.
var DefaultCPU = resource.MustParse("50m")

// sysrqTrigger is the node's own file as a chaos pod sees it, which shares the
// node's process namespace: a container's own one cannot be written.
const sysrqTrigger = "/proc/1/root/proc/sysrq-trigger"

// letGoNeeds is what an injector needs to let a pod go that is held back: the
// process that it signals is another user's.
var letGoNeeds = v1beta1.Needs{Capabilities: []string{"KILL"}}

// Builder makes pods of the injector from what an installation chooses.
type Builder struct {
	// Namespace is where chaos pods live, never a target's own.
	Namespace string
	// Image of the injector.
	Image string
	// ImagePullPolicy of chaos pods; empty means the cluster's default.
	ImagePullPolicy string
	// PriorityClass of all these pods, which decides whom a node short of memory
	// evicts and kills first; empty means that of the cluster.
	PriorityClass string
	// ImagePullSecrets are names of Secrets in Namespace with which all these pods pull
	// the image.
	ImagePullSecrets []string
	// CPU is what all these pods ask for, and so their share of a busy node's
	// processors; 0 means DefaultCPU.
	CPU resource.Quantity
	// SELinuxType is the type of the context that all these pods run in; empty means
	// what the container runtime gives them.
	SELinuxType string
	// NodeTimeout is how long a cleaner, or a command on a node, may take from its
	// creation, the start of its pod included; 0 means DefaultNodeTimeout.
	NodeTimeout time.Duration
	// AllowedHosts are never disturbed by a network disruption, unless it asks
	// to drop this list.
	AllowedHosts []v1beta1.NetworkHost
}

// ChaosPod is the pod that does one fault to one target of a shard (rules 22-26,
// 32). What services stand for is not in it: that is an annotation, which changes.
func (b Builder) ChaosPod(d *v1beta1.Disruption, shard int, t v1beta1.InjectionTarget, fault v1beta1.Fault, now time.Time) (*corev1.Pod, error) {
	pod, err := fromTemplate()
	if err != nil {
		return nil, err
	}
	injection, err := b.injection(d, t, fault, now)
	if err != nil {
		return nil, err
	}
	pod.Name = Name(d.Ref(), t, fault.Kind)
	pod.Namespace = b.Namespace
	pod.Labels = OwnerLabels(d.Ref())
	pod.Labels[v1beta1.LabelDisruptionKind] = string(fault.Kind)
	pod.Labels[v1beta1.LabelTarget] = labelValue(t.Name)
	pod.Labels[v1beta1.LabelTargetUID] = string(t.UID)
	pod.Labels[v1beta1.LabelShard] = strconv.Itoa(shard)
	pod.Annotations[annotationTarget] = t.Name
	pod.Spec.NodeName = t.NodeName
	seconds := int64(max(d.Spec.Expiry(d.CreationTimestamp.Time).Sub(now)+podMargin, podMargin).Seconds())
	pod.Spec.ActiveDeadlineSeconds = &seconds
	b.fillContainer(&pod.Spec, fault.Kind, injection)
	if d.Spec.OnInit {
		addRights(&pod.Spec, letGoNeeds)
	}
	pod.Spec.Containers[0].StartupProbe.InitialDelaySeconds = secondsToInjection(d, now)
	if resolves(d, fault) {
		addResolvedHosts(&pod.Spec)
	}
	return pod, nil
}

// resolves is true of a fault that needs to know what services and clouds stand for.
func resolves(d *v1beta1.Disruption, fault v1beta1.Fault) bool {
	return fault.Kind == v1beta1.KindNetwork && d.Spec.Network.NeedsResolving()
}

// secondsToInjection is how long the kubelet need not ask the injector whether
// it has injected, because triggers.inject or the pulse lets it begin later
// only. A probe costs the node a process.
func secondsToInjection(d *v1beta1.Disruption, now time.Time) int32 {
	wait := max(d.Spec.TimeToInject(d.CreationTimestamp.Time).Sub(now), 0)
	if pulse := d.Spec.Beats(); pulse != nil && pulse.InitialDelay != nil {
		wait += pulse.InitialDelay.Duration
	}
	return int32(min(wait/time.Second, math.MaxInt32))
}

func (b Builder) fillContainer(spec *corev1.PodSpec, kind v1beta1.Kind, injection string) {
	container := &spec.Containers[0]
	b.fit(spec)
	container.Args = []string{string(kind)}
	container.Env = []corev1.EnvVar{{Name: v1beta1.InjectionEnv, Value: injection}}
	addRights(spec, kind.Needs())
}

// fit sets what the installation chose for all pods on nodes. A node without SELinux
// does not look at the type for it.
func (b Builder) fit(spec *corev1.PodSpec) {
	spec.PriorityClassName = b.PriorityClass
	for _, name := range b.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	container := &spec.Containers[0]
	container.Image, container.ImagePullPolicy = b.Image, corev1.PullPolicy(b.ImagePullPolicy)
	cpu := b.CPU
	if cpu.IsZero() {
		cpu = DefaultCPU
	}
	container.Resources.Requests[corev1.ResourceCPU] = cpu
	if b.SELinuxType != "" {
		container.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: b.SELinuxType}
	}
}

// injection is the document the injector receives.
func (b Builder) injection(d *v1beta1.Disruption, t v1beta1.InjectionTarget, fault v1beta1.Fault, now time.Time) (string, error) {
	params, err := fault.Document()
	if err != nil {
		return "", err
	}
	deadline := d.Spec.Expiry(d.CreationTimestamp.Time).Add(injectorMargin)
	injection := v1beta1.Injection{
		Disruption: d.Ref(), Kind: fault.Kind, Params: params, Level: d.Spec.Level, Target: t,
		Deadline: metav1.NewTime(deadline), Remaining: metav1.Duration{Duration: max(deadline.Sub(now).Round(time.Second), 0)},
		DryRun: d.Spec.DryRun, Pulse: d.Spec.Beats(), AllowedHosts: b.AllowedHosts,
	}
	if d.Spec.OnInit {
		injection.OnInit = d.Spec.Kinds()
	}
	if fault.Kind == v1beta1.KindNodeFailure {
		injection.SysrqTrigger = sysrqTrigger
	}
	if failure := d.Spec.ContainerFailure; failure != nil && failure.Interval != nil && d.Spec.MaxRuns != nil {
		injection.MaxRuns = *d.Spec.MaxRuns
	}
	if resolves(d, fault) {
		injection.ResolvedHosts = resolvedHostsDir + "/" + resolvedHostsName
	}
	if notBefore := d.Spec.TimeToInject(d.CreationTimestamp.Time); notBefore.After(d.CreationTimestamp.Time) {
		injection.NotBefore = &metav1.Time{Time: notBefore}
	}
	document, err := json.Marshal(injection)
	return string(document), err
}
