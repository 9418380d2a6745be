package v1beta1

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NetworkDisruption disturbs the packets of a target. At least one of drop,
// duplicate, corrupt, delay and bandwidthLimit is needed. Without hosts,
// services and cloud it disturbs all traffic.
//
// +kubebuilder:validation:XValidation:rule="(has(self.drop) && self.drop != 0 && self.drop != '0' && self.drop != '0%') || (has(self.duplicate) && self.duplicate != 0 && self.duplicate != '0' && self.duplicate != '0%') || (has(self.corrupt) && self.corrupt != 0 && self.corrupt != '0' && self.corrupt != '0%') || (has(self.delay) && self.delay != 0) || (has(self.bandwidthLimit) && self.bandwidthLimit != 0)",message="nothing is asked for: set at least one of drop, duplicate, corrupt, delay and bandwidthLimit"
// +kubebuilder:validation:XValidation:rule="(has(self.hosts) ? self.hosts.size() : 0) + 2 * (has(self.services) ? self.services.size() : 0) <= 2048",message="too many filters: hosts count once and services twice, 2048 is the limit",messageExpression="'too many filters: hosts count once and services twice, 2048 is the limit and these are %d'.format([(has(self.hosts) ? self.hosts.size() : 0) + 2 * (has(self.services) ? self.services.size() : 0)])"
// +kubebuilder:validation:XValidation:rule="(has(self.hosts) ? self.hosts.size() : 0) + (has(self.allowedHosts) ? self.allowedHosts.size() : 0) <= 2048",message="hosts and allowedHosts are too many together, 2048 is the limit: use CIDRs",messageExpression="'hosts and allowedHosts are too many together, 2048 is the limit and these are %d: use CIDRs'.format([(has(self.hosts) ? self.hosts.size() : 0) + (has(self.allowedHosts) ? self.allowedHosts.size() : 0)])"
// +kubebuilder:validation:XValidation:rule="!has(self.http) || ((!has(self.delay) || self.delay == 0) && (!has(self.bandwidthLimit) || self.bandwidthLimit == 0))",message="http cannot be combined with delay or bandwidthLimit, which would act on other packets too: leave one of them out"
// +kubebuilder:validation:XValidation:rule="((!has(self.delay) || self.delay == 0) && (!has(self.bandwidthLimit) || self.bandwidthLimit == 0)) || ((!has(self.hosts) || self.hosts.all(h, !has(h.connState) || h.connState.size() == 0)) && (!has(self.allowedHosts) || self.allowedHosts.all(h, !has(h.connState) || h.connState.size() == 0)) && (!has(self.cloud) || ((!has(self.cloud.aws) || self.cloud.aws.all(h, !has(h.connState) || h.connState.size() == 0)) && (!has(self.cloud.gcp) || self.cloud.gcp.all(h, !has(h.connState) || h.connState.size() == 0)) && (!has(self.cloud.datadog) || self.cloud.datadog.all(h, !has(h.connState) || h.connState.size() == 0)))))",message="connState cannot be combined with delay or bandwidthLimit: leave connState out, or ask for them in two disruptions"
type NetworkDisruption struct {
	// Drop is the share of matching packets that is dropped, in percent, 0 to 100.
	// Default 0. Drop, corrupt and duplicate are independent and apply in this order:
	// corrupt and duplicate apply to packets that are not dropped.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 100)",message="want 0 to 100 percent",messageExpression="string(self) + ': want 0 to 100 percent'"
	Drop PercentNumber `json:"drop,omitempty"`
	// Duplicate is the share of matching packets that is sent twice, in
	// percent, 0 to 100. Default 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 100)",message="want 0 to 100 percent",messageExpression="string(self) + ': want 0 to 100 percent'"
	Duplicate PercentNumber `json:"duplicate,omitempty"`
	// Corrupt is the share of matching packets with a flipped bit and a wrong
	// checksum, in percent, 0 to 100. Default 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 100)",message="want 0 to 100 percent",messageExpression="string(self) + ': want 0 to 100 percent'"
	Corrupt PercentNumber `json:"corrupt,omitempty"`
	// Delay is what matching packets wait, in milliseconds, 0 to 60000, or as a
	// string such as "200ms". Default 0.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 60000 : duration(self) <= duration('60s')",message="want 0 to 60000 milliseconds",messageExpression="string(self) + ': want 0 to 60000 milliseconds'"
	Delay Milliseconds `json:"delay,omitempty"`
	// DelayJitter is the largest deviation from delay, in percent of delay, 0 to 100. It
	// is at least 1 ms. 0, the default, means 10. All deviations are equally
	// likely, so packets can overtake each other.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 100)",message="want 0 to 100 percent",messageExpression="string(self) + ': want 0 to 100 percent'"
	DelayJitter PercentNumber `json:"delayJitter,omitempty"`
	// BandwidthLimit is the rate of all matching packets of a direction
	// together, in bytes per second, 32 or more. 0, the default, means
	// unlimited.
	//
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 32",message="want 0 for unlimited, or at least 32 bytes per second",messageExpression="'%d: want 0 for unlimited, or at least 32 bytes per second'.format([self])"
	BandwidthLimit int64 `json:"bandwidthLimit,omitempty"`
	// Hosts narrows the disruption to these; empty means all traffic.
	//
	// +kubebuilder:validation:MaxItems=2048
	// +listType=atomic
	// +nullable
	Hosts []NetworkHost `json:"hosts,omitempty"`
	// AllowedHosts are never disrupted, also if hosts contains them.
	//
	// +kubebuilder:validation:MaxItems=2048
	// +listType=atomic
	// +nullable
	AllowedHosts []NetworkHost `json:"allowedHosts,omitempty"`
	// DisableDefaultAllowedHosts drops the operator-wide list of allowed
	// hosts. Default false.
	DisableDefaultAllowedHosts bool `json:"disableDefaultAllowedHosts,omitempty"`
	// Services narrows the disruption to traffic with these Kubernetes services.
	//
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +nullable
	Services []NetworkService `json:"services,omitempty"`
	// Cloud narrows the disruption to the published addresses of cloud services.
	//
	// +nullable
	Cloud *NetworkCloud `json:"cloud,omitempty"`
	// HTTP narrows the disruption to plain HTTP requests. Pod level only.
	//
	// +nullable
	HTTP *NetworkHTTP `json:"http,omitempty"`
}

// NeedsResolving is true for a disruption that names services or a cloud, whose addresses
// only the worker knows.
func (n *NetworkDisruption) NeedsResolving() bool {
	return n != nil && (len(n.Services) > 0 || n.Cloud != nil)
}

// NetworkHost matches traffic between the target and a remote host.
//
// +kubebuilder:validation:XValidation:rule="!has(self.flow) || self.flow.size() == 0 || (has(self.host) && self.host.size() > 0) || (has(self.port) && self.port != 0)",message="flow needs a host or a port to distinguish the directions: set host or port, or leave flow out",messageExpression="self.flow + ': flow needs a host or a port to distinguish the directions: set host or port, or leave flow out'"
type NetworkHost struct {
	// Host is a name, an IPv4 or IPv6 address, or a CIDR. Empty means every host.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || (self.contains('/') ? isCIDR(self) : (self.contains(':') || self.matches('^[0-9.]+$') ? isIP(self) : self.matches('^[-A-Za-z0-9_.]+$')))",message="want a name, an address or a CIDR such as 10.0.0.0/8",messageExpression="'\"' + self + '\" is no ' + (self.contains('/') ? 'CIDR: want an address and the length of its prefix, such as 10.0.0.0/8 or 2001:db8::/32' : (self.contains(':') || self.matches('^[0-9.]+$') ? 'address: want one such as 10.0.0.1 or 2001:db8::1' : 'name: want letters, digits, dots and -, such as db.example.com'))"
	Host string `json:"host,omitempty"`
	// Port is the remote port for egress and the local port for ingress, up to
	// 65535; 0 means any.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port,omitempty"`
	// Protocol is tcp or udp, in any case, or empty for every protocol.
	//
	// +kubebuilder:validation:Pattern=`^([Tt][Cc][Pp]|[Uu][Dd][Pp])?$`
	// +kubebuilder:validation:MaxLength=16
	Protocol string `json:"protocol,omitempty"`
	// Flow is egress (the default) or ingress.
	//
	// +kubebuilder:validation:Enum=egress;ingress;""
	Flow string `json:"flow,omitempty"`
	// ConnState is new, est (established) or empty for any connection. For TCP, a SYN
	// without ACK is new. For other protocols, a packet is new while the other side has
	// sent nothing since the disruption began.
	//
	// +kubebuilder:validation:Enum=new;est;""
	ConnState string `json:"connState,omitempty"`
	// DNSResolver is the resolver that looks host up: pod, node, pod-fallback-node or
	// node-fallback-pod. Empty means pod-fallback-node.
	//
	// +kubebuilder:validation:Enum=pod;node;pod-fallback-node;node-fallback-pod;""
	DNSResolver string `json:"dnsResolver,omitempty"`
	// Percentage is the share of the resolved addresses that is disrupted, 1 to 100,
	// rounded up. All targets have the same addresses. Nothing means 100.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100 : !self.startsWith('0')",message="want 1 to 100 percent",messageExpression="string(self) + ': want 1 to 100 percent'"
	// +nullable
	Percentage *PercentNumber `json:"percentage,omitempty"`
}

func (n *NetworkDisruption) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.Drop == 0 && n.Duplicate == 0 && n.Corrupt == 0 && n.Delay == 0 && n.BandwidthLimit == 0 {
		errs = append(errs, field.Required(path,
			"nothing is asked for: set at least one of drop, duplicate, corrupt, delay and bandwidthLimit"))
	}
	errs = append(errs, within(path.Child("drop"), int(n.Drop), 0, 100)...)
	errs = append(errs, within(path.Child("duplicate"), int(n.Duplicate), 0, 100)...)
	errs = append(errs, within(path.Child("corrupt"), int(n.Corrupt), 0, 100)...)
	errs = append(errs, within(path.Child("delay"), int(n.Delay), 0, 60000)...)
	errs = append(errs, within(path.Child("delayJitter"), int(n.DelayJitter), 0, 100)...)
	if n.BandwidthLimit != 0 && n.BandwidthLimit < 32 {
		errs = append(errs, field.Invalid(path.Child("bandwidthLimit"), n.BandwidthLimit,
			"want 0 for unlimited, or at least 32 bytes per second"))
	}
	if filters := len(n.Hosts) + 2*len(n.Services); filters > 2048 {
		errs = append(errs, field.Invalid(path, filters,
			"too many filters: hosts count once and services twice, 2048 is the limit"))
	}
	if listed := len(n.Hosts) + len(n.AllowedHosts); listed > 2048 {
		errs = append(errs, field.Invalid(path, listed, "hosts and allowedHosts are too many together, 2048 is the limit: use CIDRs"))
	}
	if n.Delay != 0 || n.BandwidthLimit != 0 {
		errs = append(errs, n.validateSlowed(path)...)
	}
	errs = append(errs, validateHosts(path.Child("hosts"), n.Hosts)...)
	errs = append(errs, validateHosts(path.Child("allowedHosts"), n.AllowedHosts)...)
	errs = append(errs, validateServices(path.Child("services"), n.Services)...)
	errs = append(errs, n.Cloud.validate(path.Child("cloud"))...)
	return append(errs, n.HTTP.validate(path.Child("http"))...)
}

// validateSlowed refuses http and connState beside delay and bandwidthLimit. The kernel
// does not distinguish requests or connections in the queue where packets wait.
func (n *NetworkDisruption) validateSlowed(path *field.Path) (errs field.ErrorList) {
	if n.HTTP != nil {
		errs = append(errs, field.Invalid(path, "http", "http cannot be combined with delay or bandwidthLimit, which would act on other packets too: leave one of them out"))
	}
	state := func(h NetworkHost) bool { return h.ConnState != "" }
	cloud := func(s NetworkCloudService) bool { return s.ConnState != "" }
	if slices.ContainsFunc(n.Hosts, state) || slices.ContainsFunc(n.AllowedHosts, state) ||
		n.Cloud != nil && slices.ContainsFunc(slices.Concat(n.Cloud.AWS, n.Cloud.GCP, n.Cloud.Datadog), cloud) {
		errs = append(errs, field.Invalid(path, "connState", "connState cannot be combined with delay or bandwidthLimit: leave connState out, or ask for them in two disruptions"))
	}
	return errs
}

var (
	digitsAndDots = regexp.MustCompile(`^[0-9.]+$`)
	hostName      = regexp.MustCompile(`^[-A-Za-z0-9_.]+$`)
)

// hostProblem is why host can be neither a name, nor an address, nor a CIDR. Like
// Kubernetes it refuses zones and IPv4 addresses in IPv6 notation.
func hostProblem(host string) string {
	refuse := func(good bool, want string) string {
		if good {
			return ""
		}
		return fmt.Sprintf("%q is no %s", host, want)
	}
	switch {
	case host == "":
		return ""
	case strings.Contains(host, "/"):
		prefix, err := netip.ParsePrefix(host)
		return refuse(err == nil && !prefix.Addr().Is4In6(),
			"CIDR: want an address and the length of its prefix, such as 10.0.0.0/8 or 2001:db8::/32")
	case strings.Contains(host, ":") || digitsAndDots.MatchString(host):
		return refuse(isIPv4(host) || isIPv6(host), "address: want one such as 10.0.0.1 or 2001:db8::1")
	}
	return refuse(hostName.MatchString(host), "name: want letters, digits, dots and -, such as db.example.com")
}

func validateHosts(path *field.Path, hosts []NetworkHost) field.ErrorList {
	errs := items(path, len(hosts), 0, 2048)
	for i, h := range hosts {
		at := path.Index(i)
		if h.Flow != "" && h.Host == "" && h.Port == 0 {
			errs = append(errs, field.Invalid(at.Child("flow"), h.Flow,
				"flow needs a host or a port to distinguish the directions: set host or port, or leave flow out"))
		}
		errs = append(errs, length(at.Child("host"), h.Host, 0, 253)...)
		if problem := hostProblem(h.Host); problem != "" {
			errs = append(errs, field.Invalid(at.Child("host"), h.Host, problem))
		}
		errs = append(errs, within(at.Child("port"), h.Port, 0, 65535)...)
		errs = append(errs, validateTraffic(at, h.Protocol, h.Flow, h.ConnState)...)
		errs = append(errs, oneOf(at.Child("dnsResolver"), h.DNSResolver,
			"", "pod", "node", "pod-fallback-node", "node-fallback-pod")...)
		if h.Percentage != nil {
			errs = append(errs, within(at.Child("percentage"), int(*h.Percentage), 1, 100)...)
		}
	}
	return errs
}
