package disruption

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// cleansOnly is true while a disruption that participates in operations is being cleaned
// up. Its workflow reads the chaos pods itself and waits only for the driver.
func cleansOnly(d *v1beta1.Disruption) bool {
	return d.Ending() && d.Status.Phase != v1beta1.PhaseStuck && d.Spec.ParticipatesInOperations()
}

// operationOn is the step that the operation of d on a pod has reached. Once d ends, a pod
// that returns to service is a change too.
func operationOn(d *v1beta1.Disruption, operation podops.Operation, pod *corev1.Pod) string {
	switch {
	case operation.On(pod):
		return string(operation.Next(pod)) + " " + operation.Awaits(pod)
	case d.Ending() && podops.Managed(pod):
		if available, err := podops.Available(pod); available && err == nil {
			return "available"
		}
	}
	return ""
}

func operationChanges(targets []target) []string {
	var changes []string
	for _, t := range targets {
		if t.operation != "" {
			changes = append(changes, "operation "+string(t.uid)+" "+t.operation)
		}
	}
	return changes
}

// takenTargets are disrupted targets whose operation label another party removed.
func takenTargets(pods []corev1.Pod, targets []target) []string {
	disrupted := map[types.UID]bool{}
	for i := range pods {
		disrupted[types.UID(pods[i].Labels[v1beta1.LabelTargetUID])] = true
	}
	var taken []string
	for _, t := range targets {
		if t.taken && disrupted[t.uid] {
			taken = append(taken, "taken "+string(t.uid))
		}
	}
	return taken
}
