package oninit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/scope"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// served is a bridge that serves the webhook, which a real API server calls.
type served struct {
	*bridgetest.Bridge
	kube   kubernetes.Interface
	system string
	name   string // of the configuration
}

func newServed(t *testing.T) *served {
	settings := testSettings()
	settings.Port = temporalserver.FreePort(t)
	own := &certificate.Certificate{}
	s := &served{}
	s.Bridge = bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		return Setup(m, settings, scope.Namespaces{System: s.system, Chaos: b.ChaosNamespace}, certificate.Place{Host: "localhost", Namespace: s.system, Secret: Name, Configuration: s.name}, own)
	}))
	s.Options = func(o *manager.Options) {
		*own = certificate.Certificate{} // a program that just started has none
		o.WebhookServer = Server(settings, own, nil)
	}
	config := apiserver.Start(t)
	config.WarningHandler = rest.NoWarnings{}
	var err error
	s.kube, err = kubernetes.NewForConfig(config)
	s.Must(err)
	s.system = s.MakeNamespace("system-")
	s.name = s.Webhook("on-init", Name, Path, settings.Port, s.system, s.Namespace, s.system, s.ChaosNamespace)
	s.Start()
	return s
}

// create makes a pod as the API server keeps it.
func (s *served) create(namespace string, change func(*corev1.Pod)) (*corev1.Pod, error) {
	pod := labelled(change)
	pod.GenerateName = "web-"
	return s.kube.CoreV1().Pods(namespace).Create(s.T.Context(), pod, metav1.CreateOptions{})
}

// waits is true once pods are held back: the API server reads a configuration some time
// after it was written.
func (s *served) waits() bool {
	pod, err := s.create(s.Namespace, nil)
	return err == nil && len(pod.Spec.InitContainers) == 1
}

func (s *served) awaitServed() {
	s.T.Helper()
	bridgetest.Eventually(s.T, bridgetest.Soon, "pods are held back", s.waits)
}

func TestLabelledPodsAreHeldBack(t *testing.T) {
	s := newServed(t)
	s.awaitServed()
	initOf := func(pod *corev1.Pod) []string {
		var names []string
		for _, c := range pod.Spec.InitContainers {
			names = append(names, c.Name)
		}
		return names
	}
	guaranteed := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	for _, test := range []struct {
		name, namespace string
		change          func(*corev1.Pod)
		want            []string
	}{
		{"a pod with init containers of its own", s.Namespace, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "x"}}
			p.Spec.Volumes = []corev1.Volume{{Name: "data"}}
		}, []string{v1beta1.OnInitContainer, "migrate"}},
		{"a guaranteed pod", s.Namespace, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: guaranteed, Limits: guaranteed}
		}, []string{v1beta1.OnInitContainer}},
		{"a pod without the label", s.Namespace, func(p *corev1.Pod) { p.Labels = nil }, nil},
		{"a pod of Squall itself", s.system, nil, nil},
		{"a chaos pod", s.ChaosNamespace, nil, nil},
		{"a pod in its node's network", s.Namespace, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, err := s.create(test.namespace, test.change)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, initOf(pod)); diff != "" {
				t.Errorf("init containers (-want +got):\n%s", diff)
			}
			if len(test.want) == 0 {
				return
			}
			ours := pod.Spec.InitContainers[0]
			if ours.Image != "squall:test" || ours.SecurityContext.Capabilities.Add != nil || len(ours.Env) > 0 || ours.VolumeMounts[0].MountPath != tokenDirectory {
				t.Errorf("container = %+v, want the injector's image, no rights, nothing of the pod's credentials", ours)
			}
			if strings.HasPrefix(test.name, "a guaranteed") && pod.Status.QOSClass != corev1.PodQOSGuaranteed {
				t.Errorf("quality of service = %s, want it as it was", pod.Status.QOSClass)
			}
		})
	}
}

func TestAWaitThatCannotBeIsRefused(t *testing.T) {
	s := newServed(t)
	s.awaitServed()
	_, err := s.create(s.Namespace, func(p *corev1.Pod) { p.Annotations = map[string]string{v1beta1.AnnotationOnInitTimeout: "2h"} })
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), v1beta1.AnnotationOnInitTimeout+` "2h": want a duration from 1s to 1h0m0s`) {
		t.Errorf("create = %v, want it refused with what is allowed", err)
	}
	if pod, err := s.create(s.Namespace, func(p *corev1.Pod) { p.Annotations = map[string]string{v1beta1.AnnotationOnInitTimeout: "2m"} }); err != nil || pod.Spec.InitContainers[0].Command[3] != "2m0s" {
		t.Errorf("create = %v, %v; want a wait of 2m0s", pod.Spec.InitContainers, err)
	}
}

// A pod is created as it was written while the webhook is down.
func TestWithoutTheWebhookPodsAreCreated(t *testing.T) {
	s := newServed(t)
	s.awaitServed()
	s.Must(s.Stop())
	pod, err := s.create(s.Namespace, nil)
	if err != nil || len(pod.Spec.InitContainers) > 0 || len(pod.Spec.Volumes) > 0 {
		t.Errorf("create = %+v, %v; want the pod as it was written", pod.Spec, err)
	}
}

// The bridge replaces a lost certificate, and the API server trusts the new one.
func TestALostCertificateIsReplaced(t *testing.T) {
	s := newServed(t)
	s.awaitServed()
	secrets := s.kube.CoreV1().Secrets(s.system)
	before, err := s.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), s.name, metav1.GetOptions{})
	s.Must(err)
	s.Must(s.Stop())
	secret, err := secrets.Get(t.Context(), Name, metav1.GetOptions{})
	s.Must(err)
	secret.Data = nil
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	s.Must(err)
	s.Start()
	s.awaitServed()
	after, err := s.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), s.name, metav1.GetOptions{})
	s.Must(err)
	if string(after.Webhooks[0].ClientConfig.CABundle) == string(before.Webhooks[0].ClientConfig.CABundle) {
		t.Error("the API server trusts the lost certificate")
	}
}
