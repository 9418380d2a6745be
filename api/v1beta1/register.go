package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every resource in this package.
var GroupVersion = schema.GroupVersion{Group: "chaos.squall.dev", Version: "v1beta1"}

// AddToScheme makes the resources known to scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Disruption{}, &DisruptionList{}, &EmergencyStop{}, &EmergencyStopList{},
		&DisruptionCron{}, &DisruptionCronList{}, &DisruptionRollout{}, &DisruptionRolloutList{},
		&DisruptionScenario{}, &DisruptionScenarioList{}, &DisruptionPolicy{}, &DisruptionPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
