package v1beta1

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProbePhase is the part of a disruption in which a probe asks.
type ProbePhase string

const (
	// ProbeBefore asks before anything is injected: nothing is, until it succeeds.
	ProbeBefore ProbePhase = "Before"
	// ProbeDuring asks from right before the first chaos pod to the cleaning.
	ProbeDuring ProbePhase = "During"
	// ProbeAfter asks, once all is clean, whether the steady state is back.
	ProbeAfter ProbePhase = "After"
)

// ProbeScope is where a probe asks.
type ProbeScope string

const (
	// ProbeOnce asks one place, whatever the targets are.
	ProbeOnce ProbeScope = "Once"
	// ProbePerTarget asks each target pod.
	ProbePerTarget ProbeScope = "PerTarget"
)

// ProbeOnFailure is what follows from a failure threshold reached in During.
type ProbeOnFailure string

const (
	// ProbeAbort ends the disruption.
	ProbeAbort ProbeOnFailure = "Abort"
	// ProbeRecord lets it go on, and makes its verdict Failed.
	ProbeRecord ProbeOnFailure = "Record"
)

// Probe asks again and again whether what it names is in its steady state. Its
// fields mean what those of a container's probe mean, with the same defaults.
//
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec), has(self.podsReady), has(self.prometheus)].filter(h, h).size() == 1",message="want exactly one of httpGet, tcpSocket, grpc, exec, podsReady, prometheus"
// +kubebuilder:validation:XValidation:rule="!has(self.exec) || (has(self.scope) && self.scope == 'PerTarget')",message="a command runs in a target: use scope PerTarget",fieldPath=".exec"
// +kubebuilder:validation:XValidation:rule="!has(self.podsReady) || !(has(self.scope) && self.scope == 'PerTarget')",message="it asks about no single target: use scope Once",fieldPath=".podsReady"
// +kubebuilder:validation:XValidation:rule="!has(self.prometheus) || !(has(self.scope) && self.scope == 'PerTarget')",message="it asks about no single target: use scope Once",fieldPath=".prometheus"
// +kubebuilder:validation:XValidation:rule="!has(self.prometheus) || !has(self.periodSeconds) || self.periodSeconds == 0 || self.periodSeconds >= 10",message="a prometheus probe asks at most once in 10 s: set 10 or more",fieldPath=".periodSeconds"
// +kubebuilder:validation:XValidation:rule="!(has(self.scope) && self.scope == 'PerTarget') || [has(self.httpGet) && has(self.httpGet.host) ? self.httpGet.host : \"\", has(self.tcpSocket) && has(self.tcpSocket.host) ? self.tcpSocket.host : \"\", has(self.grpc) && has(self.grpc.host) ? self.grpc.host : \"\"].all(h, h == \"\")",message="with scope PerTarget the host is each target: remove it, or use scope Once",fieldPath=".scope"
// +kubebuilder:validation:XValidation:rule="(has(self.scope) && self.scope == 'PerTarget') || !(has(self.httpGet) || has(self.tcpSocket) || has(self.grpc)) || [has(self.httpGet) && has(self.httpGet.host) ? self.httpGet.host : \"\", has(self.tcpSocket) && has(self.tcpSocket.host) ? self.tcpSocket.host : \"\", has(self.grpc) && has(self.grpc.host) ? self.grpc.host : \"\"].exists(h, h != \"\")",message="scope Once needs a host: set host to a Service such as checkout.shop.svc, or use scope PerTarget"
// +kubebuilder:validation:XValidation:rule="(has(self.scope) && self.scope == 'PerTarget') || ((!has(self.httpGet) || type(self.httpGet.port) == int) && (!has(self.tcpSocket) || type(self.tcpSocket.port) == int))",message="with scope Once there is no container that could have a port of this name: want a number"
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet) && has(self.httpGet.host) ? self.httpGet.host : \"\", has(self.tcpSocket) && has(self.tcpSocket.host) ? self.tcpSocket.host : \"\", has(self.grpc) && has(self.grpc.host) ? self.grpc.host : \"\"].all(h, (!isIP(h) || ip(h).isGlobalUnicast()) && !h.lowerAscii().matches('^localhost[.]?$'))",message="the host is the worker itself, or an address of many: no probe may ask there"
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet) && has(self.httpGet.host) ? self.httpGet.host : \"\", has(self.tcpSocket) && has(self.tcpSocket.host) ? self.tcpSocket.host : \"\", has(self.grpc) && has(self.grpc.host) ? self.grpc.host : \"\"].all(h, h == \"\" || isIP(h) || h.lowerAscii().matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*[.]?$'))",message="host: want a name or an address, without scheme and port"
// +kubebuilder:validation:XValidation:rule="!has(self.budget) || !has(self.phases) || self.phases.size() == 0 || 'During' in self.phases",message="it is for phase During, in which this probe does not ask: remove it, or add the phase",fieldPath=".budget"
// +kubebuilder:validation:XValidation:rule="!has(self.budget) || (type(self.budget.window) == int ? self.budget.window >= 10000000000 * (has(self.periodSeconds) && self.periodSeconds != 0 ? self.periodSeconds : 10) && self.budget.window <= 86400000000000 : (self.budget.window != \"\" && (!self.budget.window.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || (duration(self.budget.window).getSeconds() >= 10 * (has(self.periodSeconds) && self.periodSeconds != 0 ? self.periodSeconds : 10) && duration(self.budget.window) <= duration('24h')))))",message="want at most 24h, and at least ten periods",fieldPath=".budget.window"
type Probe struct {
	// Name identifies the probe: lower case letters, digits and -, at most 63.
	// Required.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Phases in which it asks: Before, During, After. Empty means all.
	//
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Before;During;After
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q == p))",message="a phase is named twice",messageExpression="'Duplicate value: %s is named twice'.format([self.filter(p, !self.exists_one(q, q == p))[0]])"
	// +listType=atomic
	Phases []ProbePhase `json:"phases,omitempty"`
	// Scope is Once or PerTarget. Empty means Once.
	//
	// +kubebuilder:validation:Enum=Once;PerTarget;""
	Scope ProbeScope `json:"scope,omitempty"`
	// OnFailure is the reaction in phase During: Abort ends the disruption, Record
	// continues it. Empty means Abort.
	//
	// +kubebuilder:validation:Enum=Abort;Record;""
	OnFailure ProbeOnFailure `json:"onFailure,omitempty"`
	// InitialDelaySeconds is the time before the first question, 0 to 3600: with
	// scope PerTarget since the container started, otherwise since the phase
	// began. Default 0.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// PeriodSeconds is the time from one question to the next, up to 3600, and at
	// least 10 with prometheus. 0 means 10.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// TimeoutSeconds is how long an answer may take, up to 3600. 0 means 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// SuccessThreshold is how many successes in a row make a success, up to 3600.
	// 0 means 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	// FailureThreshold is how many failures in a row make a failure, up to 3600.
	// 0 means 3.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
	// Budget is a share of answers that may fail in During, besides the
	// threshold. Absent means that only the threshold counts.
	Budget *ProbeBudget `json:"budget,omitempty"`

	ProbeHandler `json:",inline"`
}

// ProbeHandler is how a probe asks. Exactly one is set.
type ProbeHandler struct {
	HTTPGet    *HTTPGetProbe    `json:"httpGet,omitempty"`
	TCPSocket  *TCPSocketProbe  `json:"tcpSocket,omitempty"`
	GRPC       *GRPCProbe       `json:"grpc,omitempty"`
	Exec       *ExecProbe       `json:"exec,omitempty"`
	PodsReady  *PodsReadyProbe  `json:"podsReady,omitempty"`
	Prometheus *PrometheusProbe `json:"prometheus,omitempty"`
}

// ProbeBudget is how many of the answers of a sliding window may be failures.
type ProbeBudget struct {
	// Percent of the answers, from 1 to 99. Required.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 99 : !self.startsWith('0') && !self.startsWith('100')",message="want 1 to 99 percent",messageExpression="string(self) + ': want 1 to 99 percent'"
	Percent PercentNumber `json:"percent"`
	// Window is the time that the budget covers, at most 24h and at least ten periods.
	// The budget applies after the first full window. Required.
	Window Duration `json:"window"`
}

// HTTPGetProbe succeeds on a status from 200 to 399.
type HTTPGetProbe struct {
	// Scheme is HTTP or HTTPS; certificates are not verified. Empty means HTTP.
	//
	// +kubebuilder:validation:Enum=HTTP;HTTPS;""
	Scheme string `json:"scheme,omitempty"`
	// Host is a name or an address. Required with scope Once; with PerTarget it
	// is the target's address and has to be left out.
	//
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// Port is a number, or with scope PerTarget the name of a container's port.
	// Required.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) != int || (self >= 1 && self <= 65535)",message="want 1 to 65535",messageExpression="string(self) + ': want 1 to 65535'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int || (self.size() <= 15 && self.matches('^[a-z0-9]+(-[a-z0-9]+)*$') && self.matches('[a-z]'))",message="want a number, or the name of a container's port",messageExpression="string(self) + ': want a number, or the name of a container port'"
	Port intstr.IntOrString `json:"port"`
	// Path with its query. Empty means /.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^([^\x00-\x1f\x7f%]|%[0-9A-Fa-f]{2})*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('//') && !self.matches('^[^/?#]*:')",message="want a path such as /healthz?deep=1; the server goes into host and port",messageExpression="self + ': want a path such as /healthz?deep=1; the server goes into host and port'"
	Path string `json:"path,omitempty"`
	// HTTPHeaders are sent as they are; Host, User-Agent and Accept replace those
	// that are sent otherwise. At most 32.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	HTTPHeaders []HTTPHeader `json:"httpHeaders,omitempty"`
}

// HTTPHeader is one line of a request.
type HTTPHeader struct {
	// Name such as Host. Required.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9]+$`
	Name string `json:"name"`
	// Value in one line, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('[\\x00-\\x08\\x0a-\\x1f\\x7f]')",message="want one line without control characters",messageExpression="'%d characters: want one line without control characters'.format([self.size()])"
	Value string `json:"value"`
}

// TCPSocketProbe succeeds when a connection is made; nothing is sent.
type TCPSocketProbe struct {
	// Host as of HTTPGetProbe.
	//
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// Port as of HTTPGetProbe.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) != int || (self >= 1 && self <= 65535)",message="want 1 to 65535",messageExpression="string(self) + ': want 1 to 65535'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int || (self.size() <= 15 && self.matches('^[a-z0-9]+(-[a-z0-9]+)*$') && self.matches('[a-z]'))",message="want a number, or the name of a container's port",messageExpression="string(self) + ': want a number, or the name of a container port'"
	Port intstr.IntOrString `json:"port"`
}

// GRPCProbe succeeds when the server's health service returns SERVING.
type GRPCProbe struct {
	// Host as of HTTPGetProbe.
	//
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// Port from 1 to 65535. Required.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Service that the health service is asked for. Empty means the server.
	//
	// +kubebuilder:validation:MaxLength=1024
	Service string `json:"service,omitempty"`
}

// ExecProbe succeeds when a command in the target's container exits with 0. Its
// output is thrown away. Scope PerTarget only.
type ExecProbe struct {
	// Command is run without a shell. $(NAME) is replaced by a variable of the
	// container that has its value in the pod's spec; $$(NAME) is not. Required.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="want a program and its arguments",messageExpression="'%d words and no program: want a program and its arguments'.format([self.size()])"
	// +listType=atomic
	Command []string `json:"command"`
}

// PodsReadyProbe succeeds when enough pods of the disruption's namespace are
// ready. Pods that ended or are being deleted do not count. Scope Once only.
type PodsReadyProbe struct {
	// Selector is the labels of the pods. Required.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Selector map[string]string `json:"selector"`
	// Min is how many have to be ready: a number, or a share of those there are
	// in percent, rounded up. Empty means 100%. No pods are never enough.
	//
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('^0*([1-9][0-9]{0,8}|([1-9][0-9]?|100)%)$')`,message="want a number of 1 or more, or 1% to 100%",messageExpression=`string(self) + ': want a number of 1 or more, or 1% to 100%'`
	Min *intstr.IntOrString `json:"min,omitempty"`
}

// PrometheusProbe succeeds when the value of a query compares as it should. The
// server is a setting of the operator. Scope Once only.
type PrometheusProbe struct {
	// Query in PromQL, with a single value. Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Query string `json:"query"`
	// Comparison is <, <=, >, >=, == or != and a number, such as "< 0.05".
	// Required.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ \\t]*(<=|>=|==|!=|<|>)[ \\t]*[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?[ \\t]*$')",message="want <, <=, >, >=, == or != and a number, such as \"< 0.05\"",messageExpression="self + ': want <, <=, >, >=, == or != and a number, such as < 0.05'"
	Comparison string `json:"comparison"`
}

// WithDefaults is the probe with every field filled in that may be left out.
func (p Probe) WithDefaults() Probe {
	if len(p.Phases) == 0 {
		p.Phases = []ProbePhase{ProbeBefore, ProbeDuring, ProbeAfter}
	}
	if p.Scope == "" {
		p.Scope = ProbeOnce
	}
	if p.OnFailure == "" {
		p.OnFailure = ProbeAbort
	}
	for _, d := range []struct {
		value  *int32
		absent int32
	}{{&p.PeriodSeconds, 10}, {&p.TimeoutSeconds, 1}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *d.value == 0 {
			*d.value = d.absent
		}
	}
	return p
}

// Period is the time from one question to the next.
func (p Probe) Period() time.Duration { return time.Duration(p.PeriodSeconds) * time.Second }

// Timeout is how long an answer may take.
func (p Probe) Timeout() time.Duration { return time.Duration(p.TimeoutSeconds) * time.Second }

// Enough is how many of so many pods have to be ready. It is -1 for a Min that
// ValidateProbes refuses.
func (p PodsReadyProbe) Enough(pods int) int {
	if p.Min == nil {
		return max(pods, 1)
	}
	amount, percent, err := parseAmount(*p.Min)
	if err != nil {
		return -1
	}
	if percent {
		return max((pods*amount+99)/100, 1)
	}
	return amount
}

// NeverProbed is why no probe may ask an address; empty if probes may.
func NeverProbed(address netip.Addr) string {
	address = inner(address)
	switch {
	case slices.Contains(metadata, address):
		return "it is where a cloud keeps its metadata"
	case !address.IsValid() || address.IsUnspecified():
		return "it is not the address of a host"
	case address.IsLoopback():
		return "it is a loopback address, which is the worker itself"
	case address.IsLinkLocalUnicast():
		return "it is a link-local address, where clouds keep their metadata"
	case address.IsMulticast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "it is an address of many"
	}
	return ""
}

// metadata are addresses of clouds' metadata that are not link-local: of AWS by IPv6,
// Alibaba Cloud and Azure.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}

// nat64 leads to the IPv4 address in its last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ipv4Compatible are the addresses ::a.b.c.d (RFC 4291, deprecated).
var ipv4Compatible = netip.MustParsePrefix("::/96")

// inner is the IPv4 address that an IPv6 one stands for, or the address itself.
func inner(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	bytes := address.As16()
	switch within := netip.AddrFrom4([4]byte(bytes[12:])); {
	case !address.Is6():
	case nat64.Contains(address):
		return within
	case ipv4Compatible.Contains(address) && !address.IsLoopback() && !address.IsUnspecified():
		return within
	}
	return address
}
