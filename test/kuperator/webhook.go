package kuperator

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admission "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/kube/podops"
)

// Server is Kuperator's webhook, which the API server asks about each write to a managed
// pod of one namespace.
type Server struct {
	// Away is true while the webhook cannot be reached: every write to a managed pod
	// fails.
	Away atomic.Bool
}

// Serve installs the webhook for a namespace until the test ends. It returns when the API
// server asks the webhook.
func Serve(t testing.TB, kube kubernetes.Interface, namespace string) *Server {
	t.Helper()
	s := &Server{}
	listening := httptest.NewTLSServer(s)
	t.Cleanup(listening.Close)
	webhooks := kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	configuration := served(listening, namespace)
	if _, err := webhooks.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := webhooks.Delete(context.Background(), configuration.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	refused := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "asked", Labels: map[string]string{podops.LabelManaged: podops.ManagedValue, podops.LabelOperated + "/a": "1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}}},
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), refused.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "not found label "+podops.LabelDoneType+"/a") {
			return s
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the API server does not ask the webhook: %v", err)
		}
	}
}

// served is the configuration of a webhook that is called. Kuperator has two, one that
// changes and one that refuses; this one does both.
func served(listening *httptest.Server, namespace string) *admissionv1.MutatingWebhookConfiguration {
	configuration := Webhook()
	webhook := &configuration.Webhooks[0]
	fail, url := admissionv1.Fail, listening.URL
	webhook.FailurePolicy = &fail
	webhook.ClientConfig = admissionv1.WebhookClientConfig{
		URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw}),
	}
	webhook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	webhook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{podops.LabelManaged: podops.ManagedValue}}
	webhook.Rules = []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/status"}},
	}}
	return configuration
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admission.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || s.Away.Load() {
		panic(http.ErrAbortHandler)
	}
	review.Response = answer(review.Request)
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func answer(request *admission.AdmissionRequest) *admission.AdmissionResponse {
	refuse := func(err error) *admission.AdmissionResponse {
		return &admission.AdmissionResponse{UID: request.UID, Result: &metav1.Status{Code: http.StatusForbidden, Message: err.Error(), Reason: metav1.StatusReason(err.Error())}}
	}
	pod, old := &corev1.Pod{}, (*corev1.Pod)(nil)
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return refuse(err)
	}
	if len(request.OldObject.Raw) > 0 {
		old = &corev1.Pod{}
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return refuse(err)
		}
	}
	if err := Admit(old, pod); err != nil {
		return refuse(err)
	}
	changes := []map[string]any{{"op": "add", "path": "/metadata/labels", "value": pod.Labels}}
	if old == nil {
		changes = append(changes, map[string]any{"op": "add", "path": "/spec/readinessGates", "value": pod.Spec.ReadinessGates})
	}
	patch, _ := json.Marshal(changes) // of strings alone: it cannot fail
	kind := admission.PatchTypeJSONPatch
	return &admission.AdmissionResponse{UID: request.UID, Allowed: true, Patch: patch, PatchType: &kind}
}
