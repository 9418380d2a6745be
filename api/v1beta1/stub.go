package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

func (d *Disruption) Default() {
	if d.Spec.Level == "" {
		d.Spec.Level = LevelPod
	}
}
func (d *Disruption) Validate() field.ErrorList { return nil }
