// Package requester serves the admission webhook that records the requester on each
// Disruption, and on each object that makes Disruptions. It changes two annotations and
// nothing else. Without it requesters are unknown. An admission policy
// (deploy/admission.yaml) refuses a name other than the user's own.
package requester

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/certificate"
)

const (
	// Name is that of the Service, of the Secret with the certificate, and of the
	// MutatingWebhookConfiguration.
	Name = "squall-requesters"
	// Path is where the webhook is served.
	Path = "/requesters"
)

// Settings are what an installation chooses.
type Settings struct {
	// Enabled serves the webhook, at Port.
	Enabled bool `mapstructure:"requesters"`
	Port    int  `mapstructure:"requesters-port"`
}

// InCluster is the place that deploy/components/requesters makes. Clients are as in
// certificate.Place.
func InCluster(systemNamespace string, clients *x509.CertPool) certificate.Place {
	place := certificate.InCluster(Name, systemNamespace)
	place.Clients = clients
	return place
}

// Setup serves the webhook in every replica of m, and has each see to the certificate.
func Setup(m manager.Manager, s Settings, p certificate.Place) error {
	if !s.Enabled {
		return nil
	}
	return certificate.Serve(m, "requesters", s.Port, Path, admission.HandlerFunc(handle), p)
}

// handle records the user on a created object, and on a cron, rollout or scenario whose
// spec changes: the user who wrote the spec requests its next runs. Any other update keeps
// the recorded requester.
func handle(_ context.Context, request admission.Request) admission.Response {
	var now, before unstructured.Unstructured
	if err := json.Unmarshal(request.Object.Raw, &now); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the object: %w", err))
	}
	who := v1beta1.Requester{User: request.UserInfo.Username, Groups: request.UserInfo.Groups}
	if request.Operation == admissionv1.Update {
		if err := json.Unmarshal(request.OldObject.Raw, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the object as it was: %w", err))
		}
		if request.Resource.Resource == "disruptions" || equality.Semantic.DeepEqual(now.Object["spec"], before.Object["spec"]) {
			who = v1beta1.RequesterOf(&before)
		}
	}
	want := map[string]string{}
	maps.Copy(want, now.GetAnnotations())
	delete(want, v1beta1.AnnotationRequester)
	delete(want, v1beta1.AnnotationRequesterGroups)
	maps.Copy(want, who.Annotations())
	if maps.Equal(want, now.GetAnnotations()) {
		return admission.Allowed("")
	}
	now.SetAnnotations(want)
	changed, err := now.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}
