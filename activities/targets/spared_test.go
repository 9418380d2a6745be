package targets

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A disruption could prevent its own end on the nodes of Squall's programs, so only a
// selector by node name chooses these. Nodes of the control plane are chosen only if
// the operator allows it.
func TestNodesThatAreLeftAlone(t *testing.T) {
	node := func(name string, labels ...string) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"role": "any", corev1.LabelHostname: name}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		for _, label := range labels {
			n.Labels[label] = ""
		}
		return n
	}
	pod := func(namespace, name, program, node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": program}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	s := NewStore(fake.NewClientset(
		node("plain"), node("with-worker"), node("with-probes"), node("with-bridge"), node("master", "node-role.kubernetes.io/master"), node("control", "node-role.kubernetes.io/control-plane"),
		pod("squall-system", "w", "squall-worker", "with-worker", corev1.PodRunning), pod("squall-system", "p", "squall-probes", "with-probes", corev1.PodRunning), pod("squall-system", "b", "squall-crdbridge", "with-bridge", corev1.PodRunning),
		pod("squall-system", "old", "squall-worker", "plain", corev1.PodFailed), pod("shop", "forged", "squall-worker", "plain", corev1.PodRunning),
		pod("squall-system", "t", "squall-temporal", "plain", corev1.PodRunning),
	), "squall-chaos", nil, 1)
	any := map[string]string{"role": "any"}
	in := func(key string, names ...string) []metav1.LabelSelectorRequirement {
		return []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: names}}
	}
	for _, test := range []struct {
		name         string
		selector     map[string]string
		advanced     []metav1.LabelSelectorRequirement
		controlPlane bool
		chosen       []types.UID
		reason       string
	}{
		{"nodes by what they are", any, nil, false, []types.UID{"plain"}, ""},
		{"and the operator lets the control plane be disrupted", any, nil, true, []types.UID{"control", "master", "plain"}, ""},
		{"a node by its name", map[string]string{corev1.LabelHostname: "with-bridge"}, nil, false, []types.UID{"with-bridge"}, ""},
		{"nodes by their names", nil, in(corev1.LabelHostname, "with-worker", "plain"), false, []types.UID{"plain", "with-worker"}, ""},
		{"a node of the control plane by its name", map[string]string{corev1.LabelHostname: "control"}, nil, false, nil,
			"node control is left alone, and so is any other matching node: it is a node of the control plane"},
		{"a node without its name", any, in("role", "any"), false, []types.UID{"plain"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.ControlPlane = test.controlPlane
			all := intstr.FromString("100%")
			d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelNode, Count: &all, Selector: test.selector, AdvancedSelector: test.advanced}}
			healthy, err := s.Healthy(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			next, _ := nextClaims(d.Spec, healthy, nil, nil, nil, nil, Budgets(nil).without(nil))
			sorted := cmpopts.SortSlices(func(a, b types.UID) bool { return a < b })
			if diff := cmp.Diff(test.chosen, uidsOf(next), cmpopts.EquateEmpty(), sorted); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
			if reason := Unusable(d.Spec, healthy); !strings.HasPrefix(reason, test.reason) || test.reason == "" && reason != "" {
				t.Errorf("reason %q, want %q", reason, test.reason)
			}
		})
	}
}

// Squall spares the nodes of worker and controller in the namespace where they are
// installed, and in no other.
func TestNodesAreLeftAloneOfProgramsInAnotherNamespace(t *testing.T) {
	node := func(name string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"role": "any"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	program := func(namespace, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "w", Labels: map[string]string{"app.kubernetes.io/name": "squall-worker"}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	s := NewStore(fake.NewClientset(node("ours"), node("theirs"), program("chaos-engineering", "ours"), program(DefaultSystem, "theirs")), "squall-chaos", nil, 1)
	s.System = "chaos-engineering"
	all := intstr.FromString("100%")
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelNode, Count: &all, Selector: map[string]string{"role": "any"}}}
	healthy, err := s.Healthy(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := nextClaims(d.Spec, healthy, nil, nil, nil, nil, Budgets(nil).without(nil))
	if diff := cmp.Diff([]types.UID{"theirs"}, uidsOf(next)); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
	ours, theirs := node("ours"), node("theirs")
	spared, err := s.sparedNodes(t.Context(), d.Spec)
	if err != nil || !strings.Contains(spared.why(ours), "pod w of chaos-engineering runs there") || spared.why(theirs) != "" {
		t.Errorf("reason %q of the node of our worker and %q of another, %v", spared.why(ours), spared.why(theirs), err)
	}
}
