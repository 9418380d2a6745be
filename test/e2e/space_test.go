//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// space is a namespace of one test.
type space struct {
	*world
	t    *testing.T
	name string
}

// newSpace makes a namespace that goes away with the test, after everything in
// it has ended. A test that failed shows what it left.
func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{world: start(t), t: t}
	namespace, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{"squall.test": "e2e"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.name = namespace.Name
	used.Store(s.name, true)
	t.Cleanup(s.end)
	return s
}

// end deletes the test's disruptions and expects that nothing is left of them.
func (s *space) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.t.Failed() {
		s.describe(ctx)
	}
	_ = s.kube.Discovery().RESTClient().Delete().AbsPath(s.path()).Do(ctx).Error()
	for {
		left := s.left(ctx)
		if left == "" {
			break
		}
		if pause(ctx) != nil {
			s.t.Errorf("%s after the test: %s", patience, left)
			s.describe(context.Background())
			break
		}
	}
	grace := int64(0)
	_ = s.kube.CoreV1().Pods(s.name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, metav1.ListOptions{})
	_ = s.kube.CoreV1().Namespaces().Delete(ctx, s.name, metav1.DeleteOptions{})
}

// left lists what is still there of the test's disruptions.
func (s *space) left(ctx context.Context) string {
	var list v1beta1.DisruptionList
	if raw, err := s.kube.Discovery().RESTClient().Get().AbsPath(s.path()).DoRaw(ctx); err != nil {
		return err.Error()
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return err.Error()
	}
	selector := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionNamespace + "=" + s.name}
	pods, err := s.kube.CoreV1().Pods(chaosNamespace).List(ctx, selector)
	if err != nil {
		return err.Error()
	}
	records, err := s.kube.CoreV1().ConfigMaps(chaosNamespace).List(ctx, selector)
	if err != nil {
		return err.Error()
	}
	if len(list.Items)+len(pods.Items)+len(records.Items) == 0 {
		return ""
	}
	return fmt.Sprintf("%d disruptions, %d chaos pods, %d records are left", len(list.Items), len(pods.Items), len(records.Items))
}

func (s *space) describe(ctx context.Context) {
	raw, _ := s.kube.Discovery().RESTClient().Get().AbsPath(s.path()).DoRaw(ctx)
	var list v1beta1.DisruptionList
	_ = json.Unmarshal(raw, &list)
	for _, d := range list.Items {
		status, _ := yaml.Marshal(d.Status)
		s.t.Logf("disruption %s, finalizers %v, deletion %v\n%s", d.Name, d.Finalizers, d.DeletionTimestamp, status)
	}
	pods, err := s.kube.CoreV1().Pods(chaosNamespace).List(ctx, metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionNamespace + "=" + s.name})
	if err != nil {
		return
	}
	for _, p := range pods.Items {
		status, _ := yaml.Marshal(p.Status.ContainerStatuses)
		lines := int64(15)
		log, _ := s.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		s.t.Logf("chaos pod %s on %s, phase %s, deletion %v\n%s\n%s", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, status, log)
	}
	events, err := s.kube.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, e := range events.Items {
		s.t.Logf("event %s on %s %s: %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
}

// path is where the API has the test's disruptions.
func (s *space) path(more ...string) string {
	return strings.Join(append([]string{s.pathOf("disruptions")}, more...), "/")
}

// targets starts pods named and labelled in the same way, alternately on the
// nodes, and waits until they run.
func (s *space) targets(n int, change ...func(*corev1.Pod)) []corev1.Pod {
	s.t.Helper()
	var names []string
	for i := range n {
		pod := s.pod(fmt.Sprintf("target-%d", i), s.hosts[i%len(s.hosts)])
		for _, f := range change {
			f(pod)
		}
		if _, err := s.kube.CoreV1().Pods(s.name).Create(s.t.Context(), pod, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		names = append(names, pod.Name)
	}
	var pods []corev1.Pod
	for _, name := range names {
		pods = append(pods, s.running(name))
	}
	return pods
}

// pod is a target, not yet created.
func (s *space) pod(name, node string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.name, Labels: map[string]string{"app": "target"}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "target", Image: targetImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
				Resources: corev1.ResourceRequirements{
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")},
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

// running waits until a pod's containers run and returns it.
func (s *space) running(name string) (pod corev1.Pod) {
	s.t.Helper()
	eventually(s.t, func() string {
		found, err := s.kube.CoreV1().Pods(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		pod = *found
		if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Sprintf("pod %s is %s: %v", name, pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return ""
	})
	return pod
}

// create makes a disruption of the test's targets; spec is YAML and goes to the
// API server as it is.
func (s *space) create(name, spec string) *v1beta1.Disruption {
	s.t.Helper()
	d, err := s.tryCreate(name, spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// tryCreate makes it as kubectl does: unknown fields are refused.
func (s *space) tryCreate(name, spec string) (*v1beta1.Disruption, error) {
	raw, err := s.tryPost(s.path(), "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: "+name+"}\nspec: "+spec)
	if err != nil {
		return nil, err
	}
	d := &v1beta1.Disruption{}
	return d, json.Unmarshal(raw, d)
}

// tryPost makes an object of a YAML document, and returns it as the API server has it.
func (s *space) tryPost(path, document string) ([]byte, error) {
	body, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return nil, err
	}
	result := s.kube.Discovery().RESTClient().Post().AbsPath(path).Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(body).Do(s.t.Context())
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// read returns nil when the disruption is gone.
func (s *space) read(d *v1beta1.Disruption) *v1beta1.Disruption {
	s.t.Helper()
	raw, err := s.kube.Discovery().RESTClient().Get().AbsPath(s.path(d.Name)).DoRaw(s.t.Context())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	live := &v1beta1.Disruption{}
	if err := json.Unmarshal(raw, live); err != nil {
		s.t.Fatal(err)
	}
	if live.UID != d.UID {
		return nil
	}
	return live
}

// await waits until the disruption is as wanted and returns it.
func (s *space) await(d *v1beta1.Disruption, what string, wanted func(*v1beta1.Disruption) bool) (live *v1beta1.Disruption) {
	s.t.Helper()
	eventually(s.t, func() string {
		live = s.read(d)
		if live == nil {
			return fmt.Sprintf("disruption %s is gone; waited for: %s", d.Name, what)
		}
		if !wanted(live) {
			return fmt.Sprintf("disruption %s is not: %s; phase %s, %s, targets %s, stuck %t, conditions %s",
				d.Name, what, live.Status.Phase, live.Status.InjectionStatus, live.Status.Targets, live.Status.IsStuckOnRemoval, conditions(live))
		}
		return ""
	})
	return live
}

// injected waits until all targets are injected.
func (s *space) injected(d *v1beta1.Disruption) *v1beta1.Disruption {
	s.t.Helper()
	return s.await(d, "injected", func(d *v1beta1.Disruption) bool { return d.Status.InjectionStatus == v1beta1.Injected })
}

func (s *space) delete(d *v1beta1.Disruption) {
	s.t.Helper()
	if err := s.kube.Discovery().RESTClient().Delete().AbsPath(s.path(d.Name)).Do(s.t.Context()).Error(); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

// gone waits until the disruption is gone and checks that its chaos pods went
// before it (rule 6).
func (s *space) gone(d *v1beta1.Disruption) {
	s.t.Helper()
	eventually(s.t, func() string {
		if live := s.read(d); live != nil {
			return fmt.Sprintf("disruption %s is still there: phase %s, stuck %t, conditions %s", d.Name, live.Status.Phase, live.Status.IsStuckOnRemoval, conditions(live))
		}
		return ""
	})
	if pods := s.chaosPods(s.t, d); len(pods) > 0 {
		s.t.Errorf("disruption %s is gone and %d of its chaos pods are there", d.Name, len(pods))
	}
}

// patch merges a JSON document into the disruption.
func (s *space) patch(d *v1beta1.Disruption, document string) {
	s.t.Helper()
	err := s.kube.Discovery().RESTClient().Patch("application/merge-patch+json").AbsPath(s.path(d.Name)).Body([]byte(document)).Do(s.t.Context()).Error()
	if err != nil {
		s.t.Fatal(err)
	}
}

// events are those of a reason on an object of the test.
func (s *space) events(name, reason string) []corev1.Event {
	s.t.Helper()
	list, err := s.kube.CoreV1().Events(s.name).List(s.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

func condition(d *v1beta1.Disruption, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(d.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func conditions(d *v1beta1.Disruption) string {
	var all []string
	for _, c := range d.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, ", ")
}

// names are those of the targets in status, sorted.
func names(d *v1beta1.Disruption) []string {
	all := []string{}
	for name := range d.Status.TargetInjections {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// containerID is the runtime's name of a target's container.
func containerID(pod corev1.Pod) string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

func decode(t *testing.T, document string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(document), into); err != nil {
		t.Fatalf("%q: %v", document, err)
	}
}
