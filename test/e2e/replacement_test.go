//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Pods are replaced, on a cluster whose operator allows it. The worker's rights belong
// to all cases, so these come one after the other.
func TestPodReplacement(t *testing.T) {
	t.Parallel()
	t.Run("without the component it is rejected, and says what to do", func(t *testing.T) {
		s := newSpace(t)
		old := s.deployment()
		d := s.create("move", "{selector: {app: moved}, count: 1, duration: 5m, podReplacement: {}}")
		d = s.await(d, "rejected", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseRejected })
		if !strings.Contains(d.Status.Ending, "deploy/components/pod-replacement") {
			t.Errorf("it ended with %q, want the component named", d.Status.Ending)
		}
		if now := s.uidsOf("moved"); !slices.Equal(now, old) {
			t.Errorf("the pods are %v, were %v", now, old)
		}
	})
	allow(t, start(t), "pod-replacement")
	t.Run("one of two pods of a Deployment starts on the other node", func(t *testing.T) {
		s := newSpace(t)
		old := s.deployment()
		before := s.nodesOf("moved")
		d := s.injected(s.create("move", "{selector: {app: moved}, count: 1, duration: 5m, podReplacement: {gracePeriodSeconds: 1}}"))
		target := s.targetOf(d)
		if pods := s.chaosPods(t, d); len(pods) != 0 {
			t.Errorf("%d chaos pods, want none", len(pods))
		}
		eventually(t, func() string {
			now := s.uidsOf("moved")
			if len(now) != 2 || slices.Contains(now, target) {
				return fmt.Sprintf("the pods are %v, were %v, and %s is the target", now, old, target)
			}
			return ""
		})
		for uid, node := range s.nodesOf("moved") {
			if before[uid] == "" && node == before[target] {
				t.Errorf("the successor is on node %s, as its predecessor was", node)
			}
		}
		s.wantNoCordon()
		s.wantReplacedEvent(target)
		s.delete(d)
		s.gone(d)
		kept := slices.DeleteFunc(slices.Clone(old), func(uid types.UID) bool { return uid == target })
		if now := s.uidsOf("moved"); len(now) != 2 || !slices.Contains(now, kept[0]) {
			t.Errorf("the pods are %v, want %v and one more: nothing is replaced twice", now, kept)
		}
	})
	for _, test := range []struct {
		name, params string
		fresh        bool
	}{
		{"the storage of a StatefulSet is deleted by default", "{}", true},
		{"with deleteStorage: false the storage stays", "{deleteStorage: false}", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSpace(t)
			pod, claim := s.statefulSet()
			d := s.injected(s.create("move", "{selector: {app: kept}, count: 1, duration: 5m, staticTargeting: true, podReplacement: "+test.params+"}"))
			if target := s.targetOf(d); target != pod {
				t.Errorf("the target is %s, want %s", target, pod)
			}
			eventually(t, func() string {
				now, found := s.claim()
				if pods := s.uidsOf("kept"); len(pods) != 1 || pods[0] == pod {
					return fmt.Sprintf("the pods are %v, want another than %s", pods, pod)
				}
				if !found || (now != claim) != test.fresh {
					return fmt.Sprintf("the claim is %s, was %s, and should be another: %t", now, claim, test.fresh)
				}
				return ""
			})
			s.wantNoCordon()
			s.delete(d)
			s.gone(d)
		})
	}
}

// deployment makes two pods, and returns their UIDs once they run.
func (s *space) deployment() []types.UID {
	s.t.Helper()
	two := int32(2)
	_, err := s.kube.AppsV1().Deployments(s.name).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "moved"},
		Spec:       appsv1.DeploymentSpec{Replicas: &two, Selector: selects("moved"), Template: podTemplate("moved")},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.awaitPods("moved", 2)
}

const storageClass = "squall-e2e"

// statefulSet makes one pod with a claim, and two volumes for it to have one
// after the other.
func (s *space) statefulSet() (pod, claim types.UID) {
	s.t.Helper()
	size, one, class := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}, int32(1), storageClass+"-"+s.name
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany} // on either node
	create := corev1.HostPathDirectoryOrCreate
	for i := range 2 {
		name := fmt.Sprintf("%s-%d", class, i)
		_, err := s.kube.CoreV1().PersistentVolumes().Create(s.t.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + name, Type: &create}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() {
			_ = s.kube.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	template := podTemplate("kept")
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/kept"}}
	_, err := s.kube.AppsV1().StatefulSets(s.name).Create(s.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: selects("kept"), Template: template, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: size}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	pod = s.awaitPods("kept", 1)[0]
	claim, found := s.claim()
	if !found {
		s.t.Fatal("the StatefulSet has no claim")
	}
	return pod, claim
}

// claim is that of the StatefulSet's pod, unless it is being deleted.
func (s *space) claim() (uid types.UID, found bool) {
	s.t.Helper()
	claim, err := s.kube.CoreV1().PersistentVolumeClaims(s.name).Get(s.t.Context(), "data-kept-0", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	return claim.UID, err == nil && claim.DeletionTimestamp == nil
}

func selects(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// podTemplate is of pods that start on the node of all targets, if there is one, while
// that takes pods.
func podTemplate(app string) corev1.PodTemplateSpec {
	grace := int64(1)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
			Name: "target", Image: targetImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
		}}},
	}
	if onlyNode != "" {
		here := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{onlyNode}}
		template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{here}},
		}}}}
	}
	return template
}

// awaitPods waits until n pods run, and returns their UIDs.
func (s *space) awaitPods(app string, n int) (uids []types.UID) {
	s.t.Helper()
	eventually(s.t, func() string {
		if uids = s.uidsOf(app); len(uids) != n {
			return fmt.Sprintf("%d pods %s run, want %d", len(uids), app, n)
		}
		return ""
	})
	return uids
}

// uidsOf are the UIDs of the pods that run and stay.
func (s *space) uidsOf(app string) []types.UID { return slices.Sorted(maps.Keys(s.nodesOf(app))) }

// nodesOf are the nodes of the pods that run and stay, by their UID.
func (s *space) nodesOf(app string) map[types.UID]string {
	s.t.Helper()
	nodes := map[types.UID]string{}
	pods, err := s.kube.CoreV1().Pods(s.name).List(s.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			nodes[pod.UID] = pod.Spec.NodeName
		}
	}
	return nodes
}

// targetOf is the UID of the disruption's only target.
func (s *space) targetOf(d *v1beta1.Disruption) types.UID {
	s.t.Helper()
	if len(d.Status.TargetInjections) != 1 {
		s.t.Fatalf("targets = %v, want one", names(d))
	}
	for _, kinds := range d.Status.TargetInjections {
		return kinds[v1beta1.KindPodReplacement].TargetUID
	}
	return ""
}

// wantNoCordon wants every node to take new pods.
func (s *space) wantNoCordon() {
	s.t.Helper()
	nodes, err := s.kube.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Spec.Unschedulable || node.Labels[v1beta1.LabelCordoned] != "" {
			s.t.Errorf("node %s is cordoned, with the annotations %v", node.Name, node.Annotations)
		}
	}
}

func (s *space) wantReplacedEvent(target types.UID) {
	s.t.Helper()
	events, err := s.kube.CoreV1().Events(s.name).List(s.t.Context(), metav1.ListOptions{FieldSelector: "reason=Replaced"})
	if err != nil {
		s.t.Fatal(err)
	}
	if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID == target }) {
		s.t.Errorf("no event Replaced on the target %s among %d", target, len(events.Items))
	}
}
