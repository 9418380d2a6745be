// Package neverruns has a spec for each refusal of the injector that depends on the
// spec alone. Such a spec can never run, on no node. It promises that each spec names
// who refuses it first: admission, validate and plan refuse all of them.
package neverruns

import "strings"

// Spec can never run.
type Spec struct {
	Name string
	// Text is the spec of a Disruption, in YAML.
	Text string
	// Refused is part of the answer of the API server, squall validate and squall plan.
	Refused string
	// Injector is the text with which the injector refuses it, as its source has it.
	// Empty for a spec that the injector takes, and that nothing comes of.
	Injector string
}

// Manifest is a Disruption with the spec.
func (s Spec) Manifest(namespace string) string {
	return "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: never, namespace: " + namespace +
		"}\nspec:\n  count: 1\n  selector: {app: shop}\n  " + strings.ReplaceAll(strings.TrimSpace(s.Text), "\n", "\n  ") + "\n"
}

// Specs are all of them.
func Specs() []Spec {
	return append(append(networkSpecs(), dnsSpecs()...), otherSpecs()...)
}

func networkSpecs() []Spec {
	const (
		slowed  = "connState cannot be combined with delay and bandwidthLimit: leave out connState, or ask for them in two disruptions"
		http    = "http cannot be combined with delay or bandwidthLimit, which would disrupt other packets, too; leave one out"
		percent = "%s %d: want a share in percent, 0 to 100"
		byPod   = "dnsResolver pod: a node has no pod to resolve names; use node"
		rules   = "hosts, allowedHosts, services and cloud need %d rules; the limit is %d;" +
			" use CIDRs, fewer names with many addresses, or a percentage of a service"
		host = "host %q: want a name, an IPv4 or IPv6 address, a CIDR such as 10.0.0.0/8, or nothing for every host"
	)
	return []Spec{
		{"http with a delay", "network: {delay: 100, http: {methods: [GET]}}", "http cannot be combined with delay or bandwidthLimit", http},
		{"http with a limited bandwidth", "network: {bandwidthLimit: 1024, http: {}}", "http cannot be combined with delay or bandwidthLimit", http},
		{"http on a node", "level: node\nnetwork: {drop: 1, http: {}}", "network.http works at level pod only", ""},
		{"connections with a delay", "network: {delay: 100, hosts: [{host: db, connState: new}]}", "connState cannot be combined", slowed},
		{"connections of an allowed host with a limited bandwidth", "network: {bandwidthLimit: 1024, allowedHosts: [{host: db, connState: est}]}", "connState cannot be combined", slowed},
		{"connections of a cloud with a delay", "network: {delay: 100, cloud: {aws: [{service: S3, connState: new}]}}", "connState cannot be combined", slowed},
		{"a name that the pod of a node resolves", "level: node\nnetwork: {drop: 1, hosts: [{host: db, dnsResolver: pod}]}", "a node has no pod to resolve names", byPod},
		{"an allowed name that the pod of a node resolves", "level: node\nnetwork: {drop: 1, allowedHosts: [{host: db, dnsResolver: pod}]}", "a node has no pod to resolve names", byPod},
		{"an unknown resolver", "network: {drop: 1, hosts: [{host: db, dnsResolver: cloud}]}", "dnsResolver", "dnsResolver %q: want pod, node, pod-fallback-node or node-fallback-pod"},
		{"too many hosts", "network: {drop: 1, hosts: [" + many("{port: 1}", 1025) + "], allowedHosts: [" + many("{port: 1}", 1024) + "]}", "2048 is the limit", rules},
		{"a host that is no name", "network: {drop: 1, hosts: [{host: 'a b'}]}", "is no name", host},
		{"a port out of range", "network: {drop: 1, hosts: [{port: 65536}]}", "hosts[0].port", "port %d: want 1 to 65535, or 0 for any"},
		{"an unknown protocol", "network: {drop: 1, hosts: [{port: 1, protocol: icmp}]}", "hosts[0].protocol", "protocol %q: want tcp, udp, or nothing for both"},
		{"an unknown flow", "network: {drop: 1, hosts: [{port: 1, flow: both}]}", "hosts[0].flow", "flow %q: want egress or ingress"},
		{"an unknown state of connections", "network: {drop: 1, hosts: [{port: 1, connState: old}]}", "hosts[0].connState", "connState %q: want new, est, or nothing for both"},
		{"a share of addresses out of range", "network: {drop: 1, hosts: [{host: db, percentage: 101}]}", "hosts[0].percentage", "percentage %d: want a share in percent, 1 to 100"},
		{"a share of packets out of range", "network: {drop: 101}", "network.drop", percent},
	}
}

func dnsSpecs() []Spec {
	record := func(kind, value string) string {
		return "dns: {records: [{hostname: a.example, record: {type: " + kind + ", value: '" + value + "'}}]}"
	}
	named := func(hostname string) string {
		return "dns: {records: [{hostname: '" + hostname + "', record: {type: A, value: DROP}}]}"
	}
	const name, numbers = "%q is not a name", "%q is not \"%s host\""
	label := strings.Repeat("a", 63)
	long := strings.Join([]string{label, label, label, label}, ".")
	return []Spec{
		{"a record twice", "dns: {records: [{hostname: a, record: {type: A, value: DROP}}, {hostname: A., record: {type: A, value: DROP}}]}", "one record of each type", "record %s of %s is there twice; join the values with commas"},
		{"a record of another type", record("NS", "a"), "record.type", "want one of the types A, AAAA, CNAME, MX, TXT, SRV"},
		{"a hostname with an empty label", named("a..b"), "want a name such as www.example.com", name},
		{"a hostname with a long label", named("a" + label), "want a name such as www.example.com", name},
		{"a hostname of long characters", named(strings.Repeat("ä", 40)), "want a name such as www.example.com", name},
		{"a hostname that ends in an escape", named(`a\`), "want a name such as www.example.com", name},
		{"an A record of another address", record("A", "2001:db8::1"), "an A record is a list", "%q is not an IPv4 address"},
		{"an AAAA record of another address", record("AAAA", "192.0.2.1"), "an AAAA record is a list", "%q is not an IPv6 address"},
		{"a CNAME record with an empty label", record("CNAME", "a..b"), "a CNAME record is one name", name},
		{"a CNAME record that is too long", record("CNAME", long), "a CNAME record is one name", name},
		{"a CNAME record with a backslash", record("CNAME", `a\b`), "a CNAME record is one name", name},
		{"a CNAME record of long characters", record("CNAME", strings.Repeat("ä", 40)), "a CNAME record is one name", name},
		{"an MX record without a number", record("MX", "mail.example"), "an MX record is a list", numbers},
		{"an MX record with a large number", record("MX", "65536 mail.example"), "an MX record is a list", "%s %q: want a number from 0 to 65535"},
		{"an MX record with an empty label", record("MX", "10 a..b"), "an MX record is a list", name},
		{"an MX record that is too long", record("MX", "10 "+long), "an MX record is a list", name},
		{"an SRV record with a number too few", record("SRV", "1 2 a.example"), "an SRV record is a list", numbers},
		{"an SRV record with a large port", record("SRV", "1 2 70000 a.example"), "an SRV record is a list", "%s %q: want a number from 0 to 65535"},
		{"an SRV record with a long label", record("SRV", "1 2 3 a"+label), "an SRV record is a list", name},
	}
}

func otherSpecs() []Spec {
	const (
		absolute = "path %q: want an absolute path"
		least    = "throttling.%s is %d: want at least %d at level %s, below that a target stands still"
		toRoot   = "it leads to the node's root, which breaks the whole node: name a path below it"
		grpc     = "alterations of more than 100% of the calls: lower a queryPercent"
	)
	return []Spec{
		{"paths that are relative", "diskFailure: {paths: [data]}", "want an absolute path", absolute},
		{"no paths", "diskFailure: {paths: []}", "diskFailure.paths", "paths is empty: want at least one"},
		{"an error that no open gives", "diskFailure: {paths: [/a], openat: {exitCode: EPIPE}}", "exitCode", "openat.exitCode %q: want one of %s"},
		{"a path to the node's root", "level: node\ndiskFailure: {paths: [/tmp/..]}", `".." in a path could lead to the root of the node`, toRoot},
		{"a path through the node's root", "level: node\nunsafeMode: {allowRootDiskFailure: true}\ndiskFailure: {paths: [/a, ' /tmp/../']}", `".." in a path could lead to the root of the node`, toRoot},
		{"a relative path of a disk", "diskPressure: {path: data, throttling: {readIOPSPerSec: 100}}", "want an absolute path", absolute},
		{"a limit below 0", "diskPressure: {path: /data, throttling: {readIOPSPerSec: -1}}", "readIOPSPerSec", "throttling.%s is %d: want at least 1, or nothing for no limit"},
		{"few bytes to read", "diskPressure: {path: /data, throttling: {readBytesPerSec: 65535}}", "at least 65536 at level pod", least},
		{"few bytes to write", "diskPressure: {path: /data, throttling: {writeBytesPerSec: 1024}}", "at least 65536 at level pod", least},
		{"few reads", "diskPressure: {path: /data, throttling: {readIOPSPerSec: 9}}", "at least 10 at level pod", least},
		{"few writes", "diskPressure: {path: /data, throttling: {writeIOPSPerSec: 1}}", "at least 10 at level pod", least},
		{"few bytes for a node", "level: node\ndiskPressure: {path: /data, throttling: {readBytesPerSec: 1048575}}", "at least 1048576 bytes and 20 operations", least},
		{"few operations for a node", "level: node\ndiskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576, writeIOPSPerSec: 19}}", "at least 1048576 bytes and 20 operations", least},
		{"a load that is no number", "cpuPressure: {count: all}", "cpuPressure.count", "count %q: want a number of cores such as 2, or a percentage such as \"50%%\""},
		{"a load of more than all", "cpuPressure: {count: 101%}", "cpuPressure.count", "count %q: want 1%% to 100%%"},
		{"a load of nothing", "cpuPressure: {count: 0}", "cpuPressure.count", "count %q: want at least 1 core"},
		{"containers of a node", "level: node\ncontainerFailure: {}", "set level to pod", "container failure needs containers: it works at level pod only"},
		{"an endpoint without its service", "grpc: {port: 1, endpoints: [{endpoint: Place, error: OK}]}", `"Place": want /package.Service/Method`, ""},
		{"an endpoint without its method", "grpc: {port: 1, endpoints: [{endpoint: /shop.Orders/, error: OK}]}", `"/shop.Orders/": want /package.Service/Method`, ""},
		{"an endpoint without the first slash", "grpc: {port: 1, endpoints: [{endpoint: shop.Orders/Place, error: OK}]}", `"shop.Orders/Place": want /package.Service/Method`, ""},
		{"an alteration without an answer", "grpc: {port: 1, endpoints: [{endpoint: /a/b}]}", "set either error or override", "error %q, override %q: want either the name of a code or {}"},
		{"alterations of more than all calls", "grpc: {port: 1, endpoints: [{endpoint: /a/b, error: OK, queryPercent: 60}, {endpoint: /a/b, override: '{}', queryPercent: 41}]}", "lower a queryPercent", grpc},
		{"a pulse that begins at the end", "duration: 1m\nnetwork: {drop: 1}\npulse: {initialDelay: 60s, activeDuration: 1s, dormantDuration: 1s}", "pulse.initialDelay is not shorter than duration", ""},
		{"a pulse that begins after the default", "network: {drop: 1}\npulse: {initialDelay: 1h, activeDuration: 1s, dormantDuration: 1s}", "pulse.initialDelay is not shorter than duration", ""},
		{"an interval as long as the disruption", "duration: 1m\ncontainerFailure: {interval: 1m}", "nothing would be repeated", ""},
	}
}

// many are n of item, as a list in YAML.
func many(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
