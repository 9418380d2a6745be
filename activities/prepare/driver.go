package prepare

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// noDriver is the rejection of a disruption that needs a driver where the cluster has none.
const noDriver = "podOpsLifecycle.policy is Participate, and the cluster has no driver of PodOpsLifecycle that grants pods. Install Kuperator " +
	"or the component pod-ops-driver, or set whenUnavailable to Proceed, or policy to Respect. Then create the disruption again"

// driverStandsDown is the event where the cluster has two drivers.
const driverStandsDown = "two drivers of PodOpsLifecycle are installed. The component pod-ops-driver is inactive " +
	"while Kuperator's webhook " + podops.KuperatorWebhook + " exists, so Kuperator grants the targets"

// operationsOf has the times of a disruption's operations; nil when it has none.
func operationsOf(spec v1beta1.DisruptionSpec) *Operations {
	if !spec.ParticipatesInOperations() {
		return nil
	}
	return &Operations{OperatingTimeout: spec.OperatingTimeout(), AvailableTimeout: spec.AvailableTimeout()}
}

// driver is the name of the driver that grants the cluster's pods. It is empty when there
// is none, or when the disruption asks none.
func (a *Activities) driver(ctx context.Context, d *v1beta1.Disruption) (string, error) {
	if !d.Spec.ParticipatesInOperations() {
		return "", nil
	}
	kuperator, builtIn := false, false
	err := kube.Pages(ctx, a.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List, metav1.ListOptions{}, func(page *admissionregistrationv1.MutatingWebhookConfigurationList) {
		for _, configuration := range page.Items {
			kuperator = kuperator || podops.OfKuperator(&configuration)
			builtIn = builtIn || configuration.Name == podops.BuiltInDriver
		}
	})
	if err != nil {
		return "", fmt.Errorf("look for a driver of PodOpsLifecycle: %w", err)
	}
	switch {
	case kuperator && builtIn: // an earlier run may have recorded the same event
		cluster.Events(a.Kube).Record(ctx, d, "DriverStandsDown", driverStandsDown, "")
		return "Kuperator", nil
	case kuperator:
		return "Kuperator", nil
	case builtIn:
		return "crdbridge", nil
	}
	return "", nil
}
