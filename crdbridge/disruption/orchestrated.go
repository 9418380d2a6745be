package disruption

import (
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/start"
)

// fieldManager owns the finalizer and the condition Orchestrated, nothing else.
const fieldManager = "squall-bridge"

// Reasons of the condition Orchestrated.
const (
	reasonRefused     = "TemporalRefused"
	reasonEnded       = "WorkflowEnded"
	reasonTaskFailing = "WorkflowTaskFailing"
	// reasonNoChaosNamespace: a person deleted the namespace of chaos pods.
	reasonNoChaosNamespace = "ChaosNamespaceMissing"
	// reasonOtherCluster: two clusters use one Temporal namespace, and this one came second.
	reasonOtherCluster = "OtherCluster"
)

// orchestrated is the condition for err, and whether it must be written.
func orchestrated(d *v1beta1.Disruption, err error) (metav1.Condition, bool) {
	want := metav1.Condition{Type: v1beta1.ConditionOrchestrated, ObservedGeneration: d.Generation}
	want.Status, want.Reason, want.Message = verdict(err)
	return condition.Due(d.Status.Conditions, want)
}

// verdict is the condition of an error. The same error always has the same message, or each
// attempt would write the condition.
func verdict(err error) (metav1.ConditionStatus, string, string) {
	switch {
	case err == nil:
		return metav1.ConditionTrue, condition.ReasonReached, "Temporal is reached."
	case errors.Is(err, start.ErrCompleted):
		return metav1.ConditionFalse, reasonEnded, "The workflow has completed but left the finalizer. See what is left with " +
			"`injector audit` on the nodes, then remove " + v1beta1.DisruptionFinalizer + " by hand."
	case errors.Is(err, errNoChaosNamespace):
		return metav1.ConditionFalse, reasonNoChaosNamespace, fmt.Sprintf("No disruption begins, and no node can be cleaned up: %s. Running injectors clean up at their deadline. "+
			"Apply the installation again, as by kubectl apply -k deploy or helm upgrade; then disruptions resume.", err)
	case errors.Is(err, start.ErrOtherCluster):
		return metav1.ConditionFalse, reasonOtherCluster, "Nothing begins: " + err.Error()
	case errors.Is(err, temporal.ErrNoWorker):
		return metav1.ConditionFalse, condition.ReasonNoWorker, "No worker polls Temporal: nothing begins, goes on or is cleaned, and injectors end at their own " +
			"deadline. See why none runs: kubectl -n squall-system describe deployment squall-worker"
	case errors.Is(err, temporal.ErrNoProber):
		return metav1.ConditionFalse, condition.ReasonNoProber, "No program runs the probes of spec.steadyState: nothing is injected before they are asked, and later " +
			"onProberLost decides. Deployment squall-probes is missing or does not run: kubectl -n squall-system describe deployment squall-probes"
	case errors.Is(err, temporal.ErrTaskFailing):
		return metav1.ConditionFalse, reasonTaskFailing, fmt.Sprintf("The workflow cannot proceed, %s; injectors clean up at their deadline. "+
			"See the worker's log and the workflow's page in Temporal. After an upgrade go back to the version before. "+
			"If you terminate the workflow, a new one starts and only cleans up.", err)
	case temporal.Unreachable(err):
		return metav1.ConditionFalse, condition.ReasonUnreachable, "Temporal cannot be reached. Nothing is lost: the disruption resumes when " +
			"Temporal is back. Injectors clean up at their deadline."
	case connect.LacksAttributes(err): // it names one of them, each time another
		return metav1.ConditionFalse, reasonRefused, "Temporal refuses: the namespace lacks search attributes of Squall; " + connect.Advice(err)
	default:
		message := fmt.Sprintf("Temporal refuses: %.500s", serviceerror.ToStatus(err).Message())
		if advice := connect.Advice(err); advice != "" {
			message += "; " + advice
		}
		return metav1.ConditionFalse, reasonRefused, message
	}
}
