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

// programsSelector has the programs whose nodes are left alone.
const programsSelector = "app.kubernetes.io/name in (squall-worker,squall-probes,squall-crdbridge)"

// Labels of nodes of the control plane; the second is that of older clusters.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// spared says which nodes are left alone.
type spared struct {
	controlPlane bool
	// programs are pods of ours in the namespace system, by the name of their node.
	system   string
	programs map[string]string
}

// sparedNodes reads where the programs run that end disruptions, and those that ask their
// probes: a disruption of those nodes might keep them from that. A spec that selects nodes by their names means
// just those. Who may not list the pods, which a worker may, learns of no such nodes.
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

// why says why a node is left alone; empty for one that is not.
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
