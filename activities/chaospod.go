package activities

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

//go:embed chaospod.yaml
var chaosPodManifest []byte

// chaosPodTemplate is that manifest, decoded once for all chaos pods.
var chaosPodTemplate = sync.OnceValues(func() (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(chaosPodManifest, pod); err != nil {
		return nil, fmt.Errorf("decode the chaos pod's template: %w", err)
	}
	return pod, nil
})

// How long a chaos pod may outlive the disruption's expiry. The injector ends
// itself first; the kubelet ends a pod whose injector hangs, late enough not
// to cut a cleaning with all its retries short.
const (
	injectorMargin = 2 * time.Second
	podMargin      = 90 * time.Second
)

const annotationTarget = "chaos.squall.dev/target"

// chaosPod is the pod that does one fault to one target (rules 22-26, 32).
func (a *Activities) chaosPod(d *v1beta1.Disruption, s Shard, t Target, fault v1beta1.Fault, now time.Time) (*corev1.Pod, error) {
	template, err := chaosPodTemplate()
	if err != nil {
		return nil, err
	}
	pod := template.DeepCopy()
	injection, err := a.injection(d, t, fault)
	if err != nil {
		return nil, err
	}
	pod.Name = ChaosPodName(d.Ref(), t.InjectionTarget, fault.Kind)
	pod.Namespace = a.Namespace
	pod.Labels = ownedBy(d.Ref())
	pod.Labels[v1beta1.LabelDisruptionKind] = string(fault.Kind)
	pod.Labels[v1beta1.LabelTarget] = labelValue(t.Name)
	pod.Labels[v1beta1.LabelTargetUID] = string(t.UID)
	pod.Labels[v1beta1.LabelShard] = strconv.Itoa(s.Number)
	pod.Annotations = map[string]string{annotationTarget: t.Name}
	pod.Spec.NodeName = t.NodeName
	seconds := int64(max(d.Spec.Expiry(d.CreationTimestamp.Time).Sub(now)+podMargin, podMargin).Seconds())
	pod.Spec.ActiveDeadlineSeconds = &seconds
	a.fillContainer(&pod.Spec, fault.Kind, injection)
	pod.Spec.Containers[0].StartupProbe.InitialDelaySeconds = secondsToInjection(d, now)
	return pod, nil
}

// secondsToInjection is how long the kubelet need not ask the injector whether
// it has injected, because triggers.inject lets it begin later only. A probe
// costs the node a process.
func secondsToInjection(d *v1beta1.Disruption, now time.Time) int32 {
	wait := d.Spec.TimeToInject(d.CreationTimestamp.Time).Sub(now)
	return int32(min(max(wait, 0)/time.Second, math.MaxInt32))
}

func (a *Activities) fillContainer(spec *corev1.PodSpec, kind v1beta1.Kind, injection string) {
	container := &spec.Containers[0]
	container.Image = a.Image
	container.ImagePullPolicy = corev1.PullPolicy(a.ImagePullPolicy)
	container.Args = []string{string(kind)}
	container.Env = []corev1.EnvVar{{Name: v1beta1.InjectionEnv, Value: injection}}
	addRights(spec, kind.Needs())
}

// injection is the document the injector receives.
func (a *Activities) injection(d *v1beta1.Disruption, t Target, fault v1beta1.Fault) (string, error) {
	params, err := fault.Document()
	if err != nil {
		return "", err
	}
	injection := v1beta1.Injection{
		Disruption: d.Ref(), Kind: fault.Kind, Params: params, Level: d.Spec.Level, Target: t.InjectionTarget,
		Deadline: metav1.NewTime(d.Spec.Expiry(d.CreationTimestamp.Time).Add(injectorMargin)),
		DryRun:   d.Spec.DryRun, AllowedHosts: a.AllowedHosts,
	}
	if notBefore := d.Spec.TimeToInject(d.CreationTimestamp.Time); notBefore.After(d.CreationTimestamp.Time) {
		injection.NotBefore = &metav1.Time{Time: notBefore}
	}
	document, err := json.Marshal(injection)
	return string(document), err
}

// ChaosPodName is the one name a chaos pod of this disruption, target and kind
// can have: creating it twice creates it once.
func ChaosPodName(ref Ref, t v1beta1.InjectionTarget, kind v1beta1.Kind) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(ref.UID), string(t.UID), string(kind)}, "/")))
	readable := strings.Trim(ref.Name[:min(len(ref.Name), 40)], "-.")
	return "chaos-" + strings.ReplaceAll(readable, ".", "-") + "-" + hex.EncodeToString(sum[:])[:12]
}

// labelValue is name when it fits a label value (63 characters), otherwise its
// beginning and a hash. The full name is in an annotation.
func labelValue(name string) string {
	if len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.Trim(name[:50], "-.") + "-" + hex.EncodeToString(sum[:])[:12]
}
