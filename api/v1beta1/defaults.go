package v1beta1

// Default fills in what the CRD's schema fills in when an object is created,
// and nothing else. Calling it again changes nothing.
func (d *Disruption) Default() { d.Spec.setDefaults() }

func (s *DisruptionSpec) setDefaults() {
	if s.Level == "" {
		s.Level = LevelPod
	}
	if s.Duration == nil {
		s.Duration = &Duration{Duration: DefaultDuration}
	}
	if s.PodReplacement != nil && s.PodReplacement.DeleteStorage == nil {
		yes := true
		s.PodReplacement.DeleteStorage = &yes
	}
}
