package disruption

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// cleansOnly is true while a disruption that participates in operations is being
// cleaned: its workflow reads the chaos pods itself, and waits for nothing but the
// driver.
func cleansOnly(d *v1beta1.Disruption) bool {
	return d.Ending() && d.Status.Phase != v1beta1.PhaseStuck && d.Spec.ParticipatesInOperations()
}

// operationOn says how far the operation of d on a pod has come. Once d ends, that a pod is in
// service is news too.
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

func operationNews(targets []target) []string {
	var news []string
	for _, t := range targets {
		if t.operation != "" {
			news = append(news, "operation "+string(t.uid)+" "+t.operation)
		}
	}
	return news
}

// takenTargets are those that are disrupted and were taken back from the disruption,
// by whoever took off a label of its operation.
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
