package v1beta1

// NetworkDisruption disturbs the packets of a target.
type NetworkDisruption struct {
	// Drop is the share of matching packets that is dropped, in percent, 0 to 100.
	Drop int `json:"drop,omitempty"`
	// Hosts narrows the disruption to these; empty means all traffic.
	Hosts []NetworkHost `json:"hosts,omitempty"`
	// AllowedHosts are never disturbed, whatever Hosts says.
	AllowedHosts []NetworkHost `json:"allowedHosts,omitempty"`
	// DisableDefaultAllowedHosts drops the operator-wide list of allowed hosts.
	DisableDefaultAllowedHosts bool `json:"disableDefaultAllowedHosts,omitempty"`
}

// NetworkHost matches traffic between the target and a remote host.
type NetworkHost struct {
	// Host is a name, an IPv4 or IPv6 address, or a CIDR. Empty means every host.
	Host string `json:"host,omitempty"`
	// Port is the remote port for egress and the local port for ingress; 0 means any.
	Port int `json:"port,omitempty"`
	// Protocol is tcp, udp or empty for both.
	Protocol string `json:"protocol,omitempty"`
	// Flow is egress (the default) or ingress.
	Flow string `json:"flow,omitempty"`
}
