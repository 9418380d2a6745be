package podops

import (
	"crypto/x509"
	"fmt"

	"github.com/squall-chaos/squall/crdbridge/certificate"
)

// Settings are what an installation chooses.
type Settings struct {
	// Driver moves pods. The other settings need it.
	Driver bool `mapstructure:"pod-ops-driver"`
	// GracefulDelete refuses the deletion of a pod that has to wait.
	GracefulDelete     bool `mapstructure:"graceful-delete"`
	GracefulDeletePort int  `mapstructure:"graceful-delete-port"`
	// ReadinessGate gives pods that opted in the gate when they are created.
	ReadinessGate     bool `mapstructure:"readiness-gate"`
	ReadinessGatePort int  `mapstructure:"readiness-gate-port"`
}

// Check returns an error if the settings contradict each other.
func (s Settings) Check() error {
	switch {
	case s.Driver:
		return nil
	case s.GracefulDelete:
		return fmt.Errorf("setting graceful-delete is on, and pod-ops-driver, which deletes the pods in the end, is off: switch both on, or none")
	case s.ReadinessGate:
		return fmt.Errorf("setting readiness-gate is on, and pod-ops-driver, without which no pod with the gate becomes ready, is off: switch both on, or none")
	}
	return nil
}

// The name of each webhook is that of its Service, of the Secret with its certificate
// and of its configuration; the path is where it is served.
const (
	GracefulDelete     = "squall-graceful-delete"
	GracefulDeletePath = "/graceful-delete"
	ReadinessGate      = "squall-readiness-gate"
	ReadinessGatePath  = "/readiness-gate"
)

// Places are where the objects of each webhook are.
type Places struct {
	GracefulDelete, ReadinessGate certificate.Place
}

// InCluster are the places that the components graceful-delete and readiness-gate of deploy
// make. Clients are as in certificate.Place.
func InCluster(systemNamespace string, clients *x509.CertPool) Places {
	p := Places{certificate.InCluster(GracefulDelete, systemNamespace), certificate.InCluster(ReadinessGate, systemNamespace)}
	p.GracefulDelete.Validating = true
	p.GracefulDelete.Clients, p.ReadinessGate.Clients = clients, clients
	return p
}
