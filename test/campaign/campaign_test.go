//go:build e2e

package campaign

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
	"github.com/squall-chaos/squall/test/sample"
)

var (
	seed  = flag.Uint64("seed", 0, "what the order of the attempts follows from; 0: the commit")
	most  = flag.Int("attempts", 40, "how many attempts are made; 0: all")
	slots = flag.Int("slots", 8, "how many at a time")
)

const (
	chaosNamespace  = "squall-chaos"
	systemNamespace = "squall-system"
	targetImage     = "squall.local/target:dev"
	// reported is how long a disruption may take until it is injected or its status
	// has the reason why not; gone is the limit from deletion until the object is
	// gone.
	reported = 2 * time.Minute
	gone     = 4 * time.Minute
)

// campaign is the cluster with what has been seen of it.
type campaign struct {
	*testing.T
	kube        kubernetes.Interface
	dynamic     dynamic.Interface
	disruptions dynamic.ResourceInterface
	namespace   string

	mu     sync.Mutex
	counts map[string]int
	// accepted are the fields of which a value was accepted.
	accepted map[string]bool
	// pods and nodes are all that could be targets.
	pods  []corev1.Pod
	nodes []corev1.Node
	// specs are those with which Disruptions were created, by their names, and seen
	// the chaos pods as they were created.
	specs map[string]v1beta1.DisruptionSpec
	seen  map[types.UID]corev1.Pod
}

// TestCampaign applies generated Disruptions. Each is refused with a reason, or
// injected, or its status explains why not. It never gets stuck, leaves something,
// disrupts a pod that was not selected, or causes a panic.
func TestCampaign(t *testing.T) {
	fields, err := fieldsOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	c := newCampaign(t)
	c.watchChaosPods()
	todo := sampled(attempts(fields), *most, sample.Of(t, *seed))
	queue := make(chan attempt)
	var done sync.WaitGroup
	for slot := range *slots {
		done.Go(func() {
			n := 0
			for a := range queue {
				n++
				c.try(a, slot, fmt.Sprintf("campaign-%d-%d", slot, n))
			}
		})
	}
	for i, a := range todo {
		queue <- a
		if i%50 == 49 {
			c.logf("%d of %d", i+1, len(todo))
		}
	}
	close(queue)
	done.Wait()
	c.judge()
	for _, what := range missing(c.counts, len(todo)) {
		c.Errorf("no attempt was %s", what)
	}
	c.logf("%d attempts: %v; of %d fields %d had a value that was accepted; %d chaos pods", len(todo), c.counts, len(fields), len(c.accepted), len(c.seen))
}

func newCampaign(t *testing.T) *campaign {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	c := &campaign{T: t, counts: map[string]int{}, accepted: map[string]bool{}, specs: map[string]v1beta1.DisruptionSpec{}, seen: map[types.UID]corev1.Pod{}}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.nodes = nodes.Items
	namespace, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "campaign-", Labels: map[string]string{v1beta1.LabelDisruptions: v1beta1.DisruptionsAllowed},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.namespace = namespace.Name
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("namespace %s stays, to be looked at", c.namespace)
			return
		}
		if err := c.kube.CoreV1().Namespaces().Delete(context.Background(), c.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	c.dynamic = dynamic.NewForConfigOrDie(config)
	c.disruptions = c.dynamic.Resource(v1beta1.GroupVersion.WithResource("disruptions")).Namespace(c.namespace)
	for slot := range *slots {
		c.createPod(fmt.Sprintf("target-%d", slot), map[string]string{"campaign": "yes", "slot": fmt.Sprint(slot)}, slot)
	}
	for i := range c.nodes {
		c.createPod(fmt.Sprintf("bystander-%d", i), nil, i)
	}
	c.until(reported, "all pods are ready", func() bool {
		pods, err := c.kube.CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		c.pods = pods.Items
		return !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return !ready(&p) })
	})
	return c
}

func (c *campaign) createPod(name string, labels map[string]string, i int) {
	c.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"chosen": "yes"}},
		Spec: corev1.PodSpec{
			NodeName: c.nodes[i%len(c.nodes)].Name, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "target", Image: targetImage, ImagePullPolicy: corev1.PullNever, Args: []string{"serve"},
				Resources: corev1.ResourceRequirements{
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	if _, err := c.kube.CoreV1().Pods(c.namespace).Create(c.Context(), pod, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// try makes one attempt from its creation to the last trace of it.
func (c *campaign) try(a attempt, slot int, name string) {
	made, err := c.disruptions.Create(c.Context(), c.object(name, slot, a.spec), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		c.count("refused")
		c.expectHelp(a, err)
		return
	}
	c.accept(a)
	c.note(made)
	c.expectReported(a, name)
	if a.next != nil {
		c.edit(a, name, slot)
	}
	c.expectGone(a, name)
}

// object is a Disruption of a slot.
func (c *campaign) object(name string, slot int, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "Disruption",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"slot": fmt.Sprint(slot)}}, "spec": c.filled(spec, slot),
	}}
}

// expectGone deletes the disruption and waits until nothing is left of it.
func (c *campaign) expectGone(a attempt, name string) {
	if err := c.disruptions.Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		c.Errorf("%s: cannot be deleted: %v", a, err)
	}
	var last *unstructured.Unstructured
	if !c.reached(gone, func() bool {
		found, err := c.disruptions.Get(c.Context(), name, metav1.GetOptions{})
		if err == nil {
			last = found
		}
		return apierrors.IsNotFound(err)
	}) {
		c.Errorf("%s: %s is not gone %s after it was deleted: %v", a, name, gone, last.Object["status"])
	}
}

// expectHelp wants a refusal from which the user knows what to change.
func (c *campaign) expectHelp(a attempt, err error) {
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsForbidden(err) {
		c.Errorf("%s: %v", a, err)
		return
	}
	if a.field == "" {
		c.Errorf("%s: a valid spec is refused: %v", a, err)
		return
	}
	// A rule about two fields that belong together names one of them.
	value := fmt.Sprint(a.value)
	named := func(part string) bool { return strings.Contains(err.Error(), strings.TrimSuffix(part, "[]")) }
	if !slices.ContainsFunc(strings.Split(a.field, "."), named) && (value == "" || !strings.Contains(err.Error(), value)) {
		c.Errorf("%s: neither field nor value is named: %v", a, err)
	}
}

// expectReported waits until the disruption is injected, or has ended, or its
// status explains why not.
func (c *campaign) expectReported(a attempt, name string) {
	var status v1beta1.DisruptionStatus
	how, why := "", ""
	if !c.reached(reported, func() bool {
		found, err := c.disruptions.Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		status = v1beta1.DisruptionStatus{}
		part, _ := found.Object["status"].(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, &status); err != nil {
			return false
		}
		how, why = outcome(status)
		return how != ""
	}) {
		c.Errorf("%s: after %s it neither works nor says why: %+v", a, reported, status)
		return
	}
	c.count(how)
	if testing.Verbose() {
		c.Logf("%s: %s %s", a, how, why)
	}
}

// outcome is the state in a status as one word, and the reason; empty while there
// is none. Cleaned and Ready are False in the ordinary course of things.
func outcome(status v1beta1.DisruptionStatus) (how, why string) {
	for _, condition := range status.Conditions {
		ordinary := condition.Type == v1beta1.ConditionCleaned || condition.Type == v1beta1.ConditionReady
		if condition.Status != metav1.ConditionTrue && condition.Message != "" && !ordinary {
			how, why = "explained", condition.Type+": "+condition.Message
		}
	}
	switch {
	case status.IsStuckOnRemoval:
		return "stuck", why
	case status.Phase == v1beta1.PhaseRejected:
		return "rejected", why
	case status.InjectionStatus == v1beta1.Injected:
		return "injected", ""
	case status.Ending != "":
		return "ended", why
	}
	return how, why
}

// edit changes the field again while the disruption is there. That is refused, or
// has no effect: judge compares all chaos pods with the first spec.
func (c *campaign) edit(a attempt, name string, slot int) {
	found, err := c.disruptions.Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		return // the disruption has ended, and another client may have deleted it
	}
	found.Object["spec"] = c.filled(a.next, slot)
	if _, err = c.disruptions.Update(c.Context(), found, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		c.count("edits refused")
		return
	}
	c.count("edits accepted")
}

// filled is the spec with what stands for slot, node and namespace replaced.
func (c *campaign) filled(spec map[string]any, slot int) map[string]any {
	fill := strings.NewReplacer("{slot}", fmt.Sprint(slot), "{node}", c.nodes[slot%len(c.nodes)].Name, "{namespace}", c.namespace)
	return filled(runtime.DeepCopyJSON(spec), fill).(map[string]any)
}

func filled(value any, fill *strings.Replacer) any {
	switch value := value.(type) {
	case string:
		return fill.Replace(value)
	case []any:
		for i := range value {
			value[i] = filled(value[i], fill)
		}
	case map[string]any:
		for key := range value {
			value[key] = filled(value[key], fill)
		}
	}
	return value
}

// note keeps the spec with which a Disruption was created: that alone decides what
// is done, whatever becomes of the object.
func (c *campaign) note(made *unstructured.Unstructured) {
	part, _ := made.Object["spec"].(map[string]any)
	spec, err := specOf(part)
	if err != nil {
		c.Errorf("%s: read the stored spec: %v", made.GetName(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs[made.GetName()] = spec
}

// watchChaosPods notes chaos pods as they are created, until the test ends.
func (c *campaign) watchChaosPods() {
	pods := c.kube.CoreV1().Pods(chaosNamespace)
	go func() {
		for c.Context().Err() == nil {
			watch, err := pods.Watch(c.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionNamespace + "=" + c.namespace})
			if err != nil {
				time.Sleep(time.Second)
				continue
			}
			for event := range watch.ResultChan() {
				if pod, ok := event.Object.(*corev1.Pod); ok {
					c.mu.Lock()
					if _, known := c.seen[pod.UID]; !known {
						c.seen[pod.UID] = *pod
					}
					c.mu.Unlock()
				}
			}
		}
	}()
}

// judge looks at everything once more when all attempts are over.
func (c *campaign) judge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	injectors := 0
	for _, pod := range c.seen {
		if _, injects := injectionOf(&pod); injects {
			injectors++
		}
		spec, known := c.specs[pod.Labels[v1beta1.LabelDisruptionName]]
		if !known {
			c.Errorf("chaos pod %s is of %q, which was not created", pod.Name, pod.Labels[v1beta1.LabelDisruptionName])
			continue
		}
		if wrong := unwanted(spec, &pod, c.pods, c.nodes); wrong != "" {
			c.Errorf("chaos pod %s of %s: %s", pod.Name, pod.Labels[v1beta1.LabelDisruptionName], wrong)
		}
	}
	if injectors == 0 {
		c.Error("no chaos pod with an injection was seen")
	}
	image, err := promise.InjectorImage(c.Context(), c.kube)
	if err != nil {
		c.Fatal(err)
	}
	var left []string
	if !c.reached(gone, func() bool {
		left, err = c.left(image)
		return err == nil && len(left) == 0
	}) {
		c.Errorf("there is left: %s, %v", strings.Join(left, ", "), err)
	}
	c.expectNoPanic()
}

// left is what is still there of any disruption.
func (c *campaign) left(image string) (left []string, err error) {
	audits := map[string]v1beta1.Audit{}
	for _, node := range c.nodes {
		if audits[node.Name], err = (promise.Injectors{Kube: c.kube, Namespace: c.namespace, Image: image}).Audit(c.Context(), node.Name); err != nil {
			return nil, err
		}
	}
	return promise.Cluster{Kube: c.kube, Chaos: chaosNamespace, Shop: c.namespace, Audits: audits}.Left(c.Context())
}

// expectNoPanic looks at the programs of Squall.
func (c *campaign) expectNoPanic() {
	pods, err := c.kube.CoreV1().Pods(systemNamespace).List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if last := s.LastTerminationState.Terminated; last != nil && last.ExitCode == 2 {
				c.Errorf("%s ended with exit code 2: %s", pod.Name, last.Message)
			}
		}
		log, err := c.kube.CoreV1().Pods(systemNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(c.Context())
		if err != nil {
			c.Errorf("log of %s: %v", pod.Name, err)
			continue
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(strings.ToLower(line), "panic") {
				c.Errorf("%s says: %.400s", pod.Name, line)
			}
		}
	}
}

func (c *campaign) accept(a attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.field != "" {
		c.accepted[a.field] = true
	}
}

func (c *campaign) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *campaign) logf(format string, args ...any) {
	c.Helper()
	c.Logf("%s %s", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// reached waits for a condition.
func (c *campaign) reached(limit time.Duration, condition func() bool) bool {
	for late := time.Now().Add(limit); ; time.Sleep(250 * time.Millisecond) {
		if condition() {
			return true
		}
		if time.Now().After(late) || c.Context().Err() != nil {
			return false
		}
	}
}

func (c *campaign) until(limit time.Duration, what string, condition func() bool) {
	c.Helper()
	if !c.reached(limit, condition) {
		c.Fatalf("not within %s: %s", limit, what)
	}
}
