package promise

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/kube/podops"
)

// Probes are privileged pods, one for each node, which see what is in force there
// (test/probe). They are asked through the API server's proxy.
type Probes struct {
	kube             kubernetes.Interface
	namespace, token string
	pods             map[string]string // by node
}

// tokenVariable and tokenHeader are those of test/probe.
const (
	tokenVariable = "PROBE_TOKEN"
	tokenHeader   = "Probe-Token"

	probePort = 19199 // of the node: outside the ranges of NodePorts and of local ports
)

// StartProbes returns when a probe runs on each of the nodes. Probes that run already are
// left as they are.
func StartProbes(ctx context.Context, kube kubernetes.Interface, namespace, image string, nodes []string) (*Probes, error) {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := kube.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	sets := kube.AppsV1().DaemonSets(namespace)
	set, err := sets.Create(ctx, probeSet(image, rand.Text()), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		set, err = sets.Get(ctx, "probe", metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	probes := &Probes{kube: kube, namespace: namespace, pods: map[string]string{}}
	for _, variable := range set.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == tokenVariable {
			probes.token = variable.Value
		}
	}
	if probes.token == "" {
		return nil, fmt.Errorf("DaemonSet %s/%s is of an older version: delete it", namespace, set.Name)
	}
	for len(probes.pods) < len(nodes) {
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=probe"})
		if err != nil {
			return nil, fmt.Errorf("wait for the probes: %w", err)
		}
		for _, pod := range pods.Items {
			if podops.Ready(&pod) && pod.DeletionTimestamp == nil {
				probes.pods[pod.Spec.NodeName] = pod.Name
			}
		}
		if err := Pause(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the probes: %w", err)
		}
	}
	return probes, nil
}

func probeSet(image, token string) *appsv1.DaemonSet {
	labels, yes := map[string]string{"app": "probe"}, true
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostPID:     true, HostNetwork: true, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "probe", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve", "--listen", fmt.Sprintf(":%d", probePort)},
				Env: []corev1.EnvVar{{Name: tokenVariable, Value: token}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(probePort)},
				}},
				SecurityContext: &corev1.SecurityContext{Privileged: &yes},
				VolumeMounts:    []corev1.VolumeMount{{Name: "cgroup", MountPath: "/sys/fs/cgroup"}, {Name: "journal", MountPath: "/var/lib/squall"}},
			}},
			Volumes: NodeVolumes(),
		}},
	}}
}

// Run runs a command of test/probe on a node and decodes the JSON that it prints, unless
// into is nil.
func (p *Probes) Run(ctx context.Context, into any, node string, command ...string) error {
	body, err := json.Marshal(command)
	if err != nil {
		return err
	}
	answer, err := p.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).
		Name(fmt.Sprintf("%s:%d", p.pods[node], probePort)).SubResource("proxy").
		SetHeader(tokenHeader, p.token).Body(body).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("%s by the probe on %s: %w: %s", strings.Join(command, " "), node, err, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s by the probe on %s printed %q: %w", strings.Join(command, " "), node, answer, err)
	}
	return nil
}
