package matrix

import (
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/temporalserver"
)

// onInitPath is where the bridge serves the webhook.
const onInitPath = "/on-init"

// serveOnInit is the settings with which the slot's bridge serves the on-init webhook.
// The API server calls it by URL for the slot's own namespace, as deploy/components/on-init
// configures it otherwise. The bridge gets its certificate in a directory, as it does from
// cert-manager: the name of the configuration that it would write otherwise is one for the
// whole cluster, and here each slot has its own.
func (s *slot) serveOnInit() []string {
	w := s.world
	w.Helper()
	port := temporalserver.FreePort(w)
	address := net.JoinHostPort("localhost", strconv.Itoa(port))
	chain, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	w.Must(err)
	directory := w.TempDir()
	w.Must(os.WriteFile(filepath.Join(directory, corev1.TLSCertKey), chain, 0o600))
	w.Must(os.WriteFile(filepath.Join(directory, corev1.TLSPrivateKeyKey), key, 0o600))
	_, authority := pem.Decode(chain) // the certificate comes first, then its authority

	shipped, err := os.ReadFile("../../deploy/components/on-init/webhook.yaml")
	w.Must(err)
	_, text, _ := strings.Cut(string(shipped), "\n---\n")
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	w.Must(yaml.UnmarshalStrict([]byte(text), configuration))
	configuration.Name = "on-init-of-" + s.shop
	url := "https://" + address + onInitPath
	configuration.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: &url, CABundle: authority}
	configuration.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.shop}}
	_, err = w.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(w.Context(), configuration, metav1.CreateOptions{})
	w.Must(err)
	return []string{"SQUALL_ON_INIT=true", fmt.Sprintf("SQUALL_ON_INIT_PORT=%d", port), "SQUALL_ON_INIT_CERTIFICATES=" + directory}
}

// startDisrupted is a disruption that waits for a pod, and a pod that waits for it.
func (r *run) startDisrupted() error {
	if err := r.create(); err != nil {
		return err
	}
	err := r.untilRecorded(1, "the event that no pod waits", func(event string) bool { return strings.Contains(event, ": Warning NoTargetsFound: ") })
	if err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	if err := r.makeWaiting(); err != nil {
		return err
	}
	return r.allDisrupted()
}

// makeWaiting creates the pod once the bridge answers: the API server ignores a webhook that
// does not, and a bridge may be on its way up. The webhook has no side effects, so that the
// API server calls it for a dry run, too.
func (r *run) makeWaiting() error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web", v1beta1.LabelDisruptOnInit: v1beta1.OnInitValue}},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
	pods := r.world.Kube.CoreV1().Pods(r.shop)
	waits := func(options metav1.CreateOptions) (*corev1.Pod, bool) {
		made, err := pods.Create(r.ctx, pod, options)
		return made, err == nil && len(made.Spec.InitContainers) == 1 && made.Spec.InitContainers[0].Name == v1beta1.OnInitContainer
	}
	err := r.until("the webhook answers", func() bool {
		_, held := waits(metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return held
	})
	if err != nil {
		return err
	}
	made, held := waits(metav1.CreateOptions{})
	if !held {
		return fmt.Errorf("the webhook answered for a dry run and not for pod %s: %+v", pod.Name, made)
	}
	r.current.names.know(string(made.UID), made.Name)
	return nil
}

// started waits until the pod runs: the injector that disrupts it lets it start.
func (r *run) started() error {
	err := r.until("the pod has started", func() bool {
		pod, err := r.world.Kube.CoreV1().Pods(r.shop).Get(r.ctx, "web-0", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning
	})
	if err != nil {
		return err
	}
	return r.deleted()
}
