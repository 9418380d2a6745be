package chaospod

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// How long a command on a node may take: a few seconds if the image is there, longer if
// the node is slow or pulls it first. A cleaner has cleanerMargin less, so that the
// activity that waits for it sees it end.
const (
	DefaultNodeTimeout = time.Minute
	MostNodeTimeout    = 150 * time.Second
	cleanerMargin      = 10 * time.Second
)

// Timeout is NodeTimeout, if it is set.
func (b Builder) Timeout() time.Duration { return cmp.Or(b.NodeTimeout, DefaultNodeTimeout) }

// Owner is the disruption or sweep for which a command runs on nodes.
type Owner struct {
	// Name distinguishes the pods of two owners.
	Name   string
	Labels map[string]string
}

// NodeCommand returns a pod that runs one command of the injector on a node, with the
// rights of the chaos pods of all kinds together. It is no chaos pod: it has no
// finalizer, and may be deleted at any moment.
func (b Builder) NodeCommand(owner Owner, node *corev1.Node, args []string) (*corev1.Pod, error) {
	pod, err := fromTemplate()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{owner.Name, string(node.UID)}, args...), "/")))
	pod.Name = "sweep-" + args[0] + "-" + hex.EncodeToString(sum[:])[:16]
	pod.Namespace, pod.Finalizers = b.Namespace, nil
	pod.Labels = owner.Labels
	pod.Spec.NodeName = node.Name
	seconds := int64(b.Timeout().Seconds())
	pod.Spec.ActiveDeadlineSeconds = &seconds
	for _, kind := range v1beta1.AllKinds() {
		addRights(&pod.Spec, kind.Needs())
	}
	container := &pod.Spec.Containers[0]
	b.fit(&pod.Spec)
	container.Args, container.StartupProbe, container.ReadinessProbe = args, nil, nil
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	return pod, nil
}
