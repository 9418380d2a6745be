package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationEnvironment names the environment that a Disruption, or an object that makes
// Disruptions, is meant for. Its creator writes it, and rules of policies read it.
const AnnotationEnvironment = "chaos.squall.dev/environment" // Disruption and objects that create it; written by you: the environment that policies check

// JudgedAnnotations are the annotations of an object that policies judge: its requester,
// and the environment it is meant for. Each run has those of its parent. Nil if there are
// none.
func JudgedAnnotations(o metav1.Object) map[string]string {
	judged := RequesterOf(o).Annotations()
	if environment := o.GetAnnotations()[AnnotationEnvironment]; environment != "" {
		if judged == nil {
			judged = map[string]string{}
		}
		judged[AnnotationEnvironment] = environment
	}
	return judged
}
