// Package objects makes the objects of tests. It promises that each is valid, and that a
// test which needs another value sets it itself.
package objects

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Disruption disrupts count of the pods labelled app=web, by pressure on the processor,
// for an hour.
func Disruption(namespace, name string, count intstr.IntOrString) *v1beta1.Disruption {
	return &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.DisruptionSpec{
			Count: &count, Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"},
			Duration: &v1beta1.Duration{Duration: time.Hour},
			Faults:   v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}},
		},
	}
}
