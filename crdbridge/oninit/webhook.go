// Package oninit serves an admission webhook for pods with the label disrupt-on-init. The
// webhook adds an init container of ours, which holds the pod back until it is disrupted. It
// changes no other pod, nor one of Squall's own or of the cluster's. A pod
// also starts while the webhook is down, as long as its configuration ignores failures.
package oninit

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/scope"
)

const (
	// Name is that of the Service, of the Secret with the certificate, and of the
	// MutatingWebhookConfiguration.
	Name = "squall-on-init"
	// Path is where the webhook is served.
	Path = "/on-init"
)

// Settings are what an installation chooses.
type Settings struct {
	// Enabled serves the webhook. Without it the other settings have no effect.
	Enabled bool `mapstructure:"on-init"`
	// Port is where it is served.
	Port int `mapstructure:"on-init-port"`
	// Certificates is a directory with tls.crt and tls.key; empty means that the bridge
	// makes them and keeps them in a Secret.
	Certificates string `mapstructure:"on-init-certificates"`
	// Timeout is how long a pod waits without an annotation, MaxTimeout the longest that an
	// annotation may ask for.
	Timeout    time.Duration `mapstructure:"on-init-timeout"`
	MaxTimeout time.Duration `mapstructure:"on-init-max-timeout"`
	// Image of the injector, and when to pull it; an empty policy is the cluster's.
	Image           string `mapstructure:"injector-image"`
	ImagePullPolicy string `mapstructure:"image-pull-policy"`
}

// Check returns an error if a setting is invalid.
func (s Settings) Check() error {
	switch {
	case !s.Enabled:
		return nil
	case s.Image == "":
		return fmt.Errorf("setting injector-image is empty, and on-init is on")
	case s.Timeout < shortestWait || s.Timeout > s.MaxTimeout:
		return fmt.Errorf("setting on-init-timeout %s: want at least %s and at most on-init-max-timeout, %s", s.Timeout, shortestWait, s.MaxTimeout)
	case !slices.Contains([]string{"", string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)}, s.ImagePullPolicy):
		return fmt.Errorf("setting image-pull-policy %q: want Always, IfNotPresent or Never", s.ImagePullPolicy)
	}
	return nil
}

// InCluster is the place that deploy/components/on-init makes.
func InCluster(systemNamespace string) certificate.Place {
	return certificate.InCluster(Name, systemNamespace)
}

// Server returns the webhook's server, for the options of a manager: nil if it is off. It
// has a certificate once Setup was called. Clients are as in certificate.Place.
func Server(s Settings, own *certificate.Certificate, clients *x509.CertPool) webhook.Server {
	if !s.Enabled {
		return nil
	}
	return certificate.Server(s.Port, s.Certificates, own, clients)
}

// Setup serves the webhook in every replica of m. Unless a directory has the certificate,
// each replica keeps it.
func Setup(m manager.Manager, s Settings, n scope.Namespaces, p certificate.Place, own *certificate.Certificate) error {
	if !s.Enabled {
		return nil
	}
	m.GetWebhookServer().Register(Path, &admission.Webhook{Handler: handler{s, n}})
	if s.Certificates != "" {
		return nil
	}
	return certificate.Keep(m, "on-init", p, own)
}

// handler answers the API server.
type handler struct {
	settings   Settings
	namespaces scope.Namespaces
}

// Handle decides about one pod that is being created.
func (h handler) Handle(_ context.Context, request admission.Request) admission.Response {
	pod, err := h.namespaces.Pod(request, admissionv1.Create)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod == nil {
		return admission.Allowed("")
	}
	operations, notice, err := patch(pod, h.settings)
	if err != nil {
		return admission.Denied(err.Error())
	}
	response := admission.Allowed("")
	if notice != "" {
		response.Warnings = []string{notice}
	}
	if len(operations) == 0 {
		return response
	}
	encoded, err := json.Marshal(operations)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = encoded, &kind
	return response
}
