package podops

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/squall-chaos/squall/crdbridge/scope"
	"github.com/squall-chaos/squall/kube/podops"
)

// gates answers the API server about each pod that opted in and is being created.
type gates struct {
	driver     *reconciler
	namespaces scope.Namespaces
}

// Handle gives the pod the readiness gate, if the driver would move it: with a gate that no
// driver sets, a pod never becomes ready. Without the gate it becomes ready as any other
// pod, and an operation treats it as unmanaged. Where Kuperator is installed, it adds the
// same gate.
func (g gates) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod, err := g.namespaces.Pod(request, admissionv1.Create)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	response := admission.Allowed("")
	if pod == nil {
		return response
	}
	patch := podops.AddGate(pod)
	if patch == nil {
		return response
	}
	there, err := g.driver.kuperator(ctx)
	if err != nil {
		return response.WithWarnings("squall: the pod has no readiness gate, so that no driver moves it: " + err.Error())
	}
	if !there {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &kind
	}
	return response
}
