// Package promise looks for what a disruption must not leave behind. The
// promise is: after its end, deletion or expiry, eventually nothing with our
// mark remains on any node or in the API, and it stays so. TestPromise of
// package workflows states it in full and checks it on a model; here it is
// checked on a real cluster.
package promise

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Temporal is what Left needs of a client of it.
type Temporal interface {
	CountWorkflow(ctx context.Context, r *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error)
}

// Cluster is where Left looks.
type Cluster struct {
	Kube kubernetes.Interface
	// Chaos is the namespace of chaos pods and records.
	Chaos string
	// Shop limits the Disruptions whose finalizers it looks at, and the pods that they
	// operate on, to a namespace; empty means all.
	Shop string
	// Temporal may be nil: then it looks for no workflows.
	Temporal Temporal
	// Audits are what injectors found, by node: see injector audit. A node that
	// could not be looked at counts as left.
	Audits map[string]v1beta1.Audit
}

// Left lists, sorted, what is there of the disruptions with these UIDs, or of any
// disruption when none is given: chaos pods and all else that runs in their
// namespace, records, Disruptions with our finalizer, labels and finalizers of
// their operations on pods, marks on nodes, and, for any disruption, workflows
// that run. Squall promises that the list is empty; a disruption that still lives
// has some. Left only reads, and fails only when it cannot read.
func (c Cluster) Left(ctx context.Context, uids ...types.UID) (left []string, err error) {
	wanted := func(uid types.UID) bool { return len(uids) == 0 || slices.Contains(uids, uid) }
	of := func(o metav1.Object) types.UID { return types.UID(o.GetLabels()[v1beta1.LabelDisruptionUID]) }
	pods, err := c.Kube.CoreV1().Pods(c.Chaos).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the chaos pods: %w", err)
	}
	records, err := c.Kube.CoreV1().ConfigMaps(c.Chaos).List(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID})
	if err != nil {
		return nil, fmt.Errorf("list the records: %w", err)
	}
	disruptions, err := c.disruptions(ctx)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if wanted(of(&pod)) {
			left = append(left, "chaos pod "+pod.Name)
		}
	}
	for _, record := range records.Items {
		if wanted(of(&record)) {
			left = append(left, "record "+record.Name)
		}
	}
	for _, d := range disruptions {
		if wanted(d.UID) && slices.Contains(d.Finalizers, v1beta1.DisruptionFinalizer) {
			left = append(left, fmt.Sprintf("finalizer of disruption %s/%s", d.Namespace, d.Name))
		}
	}
	operated, err := c.operated(ctx, uids)
	if err != nil {
		return nil, err
	}
	left = append(left, operated...)
	left = append(left, c.marks(wanted)...)
	if len(uids) == 0 && c.Temporal != nil {
		running, err := c.running(ctx)
		if err != nil {
			return nil, err
		}
		left = append(left, running...)
	}
	slices.Sort(left)
	return left, nil
}

func (c Cluster) disruptions(ctx context.Context) ([]v1beta1.Disruption, error) {
	path := []string{"apis", v1beta1.GroupVersion.Group, v1beta1.GroupVersion.Version}
	if c.Shop != "" {
		path = append(path, "namespaces", c.Shop)
	}
	// A type of our own is not served as protobuf.
	get := c.Kube.CoreV1().RESTClient().Get().AbsPath(append(path, "disruptions")...).SetHeader("Accept", "application/json")
	text, err := get.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the disruptions: %w", err)
	}
	var all v1beta1.DisruptionList
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("decode the disruptions: %w", err)
	}
	return all.Items, nil
}

// operated are the pods that a driver moves with something of the operations of these
// disruptions on them, or of any: a label, or a finalizer that keeps others from them.
func (c Cluster) operated(ctx context.Context, uids []types.UID) (left []string, err error) {
	list, err := c.Kube.CoreV1().Pods(c.Shop).List(ctx, metav1.ListOptions{LabelSelector: podops.LabelManaged})
	if err != nil {
		return nil, fmt.Errorf("list the pods that a driver moves: %w", err)
	}
	wanted := map[string]bool{}
	for _, uid := range uids {
		wanted[podops.OfDisruption(uid).ID] = true
	}
	for _, pod := range list.Items {
		for _, key := range slices.Concat(slices.Collect(maps.Keys(pod.Labels)), pod.Finalizers) {
			if _, id, _ := strings.Cut(key, "/"); wanted[id] || len(uids) == 0 && strings.HasPrefix(id, "chaos-") {
				left = append(left, fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, key))
			}
		}
	}
	return left, nil
}

func (c Cluster) marks(wanted func(types.UID) bool) (left []string) {
	for node, audit := range c.Audits {
		for _, mark := range audit.Marks {
			if wanted(mark.Disruption.UID) {
				left = append(left, fmt.Sprintf("node %s: %s", node, mark.Object))
			}
		}
		if audit.More > 0 {
			left = append(left, fmt.Sprintf("node %s: %d more marks", node, audit.More))
		}
		if audit.Error != "" {
			left = append(left, fmt.Sprintf("node %s: %s", node, audit.Error))
		}
	}
	return left
}

// running counts the workflows that run. Temporal's search is a moment behind.
func (c Cluster) running(ctx context.Context) ([]string, error) {
	answer, err := c.Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = %q AND ExecutionStatus = \"Running\"", contract.WorkflowType),
	})
	if err != nil {
		return nil, fmt.Errorf("count the workflows: %w", err)
	}
	if answer.GetCount() == 0 {
		return nil, nil
	}
	return []string{fmt.Sprintf("%d workflows that run", answer.GetCount())}, nil
}
