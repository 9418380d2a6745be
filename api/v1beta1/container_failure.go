package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// ContainerFailure ends the target's containers by a signal to their first
// process. Kubernetes restarts them as the pod's restartPolicy says; each
// restart is ended again. Pod level only, and no other kind beside it.
type ContainerFailure struct {
	// Forced sends SIGKILL; otherwise SIGTERM, which a process may ignore.
	// Default false.
	Forced bool `json:"forced,omitempty"`
}

func (*ContainerFailure) validate(*field.Path) field.ErrorList { return nil }
