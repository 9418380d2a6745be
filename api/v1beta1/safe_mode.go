package v1beta1

import "slices"

// neitherHostNorPort is safe mode's error about a network disruption of all traffic; the
// policy squall-safe-mode has the same text.
const neitherHostNorPort = "network names neither host nor port, so all traffic is disrupted: set hosts, services or cloud, " +
	"or unsafeMode.disableNeitherHostNorPort, which needs a right"

// CaughtBySafeMode lists the objections of safe mode that follow from the spec; nil if
// there are none, or unsafeMode sets them aside.
func (s *DisruptionSpec) CaughtBySafeMode() []string {
	unsafe := UnsafeMode{}
	if s.UnsafeMode != nil {
		unsafe = *s.UnsafeMode
	}
	if unsafe.DisableAll || unsafe.DisableNeitherHostNorPort || s.Network == nil || !s.Network.namesNeitherHostNorPort() {
		return nil
	}
	return []string{neitherHostNorPort}
}

// namesNeitherHostNorPort is true for a disruption of all traffic: it names nothing, or a
// host that is every host.
func (n *NetworkDisruption) namesNeitherHostNorPort() bool {
	if len(n.Hosts) == 0 {
		return len(n.Services) == 0 && n.Cloud == nil
	}
	return slices.ContainsFunc(n.Hosts, func(h NetworkHost) bool { return h.Host == "" && h.Port == 0 })
}
