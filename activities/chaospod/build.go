// Package chaospod knows the pods that run the injector: their names, how to build
// them, what their state reports of an injection, and how they ended. It decides from
// plain values. Only its watch, which keeps all chaos pods in memory, calls an API
// server.
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

// How long a chaos pod may outlive the disruption's expiry. The injector ends at its
// deadline. If the injector hangs, the kubelet ends its pod later, so that a cleanup
// has the time for all its retries.
const (
	injectorMargin = 2 * time.Second
	podMargin      = 90 * time.Second
)

// DefaultCPU of a chaos pod. An injector seldom needs that much, but then others wait
// for it. On a node whose pods take every processor, a pod gets its share by its
// request. Measured on such nodes: with 1m, half of the killed injectors were not
// cleaned up within 40 s, and cleaners exceeded their minute. With 50m, half were
// cleaned up within 8 s.
var DefaultCPU = resource.MustParse("50m")

// sysrqTrigger is the node's own file as a chaos pod sees it, through the node's
// process namespace. The container's own file is not writable.
const sysrqTrigger = "/proc/1/root/proc/sysrq-trigger"

// releaseNeeds is the right that an injector needs to release a pod that is held back:
// it signals a process of another user.
var releaseNeeds = v1beta1.Needs{Capabilities: []string{"KILL"}}

// Builder makes pods of the injector from what an installation chooses.
type Builder struct {
	// Namespace is where chaos pods live, never a target's own.
	Namespace string
	// Image of the injector.
	Image string
	// ImagePullPolicy of chaos pods; empty means the cluster's default.
	ImagePullPolicy string
	// PriorityClass of all these pods, which decides what a node short of memory evicts
	// and kills first; empty means the cluster's default.
	PriorityClass string
	// ImagePullSecrets are names of Secrets in Namespace with which all these pods pull
	// the image.
	ImagePullSecrets []string
	// CPU is the request of all these pods, and so their share of a busy node's
	// processors; 0 means DefaultCPU.
	CPU resource.Quantity
	// SELinuxType is the type of the context that all these pods run in; empty means the
	// container runtime's default.
	SELinuxType string
	// NodeTimeout bounds a cleaner, or a command on a node, from the creation of its pod;
	// 0 means DefaultNodeTimeout.
	NodeTimeout time.Duration
	// AllowedHosts are never disrupted by a network disruption, unless the disruption
	// drops this list.
	AllowedHosts []v1beta1.NetworkHost
}

// ChaosPod returns the pod that injects one fault into one target of a shard (rules
// 22-26, 32). The addresses of services are not in it: they change, so an annotation
// has them.
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
		addRights(&pod.Spec, releaseNeeds)
	}
	pod.Spec.Containers[0].StartupProbe.InitialDelaySeconds = secondsToInjection(d, now)
	if resolves(d, fault) {
		addResolvedHosts(&pod.Spec)
	}
	return pod, nil
}

// resolves is true of a fault that needs the addresses of services and clouds.
func resolves(d *v1beta1.Disruption, fault v1beta1.Fault) bool {
	return fault.Kind == v1beta1.KindNetwork && d.Spec.Network.NeedsResolving()
}

// secondsToInjection is how long the kubelet need not probe the injector, because
// triggers.inject or the pulse delays the injection. Each probe costs the node a
// process.
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
// ignores the type.
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
