package podops

import (
	"context"
	"crypto/x509"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/scope"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/kuperator"
	"github.com/squall-chaos/squall/test/temporalserver"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

const traffic = podops.FinalizerPrefix + "traffic"

// cluster has pods of workloads, a simulated kubelet and router, and a driver.
type cluster struct {
	*bridgetest.Bridge
	client  kubernetes.Interface
	metrics *prometheus.Registry
	// system is the namespace of Squall where the API server asks the bridge.
	system string
	// drive does the driver's work between two reads.
	drive func()
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{drive: func() {}}
	c.Bridge = bridgetest.New(t, bridgetest.Controllers(func(_ *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		c.metrics = prometheus.NewRegistry()
		return Setup(m, Settings{Driver: true}, scope.Namespaces{}, Places{}, c.metrics)
	}))
	c.connect()
	return c
}

func (c *cluster) connect() {
	c.T.Helper()
	config := apiserver.Start(c.T)
	config.QPS = -1
	var err error
	c.client, err = kubernetes.NewForConfig(config)
	c.Must(err)
}

// newServed is a cluster whose API server calls the bridge in the namespaces of the test,
// configured as the shipped component does. Clients are as in certificate.Place.
func newServed(t *testing.T, component, path string, s Settings, clients *x509.CertPool) *cluster {
	t.Helper()
	s.Driver = true
	s.GracefulDeletePort = temporalserver.FreePort(t)
	s.ReadinessGatePort = s.GracefulDeletePort // one of them is served
	c := &cluster{drive: func() {}}
	var place certificate.Place
	c.Bridge = bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		c.metrics = prometheus.NewRegistry()
		of := scope.Namespaces{System: place.Namespace, Chaos: b.ChaosNamespace}
		return Setup(m, s, of, Places{GracefulDelete: place, ReadinessGate: place}, c.metrics)
	}))
	c.connect()
	place = certificate.Place{Host: "localhost", Namespace: c.MakeNamespace("system-"), Secret: "squall-" + component, Validating: s.GracefulDelete, Clients: clients}
	c.system = place.Namespace
	place.Configuration = c.Webhook(component, place.Secret, path, s.GracefulDeletePort, c.system, c.Namespace, c.system, c.ChaosNamespace)
	c.Start()
	return c
}

// pod creates a pod that opted in, of a workload of that kind.
func (c *cluster) pod(name, owner string, changes ...func(*corev1.Pod)) {
	c.T.Helper()
	controller := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": "web", podops.LabelManaged: podops.ManagedValue},
			Annotations:     map[string]string{podops.AnnotationAvailable: `{"expectedFinalizers":{"Service/shop/web":"` + traffic + `"}}`},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "web", UID: types.UID("of-" + name), Controller: &controller}},
		},
		Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "i"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}},
	}
	for _, change := range changes {
		change(pod)
	}
	_, err := c.client.CoreV1().Pods(c.Namespace).Create(c.T.Context(), pod, metav1.CreateOptions{})
	c.Must(err)
	// The driver may write meanwhile, so this is a patch.
	_, err = c.client.CoreV1().Pods(c.Namespace).Patch(c.T.Context(), name, types.StrategicMergePatchType,
		[]byte(`{"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	c.Must(err)
	c.T.Cleanup(func() { // no finalizer may keep it
		_, _ = c.client.CoreV1().Pods(c.Namespace).Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
}

func (c *cluster) get(name string) *corev1.Pod {
	c.T.Helper()
	pod, err := c.client.CoreV1().Pods(c.Namespace).Get(c.T.Context(), name, metav1.GetOptions{})
	c.Must(err)
	return pod
}

func (c *cluster) patch(name string, patch []byte) {
	c.T.Helper()
	_, err := c.client.CoreV1().Pods(c.Namespace).Patch(c.T.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	c.Must(err)
}

// kubelet sets the Ready condition of the pod as its readiness gate requires.
func (c *cluster) kubelet(name string) {
	c.T.Helper()
	want, pod := "False", c.get(name)
	if gate(pod) == corev1.ConditionTrue {
		want = "True"
	}
	if podops.Ready(pod) == (want == "True") {
		return
	}
	_, err := c.client.CoreV1().Pods(c.Namespace).Patch(c.T.Context(), name, types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"`+want+`"}]}}`), metav1.PatchOptions{}, "status")
	c.Must(err)
}

// serve adds or removes the finalizer of the router.
func (c *cluster) serve(name string, on bool) {
	c.T.Helper()
	list := "null"
	if on {
		list = `["` + traffic + `"]`
	}
	c.patch(name, []byte(`{"metadata":{"finalizers":`+list+`}}`))
}

// until lets driver and kubelet work until holds returns true.
func (c *cluster) until(name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	c.T.Helper()
	var pod *corev1.Pod
	bridgetest.Eventually(c.T, bridgetest.Soon, name+": "+what, func() bool {
		c.kubelet(name)
		c.drive()
		pod = c.get(name)
		return holds(pod)
	})
	return pod
}

func (c *cluster) inService(name string) {
	c.T.Helper()
	c.until(name, "ready", podops.Ready)
	c.serve(name, true)
	c.until(name, "in service", func(pod *corev1.Pod) bool { in, _ := podops.Available(pod); return in })
}

func gate(pod *corev1.Pod) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == podops.ReadinessGate {
			return condition.Status
		}
	}
	return ""
}

var chaos = podops.Operation{ID: "chaos-1", Type: "chaos"}

func left(pod *corev1.Pod) (labels []string) {
	for key := range pod.Labels {
		if strings.Contains(key, "."+podops.Domain+"/") {
			labels = append(labels, key)
		}
	}
	return labels
}

// rules L17, L18, L19, L21: each driver, with pods of each workload.
func TestAnOperationWithEachDriver(t *testing.T) {
	for _, driver := range []string{"of the bridge", "that stands in for Kuperator"} {
		for _, owner := range []string{"ReplicaSet", "StatefulSet"} {
			t.Run(driver+", a pod of a "+owner, func(t *testing.T) {
				c := newCluster(t)
				if driver == "of the bridge" {
					c.Start()
				} else {
					c.drive = func() { c.Must(kuperator.Settle(t.Context(), c.client, c.Namespace, true)) }
				}
				c.pod("web-0", owner)
				c.wholeOperation("web-0")
			})
		}
	}
}

func (c *cluster) wholeOperation(name string) {
	t := c.T
	t.Helper()
	pod := c.until(name, "a new pod is ready", podops.Ready)
	if _, early := pod.Labels[podops.LabelAvailable]; early {
		t.Error("it is in service before its traffic is there")
	}
	c.inService(name)
	c.patch(name, chaos.Begin(c.get(name).UID, time.Now()))
	pod = c.until(name, "out of service", func(pod *corev1.Pod) bool { return gate(pod) == corev1.ConditionFalse })
	if chaos.Holds(pod) || pod.Labels[podops.LabelAvailable] != "" {
		t.Errorf("Preparing: labels = %v, want it neither given nor available", pod.Labels)
	}
	c.serve(name, false)
	c.until(name, "given", chaos.Holds)
	c.until(name, "to be operated on", func(pod *corev1.Pod) bool { return chaos.Next(pod) == podops.StepOperate })
	c.patch(name, chaos.End(c.get(name)))
	c.until(name, "Completing", func(pod *corev1.Pod) bool { return gate(pod) == corev1.ConditionTrue && podops.Ready(pod) })
	if pod = c.get(name); pod.Labels[podops.LabelCompleting+"/"+chaos.ID] == "" || pod.Labels[podops.LabelAvailable] != "" {
		t.Errorf("Completing without the finalizer that is expected: labels = %v", pod.Labels)
	}
	c.inService(name)
	pod = c.get(name)
	if labels := left(pod); len(labels) > 0 {
		t.Errorf("labels %v are left", labels)
	}
	scheduled := false
	for _, condition := range pod.Status.Conditions {
		scheduled = scheduled || condition.Type == corev1.PodScheduled
	}
	if !scheduled {
		t.Error("the conditions of others are gone")
	}
}

// kuperatorThere installs the webhook of Kuperator, which is called for nothing.
func (c *cluster) kuperatorThere() (away func()) {
	c.T.Helper()
	webhooks := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := webhooks.Create(c.T.Context(), kuperator.Webhook(), metav1.CreateOptions{})
	c.Must(err)
	gone := false
	away = func() {
		if !gone {
			gone = true
			c.Must(webhooks.Delete(context.Background(), "kuperator", metav1.DeleteOptions{}))
		}
	}
	c.T.Cleanup(away)
	return away
}

// reconciles is how many reconciles the driver has ended, in all bridges of this process.
func reconciles(t *testing.T) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetValue() == "pod-ops-driver" {
					n += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// rule L14: while Kuperator is installed the driver writes nothing, from its start on and
// when Kuperator is installed later. When Kuperator is removed the driver resumes.
func TestTheDriverStandsDown(t *testing.T) {
	c := newCluster(t)
	c.pod("web-0", "StatefulSet")
	away := c.kuperatorThere()
	c.Start()
	bridgetest.Eventually(t, bridgetest.Soon, "it has read the webhooks and the pods", func() bool {
		return c.Traffic.Count("WATCH mutatingwebhookconfigurations") > 0 && c.Manager.GetCache().WaitForCacheSync(t.Context())
	})
	looks := reconciles(t)
	c.patch("web-0", chaos.Begin(c.get("web-0").UID, time.Now()))
	c.Seen(c.get("web-0"))
	bridgetest.Eventually(t, bridgetest.Soon, "the driver has looked at the pod", func() bool { return reconciles(t) > looks })
	if writes := c.Traffic.Count("PATCH pods"); writes != 0 {
		t.Errorf("%d writes to pods where Kuperator is: %v", writes, c.Traffic.All())
	}
	c.showsStandingDown(1)
	away()
	c.until("web-0", "the driver goes on", func(pod *corev1.Pod) bool { return podops.Taken(pod) })
	c.showsStandingDown(0)
}

func (c *cluster) showsStandingDown(want float64) {
	c.T.Helper()
	families, err := c.metrics.Gather()
	c.Must(err)
	if len(families) != 1 || families[0].GetName() != downGauge.Name {
		c.T.Fatalf("the page of metrics has %v, want %s alone", families, downGauge.Name)
	}
	if got := families[0].GetMetric()[0].GetGauge().GetValue(); got != want {
		c.T.Errorf("%s is %g, want %g", downGauge.Name, got, want)
	}
}

// rule L13 with the driver of the bridge: a budget without room permits nothing, and with
// room it permits no more than it has. The driver retries when a budget changes or an
// operation ends, and not by the clock.
func TestTheDriverKeepsABudget(t *testing.T) {
	c := newCluster(t)
	budget, err := c.client.PolicyV1().PodDisruptionBudgets(c.Namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	c.Must(err)
	allow := func(n int32) {
		budget.Status.DisruptionsAllowed, budget.Status.ObservedGeneration = n, budget.Generation
		budget, err = c.client.PolicyV1().PodDisruptionBudgets(c.Namespace).UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
		c.Must(err)
	}
	allow(0)
	c.Start()
	names := []string{"web-0", "web-1"}
	for _, name := range names {
		c.pod(name, "StatefulSet")
		c.patch(name, chaos.Begin(c.get(name).UID, time.Now()))
		c.until(name, "waits", func(pod *corev1.Pod) bool { return pod.Labels[podops.LabelPreCheck+"/"+chaos.ID] != "" })
	}
	allow(1)
	taken := func() (n int) {
		for _, name := range names {
			if podops.Taken(c.get(name)) {
				n++
			}
		}
		return n
	}
	bridgetest.Eventually(t, bridgetest.Soon, "one is permitted", func() bool { return taken() > 0 })
	asked := c.Traffic.Count("LIST poddisruptionbudgets")
	allow(0)
	bridgetest.Eventually(t, bridgetest.Soon, "a change of the budget is looked at", func() bool { return c.Traffic.Count("LIST poddisruptionbudgets") > asked })
	asked = c.Traffic.Count("LIST poddisruptionbudgets")
	allow(1)
	bridgetest.Eventually(t, bridgetest.Soon, "it is again", func() bool { return c.Traffic.Count("LIST poddisruptionbudgets") > asked })
	if n := taken(); n != 1 {
		t.Errorf("%d pods are taken under a budget of 1", n)
	}
	has, waits := names[0], names[1]
	if !podops.Taken(c.get(has)) {
		has, waits = waits, has
	}
	none := int64(0)
	c.Must(c.client.CoreV1().Pods(c.Namespace).Delete(t.Context(), has, metav1.DeleteOptions{GracePeriodSeconds: &none}))
	bridgetest.Eventually(t, bridgetest.Soon, "the other one is permitted", func() bool { return podops.Taken(c.get(waits)) })
}

// stored answers each read with a pod, or with not found.
type stored struct {
	client.Reader
	pod *corev1.Pod
}

func (s stored) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if s.pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	into.SetUID(s.pod.UID)
	into.SetResourceVersion(s.pod.ResourceVersion)
	return nil
}

// A write to a pod that has another version or UID is retried when the watch reports the
// change. After a conflict without a change no watch would retry it.
func TestAConflictWithNothingIsTriedAgain(t *testing.T) {
	pod := func(uid types.UID, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: uid, ResourceVersion: version}}
	}
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "web-0", nil)
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web-0", nil)
	for _, test := range []struct {
		name  string
		now   *corev1.Pod
		err   error
		again bool
	}{
		{"it was written", pod("a", "1"), nil, false},
		{"a conflict with a later version", pod("a", "2"), conflict, false},
		{"a conflict with nothing", pod("a", "1"), conflict, true},
		{"another pod of the name", pod("b", "3"), invalid, false},
		{"a patch that is invalid", pod("a", "1"), invalid, true},
		{"it is gone", nil, conflict, false},
		{"the API server is not well", pod("a", "2"), apierrors.NewInternalError(io.EOF), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := written(t.Context(), stored{pod: test.now}, pod("a", "1"), test.err); (err != nil) != test.again {
				t.Errorf("written = %v, want it tried again: %t", err, test.again)
			}
		})
	}
}
