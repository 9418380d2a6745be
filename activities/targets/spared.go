package targets

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// programsSelector selects the programs whose nodes are not disrupted.
const programsSelector = "app.kubernetes.io/name in (squall-worker,squall-probes,squall-crdbridge)"

// controlPlaneLabels mark nodes of the control plane; older clusters use the second.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// spared describes the nodes that are not disrupted.
type spared struct {
	controlPlane bool
	// programs are Squall's pods in the namespace system, by the name of their node.
	system   string
	programs map[string]string
}

// sparedNodes reads where the programs run that end disruptions or run their probes,
// because a disruption of these nodes could stop them. A spec that selects nodes by
// name may choose these nodes. A caller without the right to list the pods gets no such
// nodes; the worker has it.
func (s *Store) sparedNodes(ctx context.Context, spec v1beta1.DisruptionSpec) (spared, error) {
	found := spared{controlPlane: !s.ControlPlane, system: s.System, programs: map[string]string{}}
	if namesNodes(spec) {
		return found, nil
	}
	err := kube.Pages(ctx, s.Kube.CoreV1().Pods(s.System).List, metav1.ListOptions{LabelSelector: programsSelector}, func(page *corev1.PodList) {
		for i := range page.Items {
			if pod := &page.Items[i]; kube.PodRunning(pod) {
				found.programs[pod.Spec.NodeName] = pod.Name
			}
		}
	})
	if err != nil && !apierrors.IsForbidden(err) {
		return found, fmt.Errorf("list the pods of the worker and the controller, whose nodes are never targets: %w", err)
	}
	return found, nil
}

// namesNodes is true for a spec that selects by the names of nodes.
func namesNodes(spec v1beta1.DisruptionSpec) bool {
	_, named := spec.Selector[corev1.LabelHostname]
	return named || slices.ContainsFunc(spec.AdvancedSelector, func(r metav1.LabelSelectorRequirement) bool { return r.Key == corev1.LabelHostname })
}

// why returns why a node is not disrupted; empty for a node that may be.
func (s spared) why(node *corev1.Node) string {
	if program := s.programs[node.Name]; program != "" {
		return fmt.Sprintf("pod %s of %s runs there and must end the disruption; to disrupt that node, select it by %s", program, s.system, corev1.LabelHostname)
	}
	for _, label := range controlPlaneLabels {
		if _, found := node.Labels[label]; found && s.controlPlane {
			return "it is a node of the control plane, which the worker's setting control-plane-nodes lets be disrupted"
		}
	}
	return ""
}
