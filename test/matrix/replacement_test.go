package matrix

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Pod replacement is the one fault that the worker injects itself: it cordons nodes and
// deletes pods and their storage. The test plays the ReplicaSet that owns the pods, and
// the controller that removes a deleted PersistentVolumeClaim once no pod mounts it.

// labelSlot is a label of Node objects, by which a proxy finds those of its slot. Its value
// is the slot's namespace, or allSlots.
const (
	labelSlot = "slot"
	allSlots  = "all"
)

// nodeOf is the name of the slot's i-th node.
func (s *slot) nodeOf(i int) string { return fmt.Sprintf("node-%d-of-%s", i, s.shop) }

// makeOwnNode creates the slot's i-th node.
func (r *run) makeOwnNode(i int, ready corev1.ConditionStatus) error {
	r.current.names.know(r.nodeOf(i), fmt.Sprintf("node-%d", i)) // before a program sees the node
	nodes := r.world.Kube.CoreV1().Nodes()
	made, err := nodes.Create(r.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.nodeOf(i), Labels: map[string]string{labelSlot: r.shop, "app": "web"}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	r.current.names.know(string(made.UID), fmt.Sprintf("UID of node-%d", i))
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	_, err = nodes.UpdateStatus(r.ctx, made, metav1.UpdateOptions{})
	return err
}

// ownNodes are the Node objects of the slot alone.
func (r *run) ownNodes() ([]corev1.Node, error) {
	list, err := r.world.Kube.CoreV1().Nodes().List(r.ctx, metav1.ListOptions{LabelSelector: labelSlot + "=" + r.shop})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// leaveNodes deletes the slot's nodes.
func (r *run) leaveNodes() error {
	nodes, err := r.ownNodes()
	for _, node := range nodes {
		if err == nil {
			err = r.world.Kube.CoreV1().Nodes().Delete(r.ctx, node.Name, metav1.DeleteOptions{})
		}
	}
	return err
}

// generationOf is the name of the g-th pod that the ReplicaSet has in the i-th place.
func generationOf(i, g int) string {
	if g == 1 {
		return fmt.Sprintf("web-%d", i)
	}
	return fmt.Sprintf("web-%d-successor-%d", i, g-1)
}

func claimOf(pod string) string { return "data-" + pod }

// makeOwned creates a pod of the ReplicaSet. A pod of the first generation mounts a
// claim of its own.
func (r *run) makeOwned(i, g int) error {
	controller := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: generationOf(i, g), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: types.UID("a-replica-set"), Controller: &controller}},
		},
		Spec: corev1.PodSpec{NodeName: "another-node", Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
	if g == 1 {
		if err := r.makeClaim(claimOf(pod.Name)); err != nil {
			return err
		}
		pod.Spec.NodeName = r.nodeOf(i)
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimOf(pod.Name)},
		}}}
	}
	made, err := r.world.Kube.CoreV1().Pods(r.shop).Create(r.ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		r.current.names.know(string(made.UID), made.Name)
	}
	return err
}

func (r *run) makeClaim(name string) error {
	_, err := r.world.Kube.CoreV1().PersistentVolumeClaims(r.shop).Create(r.ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	return err
}

// makeReplicas creates the nodes and pods, and plays the controllers until the run ends.
func (r *run) makeReplicas() error {
	for i := range r.targets {
		if err := r.makeOwnNode(i, corev1.ConditionTrue); err != nil {
			return err
		}
		if err := r.makeOwned(i, 1); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	r.stopPlaying = func() { stop(); <-ended }
	go func() {
		defer close(ended)
		generations := slices.Repeat([]int{1}, r.targets)
		for ctx.Err() == nil {
			r.replicate(generations)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return r.until("the targets run", func() bool { return r.world.Kubelets.Ready(r.shop) == r.targets })
}

// replicate creates the successor of each pod that is gone, and lets deleted claims go
// that no pod mounts. The next pass repeats a step that fails.
func (r *run) replicate(generations []int) {
	pods, err := r.world.Kube.CoreV1().Pods(r.shop).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	there := map[string]bool{}
	for _, pod := range pods.Items {
		there[pod.Name] = true
	}
	for i := range generations {
		if !there[generationOf(i, generations[i])] {
			next := generations[i] + 1
			if r.makeOwned(i, next) == nil {
				generations[i] = next
			}
		}
	}
	claims := r.world.Kube.CoreV1().PersistentVolumeClaims(r.shop)
	for i := range generations {
		name := claimOf(generationOf(i, 1))
		if there[generationOf(i, 1)] {
			continue
		}
		claim, err := claims.Get(r.ctx, name, metav1.GetOptions{})
		if err == nil && claim.DeletionTimestamp != nil {
			_, _ = claims.Patch(r.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
	}
}

// replaced is a disruption of which all targets are replaced.
func (r *run) replaced() error {
	d := r.disruption()
	count := intstr.FromInt(r.targets)
	d.Spec.Count = &count
	if err := r.world.Disruptions.Create(r.ctx, d); err != nil {
		return err
	}
	r.knows(d)
	if err := r.statusInjected(r.targets); err != nil {
		return err
	}
	for _, of := range []string{"Disruption ", "Pod "} {
		n := map[string]int{"Disruption ": 1, "Pod ": r.targets}[of]
		err := r.untilRecorded(n, of+"has the event that pods are replaced", func(event string) bool {
			return strings.HasPrefix(event, of) && strings.Contains(event, ": Normal Replaced: ")
		})
		if err != nil {
			return err
		}
	}
	return r.until("the successors run", func() bool { return r.world.Kubelets.Ready(r.shop) == r.targets })
}

// leftByReplacement is what a replacement may leave: cordons, marks of them, and claims.
func (r *run) leftByReplacement() (found []string, err error) {
	nodes, err := r.ownNodes()
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		labels := maps.Clone(node.Labels)
		delete(labels, labelSlot)
		found = append(found, fmt.Sprintf("node %s: cordoned %t, labels %v, annotations %v", node.Name, node.Spec.Unschedulable, labels, slices.Sorted(maps.Keys(node.Annotations))))
	}
	claims, err := r.world.Kube.CoreV1().PersistentVolumeClaims(r.shop).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, claim := range claims.Items {
		found = append(found, "claim "+claim.Name)
	}
	return found, nil
}

// leaveClaims deletes claims that no disruption deleted.
func (r *run) leaveClaims() error {
	claims := r.world.Kube.CoreV1().PersistentVolumeClaims(r.shop)
	list, err := claims.List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, claim := range list.Items {
		if _, err := claims.Patch(r.ctx, claim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := claims.Delete(r.ctx, claim.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

var replacement = v1beta1.Faults{PodReplacement: &v1beta1.PodReplacement{}}
