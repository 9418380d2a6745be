package matrix

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// PodDisruptionBudgets, DisruptionPolicies and nodes are written by people and by other
// controllers, which the test plays. The programs read them from caches, so a program may
// be restarted after such a write and see the cluster as it was before.

// person is the test itself, as points name it.
const person = "person"

// written makes a write of a person. If it is the point of the run's fault, the program
// that is to see the past is killed after the write.
func (r *run) written(name string, seenBy []string, write func() (metav1.Object, error)) error {
	point, f := r.current.call(person, name)
	made, err := write()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.current.changed(point, seenBy)
	if f == nil {
		return nil
	}
	version, err := strconv.ParseInt(made.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: resource version of the answer: %w", name, err)
	}
	r.restart(f.victim, version-1)
	return nil
}

// policyOf is the name of a slot's DisruptionPolicy.
func (s *slot) policyOf() string { return "policy-of-" + s.shop }

// limited is a disruption of three pods that finds a budget without room, and a policy
// that allows two targets.
func (r *run) limited() error {
	budgets := r.world.Kube.PolicyV1().PodDisruptionBudgets(r.shop)
	one := intstr.FromInt(1)
	_, err := budgets.Create(r.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := r.allow(0); err != nil {
		return err
	}
	two := int32(2)
	policy := &v1beta1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: r.policyOf()},
		Spec:       v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{{Name: "two", Namespaces: []string{r.shop}, AtMost: &v1beta1.PolicyLimit{Targets: &two}}}},
	}
	r.current.names.know(policy.Name, "POLICY")
	if err := r.world.Disruptions.Create(r.ctx, policy); err != nil {
		return err
	}
	r.current.names.know(string(policy.UID), "UID of POLICY")
	d := r.disruption()
	d.Spec.PodDisruptionBudget = v1beta1.BudgetsRespected
	if err := r.world.Disruptions.Create(r.ctx, d); err != nil {
		return err
	}
	r.knows(d)
	return r.until("it waits for the budget", func() bool {
		return r.see() && r.d.Status.DesiredTargetsCount == r.targets && r.d.Status.SelectedTargetsCount == 0
	})
}

// allow makes the budget one that allows n disruptions.
func (r *run) allow(n int32) (metav1.Object, error) {
	budgets := r.world.Kube.PolicyV1().PodDisruptionBudgets(r.shop)
	budget, err := budgets.Get(r.ctx, "web", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: n, ExpectedPods: int32(r.targets), CurrentHealthy: int32(r.targets)}
	return budgets.UpdateStatus(r.ctx, budget, metav1.UpdateOptions{})
}

// limitsEnd is a budget that gets room, and a policy that is deleted after that.
func (r *run) limitsEnd() error {
	seen := func(n int) error {
		err := r.until(fmt.Sprintf("%d are injected", n), func() bool {
			return r.see() && r.d.Status.SelectedTargetsCount == n && r.d.Status.InjectedTargetsCount == n
		})
		if err != nil {
			return err
		}
		return r.quiet()
	}
	err := r.written("update poddisruptionbudgets/status", []string{bridge}, func() (metav1.Object, error) { return r.allow(3) })
	if err != nil {
		return err
	}
	if err := seen(2); err != nil {
		return err
	}
	policy := &v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: r.policyOf()}}
	err = r.written("patch disruptionpolicies", []string{bridge, worker}, func() (metav1.Object, error) {
		three := []byte(`{"spec":{"rules":[{"name":"three","namespaces":["` + r.shop + `"],"atMost":{"targets":3}}]}}`)
		return policy, r.world.Disruptions.Patch(r.ctx, policy, client.RawPatch(types.MergePatchType, three))
	})
	if err != nil {
		return err
	}
	if err := seen(3); err != nil {
		return err
	}
	return r.deleted()
}

// leaveLimits deletes the budget and the policy.
func (r *run) leaveLimits() error {
	err := r.world.Kube.PolicyV1().PodDisruptionBudgets(r.shop).Delete(r.ctx, "web", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return client.IgnoreNotFound(r.world.Disruptions.Delete(r.ctx, &v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: r.policyOf()}}))
}

// firstNodeDisrupted is a disruption of two nodes, one of which is not ready.
func (r *run) firstNodeDisrupted() error {
	if err := r.makeOwnNode(0, corev1.ConditionTrue); err != nil {
		return err
	}
	if err := r.makeOwnNode(1, corev1.ConditionFalse); err != nil {
		return err
	}
	d := r.disruption()
	d.Spec.Level = v1beta1.LevelNode
	if err := r.world.Disruptions.Create(r.ctx, d); err != nil {
		return err
	}
	r.knows(d)
	return r.injected(1)
}

// secondNodeComes is a node that becomes ready, and is disrupted, too.
func (r *run) secondNodeComes() error {
	err := r.written("update nodes/status", []string{bridge, worker}, func() (metav1.Object, error) {
		nodes := r.world.Kube.CoreV1().Nodes()
		node, err := nodes.Get(r.ctx, r.nodeOf(1), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return nodes.UpdateStatus(r.ctx, node, metav1.UpdateOptions{})
	})
	if err != nil {
		return err
	}
	if err := r.injected(2); err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	return r.deleted()
}
