package apicluster

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Nodes plays the kubelets of all nodes, for commands on nodes only.
type Nodes struct {
	*Cluster
	mu sync.Mutex
	// Marks are what a node carries.
	Marks map[string][]v1beta1.Mark
	// Stubborn nodes do not get clean, Mute ones never answer sensibly.
	Stubborn, Mute string
	// Full is how many pods the kubelet of a node rejects, because the node is full.
	Full map[string]int
	// Looked is called before an audit is answered.
	Looked func(node string, times int)
	looks  map[string]int
	// Ran are the commands that nodes were asked for.
	Ran []string
	// answered are the pods whose commands have run, by UID: a watch may show one as it was.
	answered map[types.UID]bool
}

// WithNodes makes ready nodes that answer.
func (c *Cluster) WithNodes(names ...string) *Nodes {
	c.Helper()
	n := &Nodes{Cluster: c, Marks: map[string][]v1beta1.Mark{}, Full: map[string]int{}, looks: map[string]int{}, answered: map[types.UID]bool{}, Looked: func(string, int) {}}
	for _, name := range names {
		made, err := c.Client.CoreV1().Nodes().Create(c.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		c.Must(err)
		c.Cleanup(func() { _ = c.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
		n.SetReady(made, corev1.ConditionTrue)
	}
	c.OnPods("", n.play)
	return n
}

// SetReady sets whether a node is ready.
func (n *Nodes) SetReady(node *corev1.Node, ready corev1.ConditionStatus) {
	n.Helper()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	updated, err := n.Client.CoreV1().Nodes().UpdateStatus(n.Context(), node, metav1.UpdateOptions{})
	n.Must(err)
	*node = *updated
}

func (n *Nodes) play(pods []*corev1.Pod) {
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, "sweep-") && !kube.InjectorEnded(pod) && pod.DeletionTimestamp == nil && !n.answered[pod.UID] {
			n.answered[pod.UID] = true
			n.answer(pod)
		}
	}
}

func (n *Nodes) answer(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, args := pod.Spec.NodeName, pod.Spec.Containers[0].Args
	if pod.Labels[v1beta1.LabelDisruptionUID] != "" && pod.Labels[v1beta1.LabelCleaner] == "" || len(pod.Finalizers) > 0 {
		n.Errorf("pod %s could be taken for a chaos pod: %v %v", pod.Name, pod.Labels, pod.Finalizers)
	}
	if n.Full[node] > 0 {
		n.Full[node]--
		n.reject(pod)
		return
	}
	code, message := int32(0), []byte(nil)
	switch {
	case node == n.Mute:
		code, message = 1, []byte("exec format error")
	case args[0] == "audit":
		n.looks[node]++
		n.Looked(node, n.looks[node])
		code, message = n.audited(node, args)
	case node == n.Stubborn:
		code, message = 1, []byte(`{"cleaned":[],"left":[{"injection":"x","error":"write io.max: busy","objects":["io.max 8:0"]}]}`)
	default:
		n.Marks[node] = slices.DeleteFunc(n.Marks[node], func(m v1beta1.Mark) bool { return slices.Contains(args, string(m.Disruption.UID)) })
	}
	n.Ran = append(n.Ran, node+": "+strings.Join(args, " "))
	if err := n.Exits(pod, corev1.PodSucceeded, Exited(code, "Completed", string(message))); err != nil && n.Context().Err() == nil {
		n.Errorf("answer for %s: %v", pod.Name, err)
	}
}

// reject is a kubelet that has no room for the pod.
func (n *Nodes) reject(pod *corev1.Pod) {
	rejected := pod.DeepCopy()
	rejected.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu"}
	if _, err := n.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(n.Context(), rejected, metav1.UpdateOptions{}); err != nil && n.Context().Err() == nil {
		n.Errorf("reject %s: %v", pod.Name, err)
	}
}

func (n *Nodes) audited(node string, args []string) (int32, []byte) {
	audit, code := v1beta1.Audit{Marks: n.Marks[node]}, int32(0)
	if len(args) == 3 {
		audit.Marks = slices.DeleteFunc(slices.Clone(audit.Marks), func(m v1beta1.Mark) bool { return string(m.Disruption.UID) != args[2] })
	}
	if len(audit.Marks) > 0 {
		code = 3
	}
	message, err := json.Marshal(audit)
	n.Must(err)
	return code, message
}
