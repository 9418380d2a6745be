package v1beta1

import "slices"

// neitherHostNorPort is what safe mode says of a network disruption of all traffic; the
// policy squall-safe-mode says the same.
const neitherHostNorPort = "network names neither host nor port, so all traffic is disrupted: set hosts, services or cloud, " +
	"or unsafeMode.disableNeitherHostNorPort, which needs a right"

// CaughtBySafeMode says what safe mode has against the disruption, as far as its spec
// tells; nil if it has nothing, or unsafeMode sets it aside.
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

// namesNeitherHostNorPort tells whether it disturbs all traffic, by naming nothing or
// by a host that is everybody.
func (n *NetworkDisruption) namesNeitherHostNorPort() bool {
	if len(n.Hosts) == 0 {
		return len(n.Services) == 0 && n.Cloud == nil
	}
	return slices.ContainsFunc(n.Hosts, func(h NetworkHost) bool { return h.Host == "" && h.Port == 0 })
}
