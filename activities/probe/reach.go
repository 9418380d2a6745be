package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// DeniedError reports an address that must not be asked.
type DeniedError struct {
	Host    string
	Address netip.Addr
	Why     string
}

func (d *DeniedError) Error() string {
	if d.Host == d.Address.String() {
		return fmt.Sprintf("%s must not be asked: %s", d.Host, d.Why)
	}
	return fmt.Sprintf("%s (%s) must not be asked: %s", d.Host, d.Address, d.Why)
}

// Reach defines which addresses the probes of a disruption may ask. The worker can
// reach addresses that the namespaces' users cannot, and must not become their proxy.
type Reach struct {
	// Hosts that the operator lists: names, addresses, and ranges such as 10.1.0.0/16.
	Hosts []string
	// APIServer is the API server's addresses, which are never asked.
	APIServer []netip.Addr
	// Belongs returns why an address is not one of the disruption's namespace; empty if it
	// is.
	Belongs func(netip.Addr) string
}

// Allow is for Prober.Allow. A target is asked only at its own address. With scope
// Once, pods and Services of the namespace are allowed, and hosts that the operator
// lists. Some addresses are never asked, even if the operator lists them.
func (r Reach) Allow(host string, address netip.Addr, target *Target) error {
	address = address.Unmap()
	denied := func(why string) error { return &DeniedError{host, address, why} }
	if why := v1beta1.NeverProbed(address); why != "" {
		return denied(why)
	}
	if slices.Contains(r.APIServer, address.WithZone("")) {
		return denied("it is the API server's address")
	}
	if target != nil {
		if target.Pod.Spec.HostNetwork {
			return denied("the target shares the network of its node, whose ports may be others'")
		}
		if slices.ContainsFunc(target.Pod.Status.PodIPs, func(ip corev1.PodIP) bool { return sameAddress(ip.IP, address) }) || sameAddress(target.Pod.Status.PodIP, address) {
			return nil
		}
		return denied("it is not the target's address")
	}
	if r.lists(host, address) {
		return nil
	}
	if r.Belongs == nil {
		return denied("the operator does not list it")
	}
	if why := r.Belongs(address); why != "" {
		return denied(why + ", and the operator does not list it")
	}
	return nil
}

func (r Reach) lists(host string, address netip.Addr) bool {
	name := strings.TrimSuffix(host, ".")
	return slices.ContainsFunc(r.Hosts, func(listed string) bool {
		if prefix, err := netip.ParsePrefix(listed); err == nil {
			return prefix.Contains(address)
		}
		return strings.EqualFold(strings.TrimSuffix(listed, "."), name) || sameAddress(listed, address)
	})
}

func sameAddress(text string, address netip.Addr) bool {
	parsed, err := netip.ParseAddr(text)
	return err == nil && parsed.Unmap() == address
}
