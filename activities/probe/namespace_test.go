package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// shop is a namespace of a real API server in which the test plays the kubelet.
type shop struct {
	*testing.T
	client    *kubernetes.Clientset
	namespace string
}

func newShop(t *testing.T) shop {
	t.Helper()
	client, err := kubernetes.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return shop{t, client, namespace.Name}
}

// pod creates a pod with a status; change may be nil.
func (s shop) pod(name, address string, phase corev1.PodPhase, ready bool, change func(*corev1.Pod)) {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "checkout"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	if change != nil {
		change(pod)
	}
	pods := s.client.CoreV1().Pods(s.namespace)
	pod, err := pods.Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: phase, PodIP: address, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}
	if address != "" {
		pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	}
	if ready {
		pod.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if _, err := pods.UpdateStatus(s.Context(), pod, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s shop) watched() *Namespace {
	s.Helper()
	namespace, err := WatchNamespace(s.Context(), s.client, s.namespace, false)
	if err != nil {
		s.Fatal(err)
	}
	return namespace
}

// rule P17
func TestPodsReady(t *testing.T) {
	s := newShop(t)
	for i := range 4 {
		s.pod(fmt.Sprint("ready-", i), "", corev1.PodRunning, true, nil)
	}
	s.pod("not-ready", "", corev1.PodRunning, false, nil)
	s.pod("ended", "", corev1.PodSucceeded, false, nil)
	s.pod("failed", "", corev1.PodFailed, true, nil)
	s.pod("of-another", "", corev1.PodRunning, false, func(pod *corev1.Pod) { pod.Labels["app"] = "cart" })
	s.pod("going", "", corev1.PodRunning, true, func(pod *corev1.Pod) { pod.Finalizers = []string{"test.squall.dev/stay"} })
	if err := s.client.CoreV1().Pods(s.namespace).Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p := anyProber()
	p.Pods = s.watched().Pods
	for _, c := range []struct {
		name, app, least string
		want             outcome
		text             string
	}{
		{"a number", "checkout", "4", succeeds, "4 of 5 pods are ready, want 4"},
		{"more than are ready: one attempt", "checkout", "5", fails, "4 of 5 pods are ready, want 5"},
		{"more than there are", "checkout", "6", fails, "4 of 5 pods are ready, want 6"},
		{"a share", "checkout", "80%", succeeds, "4 of 5 pods are ready, want 4"},
		{"a share is rounded up", "checkout", "81%", fails, "4 of 5 pods are ready, want 5"},
		{"without a number all of them", "checkout", "", fails, "4 of 5 pods are ready, want 5"},
		{"no pods are not enough", "nobody", "1%", fails, "0 of 0 pods are ready, want 1"},
		{"no share at all is an error: three attempts", "checkout", "some", errs, "podsReady.min some: want a number of 1 or more, or 1% to 100%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := v1beta1.PodsReadyProbe{Selector: map[string]string{"app": c.app}}
			if c.least != "" {
				least := intstr.Parse(c.least)
				probe.Min = &least
			}
			answer := wantOutcome(t, p, v1beta1.Probe{TimeoutSeconds: timeLimit(""), ProbeHandler: v1beta1.ProbeHandler{PodsReady: &probe}}, nil, c.want)
			if answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
		})
	}
	t.Run("it follows the watch", func(t *testing.T) {
		s.pod("late", "", corev1.PodRunning, true, nil)
		least := intstr.FromInt32(5)
		probe := v1beta1.Probe{TimeoutSeconds: timeLimit(""), ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": "checkout"}, Min: &least}}}.WithDefaults()
		eventually(t, "five pods are ready", func() bool { return p.Ask(t.Context(), probe, nil).Result == Success })
	})
}

func TestBelongs(t *testing.T) {
	s, stranger := newShop(t), newShop(t)
	s.pod("running", "10.1.0.5", corev1.PodRunning, true, nil)
	s.pod("ended", "10.1.0.6", corev1.PodSucceeded, false, nil)
	s.pod("of-the-node", "10.9.0.1", corev1.PodRunning, true, func(pod *corev1.Pod) { pod.Spec.HostNetwork = true })
	stranger.pod("running", "10.2.0.5", corev1.PodRunning, true, nil)
	good := s.service("good", "10.1.0.5")
	empty := s.service("empty")
	astray := s.service("astray", "10.1.0.5", "10.2.0.5")
	theirs := stranger.service("good", "10.2.0.5")
	namespace := s.watched()
	for _, c := range []struct{ name, address, why string }{
		{"a pod", "10.1.0.5", ""},
		{"a pod that ended, whose address another may have", "10.1.0.6", "it belongs to no pod and no Service"},
		{"the node of a pod in its network", "10.9.0.1", "it belongs to no pod and no Service"},
		{"another namespace's pod", "10.2.0.5", "it belongs to no pod and no Service"},
		{"a Service", good, ""},
		{"a Service without endpoints", empty, ""},
		{"a Service that somebody leads elsewhere", astray, "Service astray leads to 10.2.0.5, which is no pod of the disruption's namespace"},
		{"another namespace's Service", theirs, "it belongs to no pod and no Service"},
	} {
		if got := namespace.Belongs(netip.MustParseAddr(c.address)); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: Belongs(%s) = %q, want %q", c.name, c.address, got, c.why)
		}
	}
}

// service creates a Service with these endpoints, and returns its address.
func (s shop) service(name string, endpoints ...string) string {
	s.Helper()
	service, err := s.client.CoreV1().Services(s.namespace).Create(s.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if len(endpoints) > 0 {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: endpoints[:1]}, {Addresses: endpoints[len(endpoints)-1:]}},
		}
		if _, err := s.client.DiscoveryV1().EndpointSlices(s.namespace).Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	return service.Spec.ClusterIP
}

func TestAPIServerAddresses(t *testing.T) {
	config := apiserver.Start(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	service, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server writes its own address some time after it answers.
	var endpoints []string
	eventually(t, "the API server says where it is", func() bool {
		slice, err := client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, endpoint := range slice.Endpoints {
			endpoints = append(endpoints, endpoint.Addresses...)
		}
		return len(endpoints) > 0
	})
	got, err := APIServerAddresses(t.Context(), client, "https://203.0.113.3:6443")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append(endpoints, service.Spec.ClusterIP, "203.0.113.3") {
		if !slices.Contains(got, netip.MustParseAddr(want)) {
			t.Errorf("APIServerAddresses = %v, want %s in it", got, want)
		}
	}
}
