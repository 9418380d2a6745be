package crdtest

import "strings"

const on = "count: 1\nselector: {app: shop}\n"

func kind(text string) string { return on + text }

// a drop that is valid by itself, with more below network
func network(more string) string { return on + "network: {drop: 10, " + more + "}" }

// guarded is a disruption with one probe, whose other fields are given.
func guarded(probe string) string {
	return on + "cpuPressure: {}\nsteadyState: {probes: [{name: a, " + probe + "}]}"
}

const asksOnce = "tcpSocket: {host: db.shop.svc, port: 80}"

var manifests = []manifest{
	// Probes.
	{"steady state with everything", on + `cpuPressure: {}
steadyState:
  gateTimeoutSeconds: 30
  recoveryTimeoutSeconds: 600
  onProberLost: Record
  controlGroup: 10%
  probes:
  - {name: http, phases: [Before, During], scope: Once, onFailure: Record, initialDelaySeconds: 1, periodSeconds: 2, timeoutSeconds: 3, successThreshold: 4, failureThreshold: 5, budget: {percent: 10, window: 20s}, httpGet: {scheme: HTTPS, host: 'a.b.svc.', port: 80, path: '/healthz?deep=1', httpHeaders: [{name: Host, value: "a\tb"}]}}
  - {name: tcp, scope: PerTarget, tcpSocket: {port: web-1}}
  - {name: grpc, grpc: {host: 10.0.0.1, port: 80, service: shop.Cart}}
  - {name: exec, scope: PerTarget, exec: {command: [cat, /tmp/ready]}}
  - {name: ready, podsReady: {selector: {app: shop}, min: 80%}}
  - {name: ready-all, podsReady: {selector: {app: shop}}}
  - {name: value, prometheus: {query: up, comparison: '>= 1.5e3'}}`, ""},
	{"steady state null", kind("cpuPressure: {}\nsteadyState: null"), ""},
	{"steady state without probes", kind("cpuPressure: {}\nsteadyState: {probes: []}"), "spec.steadyState.probes"},
	{"steady state, gate too long", kind("cpuPressure: {}\nsteadyState: {gateTimeoutSeconds: 86401, probes: [{name: a, " + asksOnce + "}]}"), "gateTimeoutSeconds"},
	{"steady state, recovery below 0", kind("cpuPressure: {}\nsteadyState: {recoveryTimeoutSeconds: -1, probes: [{name: a, " + asksOnce + "}]}"), "recoveryTimeoutSeconds"},
	{"steady state, prober lost", kind("cpuPressure: {}\nsteadyState: {onProberLost: Panic, probes: [{name: a, " + asksOnce + "}]}"), "onProberLost"},
	{"control group, a number", kind("cpuPressure: {}\nsteadyState: {controlGroup: 3, probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]}"), ""},
	{"control group of none", kind("cpuPressure: {}\nsteadyState: {controlGroup: 0, probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]}"), "spec.steadyState.controlGroup"},
	{"control group of all", kind("cpuPressure: {}\nsteadyState: {controlGroup: 100%, probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]}"), "1%"},
	{"control group of a word", kind("cpuPressure: {}\nsteadyState: {controlGroup: some, probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]}"), "spec.steadyState.controlGroup"},
	{"control group that nobody asks", kind("cpuPressure: {}\nsteadyState: {controlGroup: 1, probes: [{name: a, " + asksOnce + "}]}"), "a control group is asked by probes with scope PerTarget"},
	{"control group of pods that wait", kind("network: {drop: 10}\nonInit: true\nsteadyState: {controlGroup: 1, probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]}"), "with onInit pods wait until they are disturbed"},
	{"probes of one name", kind("cpuPressure: {}\nsteadyState: {probes: [{name: a, " + asksOnce + "}, {name: a, " + asksOnce + "}]}"), "another probe has this name"},
	{"probe of a bad name", kind("cpuPressure: {}\nsteadyState: {probes: [{name: A, " + asksOnce + "}]}"), "probes[0].name"},
	{"probe with a phase twice", guarded("phases: [During, During], " + asksOnce), "Duplicate value"},
	{"probe with another phase", guarded("phases: [Always], " + asksOnce), "phases[0]"},
	{"probe of another scope", guarded("scope: All, " + asksOnce), "scope"},
	{"probe with another policy", guarded("onFailure: Ignore, " + asksOnce), "onFailure"},
	{"probe too seldom", guarded("periodSeconds: 3601, " + asksOnce), "periodSeconds"},
	{"probe without a handler", guarded("periodSeconds: 1"), "want exactly one of httpGet"},
	{"probe with two handlers", guarded(asksOnce + ", grpc: {host: a, port: 1}"), "want exactly one of httpGet"},
	{"probe without a host", guarded("tcpSocket: {port: 80}"), "with scope Once nothing else says whom to ask"},
	{"probe of targets with a host", guarded("scope: PerTarget, " + asksOnce), "with scope PerTarget the host is each target"},
	{"probe of this machine", guarded("tcpSocket: {host: 127.0.0.1, port: 80}"), "no probe may ask there"},
	{"probe of this machine by name", guarded("grpc: {host: LocalHost., port: 80}"), "no probe may ask there"},
	{"probe of a cloud's metadata", guarded("httpGet: {host: 169.254.169.254, port: 80}"), "no probe may ask there"},
	{"probe of many", guarded("httpGet: {host: 'ff02::1', port: 80}"), "no probe may ask there"},
	{"probe of a URL", guarded("httpGet: {host: 'http://a', port: 80}"), "want a name or an address, without scheme and port"},
	{"probe of a named port, once", guarded("tcpSocket: {host: a, port: web}"), "with scope Once there is no container"},
	{"probe of a port that cannot be", guarded("tcpSocket: {host: a, port: 65536}"), "want 1 to 65535"},
	{"probe of a port of a bad name", guarded("scope: PerTarget, tcpSocket: {port: Web}"), "want a number, or the name of a container"},
	{"probe by another scheme", guarded("httpGet: {host: a, port: 80, scheme: FTP}"), "scheme"},
	{"probe with a URL as path", guarded("httpGet: {host: a, port: 80, path: 'http://a/b'}"), "want a path such as"},
	{"probe with two lines as path", guarded(`httpGet: {host: a, port: 80, path: "/a\nb"}`), "httpGet.path"},
	{"probe with a path that is badly escaped", guarded("httpGet: {host: a, port: 80, path: '/%zz'}"), "httpGet.path"},
	{"probe with a colon in its path", guarded("httpGet: {host: a, port: 80, path: '1a:b'}"), "httpGet.path"},
	{"probe with an escaped path", guarded("httpGet: {host: a, port: 80, path: '/a%20b?c=d:e'}"), ""},
	{"probe with a bad header", guarded("httpGet: {host: a, port: 80, httpHeaders: [{name: 'a b', value: c}]}"), "httpHeaders[0].name"},
	{"probe with two lines in a header", guarded(`httpGet: {host: a, port: 80, httpHeaders: [{name: a, value: "b\nc"}]}`), "want one line without control characters"},
	{"probe by a command, once", guarded("exec: {command: [a]}"), "a command runs in a target"},
	{"probe by no command", guarded("scope: PerTarget, exec: {command: ['']}"), "want a program and its arguments"},
	{"probe of ready pods of each target", guarded("scope: PerTarget, podsReady: {selector: {a: b}}"), "use scope Once"},
	{"probe of ready pods of any kind", guarded("podsReady: {selector: {}}"), "selector"},
	{"probe of ready pods by a bad label", guarded("podsReady: {selector: {a: 'b c'}}"), "selector"},
	{"probe of too few ready pods", guarded("podsReady: {selector: {a: b}, min: 0%}"), "want a number of 1 or more, or 1% to 100%"},
	{"probe of a value of each target", guarded("scope: PerTarget, prometheus: {query: up, comparison: '> 0'}"), "use scope Once"},
	{"probe of a value each 9 s", guarded("periodSeconds: 9, prometheus: {query: up, comparison: '> 0'}"), "a prometheus probe asks at most once in 10 s"},
	{"probe of a value each 10 s", guarded("periodSeconds: 10, prometheus: {query: up, comparison: '> 0'}"), ""},
	{"probe of a value without a query", guarded("prometheus: {query: '', comparison: '> 0'}"), "query"},
	{"probe of a value without a comparison", guarded("prometheus: {query: up, comparison: '0'}"), "want <, <=, >, >=, == or != and a number"},
	{"probe of a node", kind("level: node\ncpuPressure: {}\nsteadyState: {probes: [{name: a, scope: PerTarget, tcpSocket: {port: 80}}]}"), "nodes cannot be probed"},
	{"probe beside nodes", kind("level: node\ncpuPressure: {}\nsteadyState: {probes: [{name: a, " + asksOnce + "}]}"), ""},
	{"budget of all", guarded("budget: {percent: 100, window: 10m}, " + asksOnce), "percent"},
	{"budget of a short window", guarded("budget: {percent: 10, window: 99s}, " + asksOnce), "want at most 24h, and at least ten periods"},
	{"budget of a long window", guarded("budget: {percent: 10, window: 25h}, " + asksOnce), "want at most 24h, and at least ten periods"},
	{"budget of nanoseconds", guarded("budget: {percent: 10, window: 100000000000}, " + asksOnce), ""},
	{"budget outside During", guarded("phases: [After], budget: {percent: 10, window: 10m}, " + asksOnce), "it is for phase During"},
	// One disruption of each supported kind, as its users write them.
	{"container failure, graceful", kind("containerFailure: {}"), ""},
	{"container failure, forced", kind("containerFailure: {forced: true}"), ""},
	{"container failure every interval", kind("containerFailure: {forced: true, interval: 90s}"), ""},
	{"container failure every interval, as nanoseconds", kind("containerFailure: {interval: 5000000000}\nduration: 6s"), ""},
	{"container failure every interval, a few times", kind("containerFailure: {interval: 1m}\nduration: 10m\nmaxRuns: 3"), ""},
	{"container failure with interval null", kind("containerFailure: {interval: null}\nmaxRuns: 1"), ""},
	{"container failure every empty text", kind("containerFailure: {interval: ''}"), "0s is shorter than 5s"},
	{"container failure too often", kind("containerFailure: {interval: 4s}"), "4s is shorter than 5s: want a duration such as 1m"},
	{"container failure with interval 0", kind("containerFailure: {interval: 0s}"), "spec.containerFailure.interval"},
	{"container failure with an interval that was meant as seconds", kind("containerFailure: {interval: 60}"), "60ns is shorter than 5s; a number without a unit is nanoseconds: write 60s"},
	{"container failure with an interval as long as duration", kind("containerFailure: {interval: 5m}\nduration: 5m"), "containerFailure.interval is not shorter than duration"},
	{"container failure with an interval as long as the default", kind("containerFailure: {interval: 1h}"), "containerFailure.interval is not shorter than duration"},
	{"container failure with an interval and maxRuns 1", kind("containerFailure: {interval: 1m}\nmaxRuns: 1"), "maxRuns 1 leaves nothing to repeat"},
	{"container failure of some containers", kind("containers: [web, sidecar]\ncontainerFailure: {forced: true}"), ""},
	{"cpu pressure on all cores", kind("cpuPressure: {}"), ""},
	{"cpu pressure on 3 cores", kind("cpuPressure: {count: 3}"), ""},
	{"cpu pressure on half of the cores", kind("cpuPressure: {count: 50%}"), ""},
	{"cpu pressure at level node", kind("level: node\ncpuPressure: {}"), ""},
	{"disk pressure, reading", kind("diskPressure: {path: /mnt/data, throttling: {readBytesPerSec: 1024}}"), ""},
	{"disk pressure, writing", kind("diskPressure: {path: /mnt/data, throttling: {writeBytesPerSec: 1024}}"), ""},
	{"disk pressure in operations", kind("diskPressure: {path: /mnt/data, throttling: {readIOPSPerSec: 10, writeIOPSPerSec: 10}}"), ""},
	{"disk pressure without a limit", kind("diskPressure: {path: /mnt/data, throttling: {}}"), ""},
	{"disk pressure without throttling", kind("diskPressure: {path: /mnt/data}"), ""},
	{"memory pressure", kind("memoryPressure: {targetPercent: 76%, rampDuration: 10m}"), ""},
	{"memory pressure without a sign", kind("memoryPressure: {targetPercent: \"76\"}"), ""},
	{"memory pressure as a number", kind("memoryPressure: {targetPercent: 76}"), ""},
	{"memory pressure at level node", kind("level: node\nmemoryPressure: {targetPercent: 60%}"), ""},
	{"network drop of everything", kind("network: {drop: 100}"), ""},
	{"network duplication", kind("network: {duplicate: 100}"), ""},
	{"network corruption", kind("network: {corrupt: 5}"), ""},
	{"network drop, duplication and corruption", kind("network: {drop: 30, duplicate: 50, corrupt: 100}"), ""},
	{"network connection state", network("hosts: [{port: 80}, {host: 10.0.0.1, connState: new}]"), ""},
	{"network resolver", network("hosts: [{host: example.com, dnsResolver: node}]"), ""},
	{"network percentage", network("hosts: [{host: example.com, percentage: 50}]"), ""},
	{"network connection state of an allowed host", network("allowedHosts: [{host: 10.0.0.1, connState: est}]"), ""},
	{"network resolver of an allowed host", network("allowedHosts: [{host: example.com, dnsResolver: pod}]"), ""},
	{"network percentage of an allowed host", network("allowedHosts: [{host: example.com, percentage: 50}]"), ""},
	{"network http", network("http: {methods: [GET, DELETE], paths: [/a, /b]}"), ""},
	{"network drop of some hosts", network("hosts: [{host: 10.0.0.0/8, port: 80, protocol: tcp}, {host: example.com}, {host: '2001:db8::1'}]"), ""},
	{"network drop but for some hosts", network("allowedHosts: [{host: 10.0.0.1, port: 443}], disableDefaultAllowedHosts: true"), ""},
	{"network drop of what comes in", network("hosts: [{host: 10.0.0.1, port: 80, flow: ingress}]"), ""},
	{"network drop at level node", kind("level: node\nnetwork: {drop: 10}"), ""},
	{"network delay", kind("network: {delay: 1000, delayJitter: 5}"), ""},
	{"network bandwidth", kind("network: {bandwidthLimit: 1024}"), ""},
	{"network delay and bandwidth at level node", kind("level: node\nnetwork: {delay: 60000, bandwidthLimit: 32}"), ""},
	{"network with a jitter that has no delay", network("delayJitter: 5"), ""},
	{"dns answers of all types", kind(`dns:
  port: 53
  protocol: both
  records:
  - {hostname: www.example.com, record: {type: A, value: "192.0.2.1, 192.0.2.2", ttl: 60}}
  - {hostname: www.example.com, record: {type: AAAA, value: "2001:db8::1"}}
  - {hostname: old.example.com, record: {type: CNAME, value: new.example.com}}
  - {hostname: example.com, record: {type: MX, value: "10 mail1.example.com,20 mail2.example.com"}}
  - {hostname: txt.example.com, record: {type: TXT, value: "v=spf1, all"}}
  - {hostname: _http._tcp.example.com, record: {type: SRV, value: "10 60 8080 a.example.com"}}
  - {hostname: gone.example.com, record: {type: A, value: NXDOMAIN}}`), ""},
	{"dns on another port", kind("dns: {port: 5353, protocol: udp, records: [{hostname: a, record: {type: AAAA, value: RANDOM}}]}"), ""},
	{"dns with port 0 and protocol empty", kind("dns: {port: 0, protocol: \"\", records: [{hostname: a, record: {type: A, value: SERVFAIL, ttl: 0}}]}"), ""},
	{"dns of some containers", kind("containers: [web]\ndns: {records: [{hostname: a, record: {type: A, value: DROP}}]}"), ""},
	{"grpc errors and an empty answer", kind("grpc: {port: 50051, endpoints: [{endpoint: /a.B/c, error: NOT_FOUND, queryPercent: 10}, {endpoint: /a.B/d, override: '{}', queryPercent: 50}, {endpoint: /a.B/d, error: PERMISSION_DENIED}]}"), ""},
	{"grpc without any endpoint", kind("grpc: {port: 1, endpoints: []}"), ""},
	{"grpc of some containers", kind("containers: [web]\ngrpc: {port: 1, endpoints: [{endpoint: /a/b, error: OK}]}"), ""},
	{"dns hostname with a dot at the end", kind("dns: {records: [{hostname: a.example., record: {type: A, value: DROP}}]}"), ""},
	{"node failure", kind("level: node\nnodeFailure: {shutdown: true}"), ""},
	{"node failure of a pod's node", kind("nodeFailure: {}"), ""},
	{"several kinds", kind("cpuPressure: {}\ndiskPressure: {path: /data, throttling: {readBytesPerSec: 1}}\nnetwork: {drop: 5}"), ""},
	{"everything that is common", kind(`level: pod
advancedSelector: [{key: tier, operator: In, values: [web, api]}, {key: canary, operator: DoesNotExist}]
filter: {annotations: {team: checkout, note: "any text"}}
containers: [web]
duration: 15m
dryRun: true
staticTargeting: true
allowDisruptedTargets: true
maxRuns: 3
maxLostTargets: 0
podOpsLifecycle: {policy: Respect, whenBusy: Wait, busyTimeoutSeconds: 86400, onConcurrentOperation: Keep}
podDisruptionBudget: Respect
triggers: {createPods: {notBefore: "2030-01-01T00:00:00Z"}, inject: {offset: 1m}}
unsafeMode: {disableAll: true, config: {countTooLarge: {namespaceThreshold: 80, clusterThreshold: 66}}}
reporting: {slackChannel: team-chaos, slackUserEmail: someone@example.com, purpose: testing the retries, minNotificationType: Info}
network: {drop: 5}`), ""},

	// Count.
	{"count missing", "selector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count null", "count: null\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count as a percentage", "count: 30%\nselector: {app: shop}\ncpuPressure: {}", ""},
	{"count 1%", "count: 1%\nselector: {app: shop}\ncpuPressure: {}", ""},
	{"count 100%", "count: 100%\nselector: {app: shop}\ncpuPressure: {}", ""},
	{"count as a digit string", "count: \"2\"\nselector: {app: shop}\ncpuPressure: {}", ""},
	{"count as a digit string with zeros", "count: \"02\"\nselector: {app: shop}\ncpuPressure: {}", ""},
	{"count 0", "count: 0\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count 0 as a string", "count: \"0\"\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count negative", "count: -1\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count beyond all integers", "count: 9999999999\nselector: {app: shop}\ncpuPressure: {}", "count"},
	{"count more than we count to", "count: 1000000000\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count 0%", "count: 0%\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count 101%", "count: 101%\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count a word", "count: all\nselector: {app: shop}\ncpuPressure: {}", "spec.count"},
	{"count a fraction", "count: 1.5\nselector: {app: shop}\ncpuPressure: {}", "count"},

	// Selectors.
	{"no selector", "count: 1\ncpuPressure: {}", "selector and advancedSelector are both empty"},
	{"selector null", "count: 1\nselector: null\ncpuPressure: {}", "selector and advancedSelector are both empty"},
	{"selector empty", "count: 1\nselector: {}\nadvancedSelector: []\ncpuPressure: {}", "selector and advancedSelector are both empty"},
	{"advanced selector with what is no label", "count: 1\nadvancedSelector: [{key: ../etc, operator: Exists}]\ncpuPressure: {}", "spec.advancedSelector[0]"},
	{"advanced selector with what no label can have", "count: 1\nadvancedSelector: [{key: app, operator: In, values: [a, b/c]}]\ncpuPressure: {}", "spec.advancedSelector[0]"},
	{"advanced selector alone", "count: 1\nadvancedSelector: [{key: app, operator: Exists}]\ncpuPressure: {}", ""},
	{"selector null beside an advanced one", "count: 1\nselector: null\nadvancedSelector: [{key: app, operator: NotIn, values: [shop]}]\ncpuPressure: {}", ""},
	{"selector with an empty value", "count: 1\nselector: {app: \"\"}\ncpuPressure: {}", ""},
	{"selector with a prefixed name", "count: 1\nselector: {app.kubernetes.io/name: shop}\ncpuPressure: {}", ""},
	{"selector with a bad value", "count: 1\nselector: {app: my shop}\ncpuPressure: {}", "spec.selector"},
	{"selector with a long value", "count: 1\nselector: {app: " + strings.Repeat("a", 64) + "}\ncpuPressure: {}", "spec.selector"},
	{"selector with a bad name", "count: 1\nselector: {\"my app\": shop}\ncpuPressure: {}", "spec.selector"},
	{"selector value that YAML reads as a number", "count: 1\nselector: {version: 1}\ncpuPressure: {}", "selector"},
	{"unknown operator", kind("advancedSelector: [{key: app, operator: Near}]\ncpuPressure: {}"), "spec."},
	{"In without values", kind("advancedSelector: [{key: app, operator: In}]\ncpuPressure: {}"), "spec."},
	{"Exists with values", kind("advancedSelector: [{key: app, operator: Exists, values: [a]}]\ncpuPressure: {}"), "spec."},
	{"filter null", kind("filter: null\ncpuPressure: {}"), ""},
	{"filter annotations null", kind("filter: {annotations: null}\ncpuPressure: {}"), ""},

	// Level, containers, duration, maxRuns.
	{"level empty", kind("level: \"\"\ncpuPressure: {}"), ""},
	{"level null", kind("level: null\ncpuPressure: {}"), ""},
	{"level unknown", kind("level: cluster\ncpuPressure: {}"), "spec.level"},
	{"level in another case", kind("level: Node\ncpuPressure: {}"), "spec.level"},
	{"container failure at level node", kind("level: node\ncontainerFailure: {}"), "set level to pod"},
	{"containers at level node", kind("level: node\ncontainers: [web]\ncpuPressure: {}"), "remove containers"},
	{"containers with disk pressure", kind("containers: [web]\ndiskPressure: {path: /data}"), "remove containers"},
	{"containers with memory pressure", kind("containers: [web]\nmemoryPressure: {targetPercent: 50%}"), "remove containers"},
	{"containers with onInit", kind("containers: [web]\nonInit: true\nnetwork: {drop: 1}"), "remove containers"},
	{"containers empty at level node", kind("level: node\ncontainers: []\ncpuPressure: {}"), ""},
	{"duration as nanoseconds", kind("duration: 60000000000\ncpuPressure: {}"), ""},
	{"duration with a fraction", kind("duration: 1.5h\ncpuPressure: {}"), ""},
	{"duration of several units", kind("duration: 1h2m3s4ms5us6ns\ncpuPressure: {}"), ""},
	{"duration null", kind("duration: null\ncpuPressure: {}"), ""},
	{"duration 0", kind("duration: 0s\ncpuPressure: {}"), "spec.duration"},
	{"duration 0 as a number", kind("duration: 0\ncpuPressure: {}"), "spec.duration"},
	{"duration empty", kind("duration: \"\"\ncpuPressure: {}"), "spec.duration"},
	{"duration negative", kind("duration: -5m\ncpuPressure: {}"), "spec.duration"},
	{"duration negative as a number", kind("duration: -5\ncpuPressure: {}"), "spec.duration"},
	{"duration of a second", kind("duration: 1s\ncpuPressure: {}"), ""},
	{"duration of a second as nanoseconds", kind("duration: 1000000000\ncpuPressure: {}"), ""},
	{"duration as a number that was meant as seconds", kind("duration: 10\ncpuPressure: {}"), "10ns is shorter than 1s; a number without a unit is nanoseconds: write 10s"},
	{"duration as a number of many seconds", kind("duration: 86400\ncpuPressure: {}"), "86400ns is shorter than 1s; a number without a unit is nanoseconds: write 86400s"},
	{"duration below a second", kind("duration: 500ms\ncpuPressure: {}"), "500ms is shorter than 1s: want a duration such as \"5m\""},
	{"duration below a second in several units", kind("duration: 0h0m0.9s\ncpuPressure: {}"), "is shorter than 1s"},
	{"duration with a plus", kind("duration: +5m\ncpuPressure: {}"), ""},
	{"duration of a year", kind("duration: 8760h\ncpuPressure: {}"), ""},
	{"duration of more than a year", kind("duration: 8761h\ncpuPressure: {}"), "it ends 8761h after its creation, triggers included: want at most 8760h, a year"},
	{"duration of more than a year as nanoseconds", kind("duration: 31539600000000000\ncpuPressure: {}"), "it ends 8761h after its creation"},
	{"offsets that make it more than a year", kind("duration: 8758h\ntriggers: {createPods: {offset: 1h}, inject: {offset: 7200000000000}}\ncpuPressure: {}"), "it ends 8761h after its creation"},
	{"offsets within a year", kind("duration: 8758h\ntriggers: {createPods: {offset: 1h}, inject: {offset: 1h}}\ncpuPressure: {}"), ""},
	{"an offset of many years", kind("triggers: {inject: {offset: 2000000h}}\ncpuPressure: {}"), "it ends 2000001h after its creation"},
	{"container with a capital letter", kind("containers: [web, Web]\ncpuPressure: {}"), "\"Web\" is no name of a container: want lower case letters"},
	{"container with an underscore", kind("containers: [my_app]\ncpuPressure: {}"), "\"my_app\" is no name of a container"},
	{"container without a name", kind("containers: [\"\"]\ncpuPressure: {}"), "\"\" is no name of a container"},
	{"container with a name of 64 characters", kind("containers: [" + strings.Repeat("a", 64) + "]\ncpuPressure: {}"), "spec.containers[0]"},
	{"container with a name of 63 characters", kind("containers: [" + strings.Repeat("a", 63) + "]\ncpuPressure: {}"), ""},
	{"duration without a unit", kind("duration: \"5\"\ncpuPressure: {}"), "duration"},
	{"duration in days", kind("duration: 5d\ncpuPressure: {}"), "duration"},
	{"duration with a blank", kind("duration: 5 m\ncpuPressure: {}"), "duration"},
	{"maxRuns 1", kind("maxRuns: 1\ncpuPressure: {}"), ""},
	{"maxRuns null", kind("maxRuns: null\ncpuPressure: {}"), ""},
	{"maxRuns 0", kind("maxRuns: 0\ncpuPressure: {}"), "spec.maxRuns"},

	// Kinds.
	{"no kind", "count: 1\nselector: {app: shop}", "no kind is asked for"},
	{"every kind null", kind("cpuPressure: null\nnetwork: null\ndns: null"), "no kind is asked for"},
	{"kinds null beside one", kind("cpuPressure: {}\nnetwork: null\ncontainerFailure: null\nnodeFailure: null"), ""},
	{"container failure beside another kind", kind("containerFailure: {}\ncpuPressure: {}"), "stand alone"},
	{"node failure beside another kind", kind("nodeFailure: {}\ncpuPressure: {}"), "stand alone"},
	{"pod replacement beside another kind", kind("podReplacement: {}\nnetwork: {drop: 1}"), "stand alone"},
	{"pod replacement at level node", kind("level: node\npodReplacement: {}"), "set level to pod"},
	{"grpc at level node", kind("level: node\ngrpc: {port: 1, endpoints: []}"), "set level to pod"},
	{"dns at level node", kind("level: node\ndns: {records: [{hostname: a, record: {type: A, value: DROP}}]}"), "set level to pod"},
	{"cpu pressure on 0 cores", kind("cpuPressure: {count: 0}"), "spec.cpuPressure.count"},
	{"cpu pressure on 120% of the cores", kind("cpuPressure: {count: 120%}"), "spec.cpuPressure.count"},
	{"cpu pressure with count null", kind("cpuPressure: {count: null}"), ""},
	{"disk pressure without a path", kind("diskPressure: {throttling: {readBytesPerSec: 1}}"), "spec.diskPressure.path"},
	{"disk pressure with an empty path", kind("diskPressure: {path: \"\"}"), "spec.diskPressure.path"},
	{"disk pressure with a negative limit", kind("diskPressure: {path: /data, throttling: {writeBytesPerSec: -1}}"), "spec.diskPressure.throttling.writeBytesPerSec"},
	{"disk pressure with a negative number of operations", kind("diskPressure: {path: /data, throttling: {readIOPSPerSec: -1}}"), "spec.diskPressure.throttling.readIOPSPerSec"},

	// Network.
	{"network without anything", kind("network: {}"), "nothing is asked for"},
	{"network with zeros only", kind("network: {drop: 0, delay: 0}"), "nothing is asked for"},
	{"drop over 100", kind("network: {drop: 101}"), "spec.network.drop"},
	{"drop negative", kind("network: {drop: -1}"), "spec.network.drop"},
	{"drop as a string", kind("network: {drop: \"10\"}"), "drop"},
	{"duplicate over 100", network("duplicate: 101"), "spec.network.duplicate"},
	{"corrupt negative", network("corrupt: -1"), "spec.network.corrupt"},
	{"http with a delay", kind("network: {delay: 100, http: {methods: [GET]}}"), "http cannot be combined with delay or bandwidthLimit"},
	{"http with a limited bandwidth", kind("network: {bandwidthLimit: 1024, http: {methods: [GET]}}"), "http cannot be combined with delay or bandwidthLimit"},
	{"http with a delay of 0", kind("network: {drop: 10, delay: 0, http: {methods: [GET]}}"), ""},
	{"new connections with a delay", kind("network: {delay: 100, hosts: [{host: db, connState: new}]}"), "connState cannot be combined with delay or bandwidthLimit"},
	{"new connections of an allowed host with a limited bandwidth", kind("network: {bandwidthLimit: 1024, allowedHosts: [{host: db, connState: est}]}"), "connState cannot be combined with delay or bandwidthLimit"},
	{"new connections of a cloud with a delay", kind("network: {delay: 100, cloud: {aws: [{service: S3, connState: new}]}}"), "connState cannot be combined with delay or bandwidthLimit"},
	{"connState empty with a delay", kind("network: {delay: 100, hosts: [{host: db, connState: \"\"}]}"), ""},
	{"new connections that are dropped", kind("network: {drop: 10, hosts: [{host: db, connState: new}]}"), ""},
	{"delay over a minute", network("delay: 60001"), "spec.network.delay"},
	{"delay negative", network("delay: -1"), "spec.network.delay"},
	{"jitter over 100", network("delayJitter: 101"), "spec.network.delayJitter"},
	{"bandwidth below 32", network("bandwidthLimit: 31"), "spec.network.bandwidthLimit"},
	{"bandwidth negative", network("bandwidthLimit: -1"), "spec.network.bandwidthLimit"},
	{"bandwidth 0", network("bandwidthLimit: 0"), ""},
	{"hosts null", network("hosts: null, allowedHosts: null, services: null, cloud: null, http: null"), ""},
	{"hosts empty", network("hosts: [], services: []"), ""},
	{"host of everything", network("hosts: [{}]"), ""},
	{"host with empty strings", network("hosts: [{host: \"\", protocol: \"\", flow: \"\", connState: \"\", dnsResolver: \"\", port: 0}]"), ""},
	{"host with a prefix no address has", network("hosts: [{host: 10.0.0.0/99}]"), "\"10.0.0.0/99\" is no CIDR: want an address and the length of its prefix, such as 10.0.0.0/8"},
	{"host with an IPv6 prefix no address has", network("allowedHosts: [{host: '2001:db8::/129'}]"), "\"2001:db8::/129\" is no CIDR"},
	{"host with an IPv6 prefix", network("hosts: [{host: '2001:db8::/32'}]"), ""},
	{"host with a prefix of everything", network("hosts: [{host: 0.0.0.0/0}]"), ""},
	{"host as an URL", network("hosts: [{host: 'https://example.com'}]"), "\"https://example.com\" is no CIDR"},
	{"host of numbers that is no address", network("hosts: [{host: 10.0.0.256}]"), "\"10.0.0.256\" is no address: want one such as 10.0.0.1"},
	{"host with its port", network("hosts: [{host: 'example.com:80'}]"), "\"example.com:80\" is no address"},
	{"host with a zone", network("hosts: [{host: 'fe80::1%eth0'}]"), "is no address"},
	{"host with IPv4 in an IPv6 dress", network("hosts: [{host: '::ffff:10.0.0.1'}]"), "is no address"},
	{"host with a blank", network("hosts: [{host: 'example com'}]"), "\"example com\" is no name: want letters, digits, dots and -"},
	{"host with a star", network("hosts: [{host: '*.example.com'}]"), "is no name"},
	{"host with an underscore and a last dot", network("hosts: [{host: _http._tcp.example.com.}]"), ""},
	{"hosts that fit into a chaos pod", network("hosts: [" + hosts(1600, 20) + "]"), ""},
	{"hosts that do not fit into a chaos pod", network("hosts: [" + hosts(1600, 30) + "]"), "bytes long as JSON, and a chaos pod takes 102400: shorten its lists"},
	{"hosts and allowed hosts that do not fit together", network("hosts: [" + hosts(1000, 30) + "], allowedHosts: [" + hosts(1000, 30) + "]"), "a chaos pod takes 102400"},
	{"flow without host and port", network("hosts: [{flow: ingress}]"), "flow needs a host or a port"},
	{"flow with a port", network("hosts: [{flow: ingress, port: 80}]"), ""},
	{"flow of an allowed host without host and port", network("allowedHosts: [{flow: egress, protocol: tcp}]"), "flow needs a host or a port"},
	{"flow unknown", network("hosts: [{host: a, flow: sideways}]"), "spec.network.hosts[0].flow"},
	{"port too large", network("hosts: [{port: 65536}]"), "spec.network.hosts[0].port"},
	{"port negative", network("allowedHosts: [{port: -1}]"), "spec.network.allowedHosts[0].port"},
	{"protocol in upper case", network("hosts: [{protocol: TCP}, {protocol: Udp}]"), ""},
	{"protocol unknown", network("hosts: [{protocol: icmp}]"), "spec.network.hosts[0].protocol: Invalid value: \"icmp\""},
	{"connState unknown", network("hosts: [{connState: old}]"), "spec.network.hosts[0].connState"},
	{"dnsResolver unknown", network("hosts: [{host: a, dnsResolver: google}]"), "spec.network.hosts[0].dnsResolver"},
	{"percentage 0", network("hosts: [{host: a, percentage: 0}]"), "spec.network.hosts[0].percentage"},
	{"percentage 101", network("hosts: [{host: a, percentage: 101}]"), "spec.network.hosts[0].percentage"},
	{"too many filters", network("hosts: [" + strings.Repeat("{port: 1},", 2047) + "{port: 1}], services: [{name: a, namespace: b}]"), "2048 is the limit"},
	{"service without a name", network("services: [{namespace: b}]"), "spec.network.services[0].name"},
	{"service of the same namespace", network("services: [{name: a}]"), ""},
	{"service with all it can have", network("services: [{name: demo, namespace: chaos-demo, ports: [{name: http, port: 8080}], percentage: 50}]"), ""},
	{"service port too large", network("services: [{name: a, namespace: b, ports: [{port: 65536}]}]"), "spec.network.services[0].ports[0].port"},
	{"service percentage 0", network("services: [{name: a, namespace: b, percentage: 0}]"), "spec.network.services[0].percentage"},
	{"cloud of all providers", network("cloud: {aws: [{service: S3, flow: egress, protocol: tcp, connState: new}], gcp: [{service: Google Cloud, flow: ingress, protocol: UDP}], datadog: [{service: synthetics, connState: est}]}"), ""},
	{"cloud of one provider, the others null", network("cloud: {aws: null, gcp: [{service: Google, protocol: \"\", flow: \"\", connState: \"\"}]}"), ""},
	{"cloud without a provider", network("cloud: {}"), "name at least one provider"},
	{"cloud without any service of its providers", network("cloud: {aws: [], datadog: []}"), "name at least one provider"},
	{"cloud service without a name", network("cloud: {aws: [{flow: egress}]}"), "spec.network.cloud.aws[0].service"},
	{"cloud service with an unknown flow", network("cloud: {datadog: [{service: agents, flow: sideways}]}"), "spec.network.cloud.datadog[0].flow"},
	{"cloud service with an unknown connState", network("cloud: {datadog: [{service: agents, connState: old}]}"), "spec.network.cloud.datadog[0].connState"},
	{"cloud services that are too many", network("cloud: {aws: [" + strings.Repeat("{service: S3},", 128) + "{service: S3}]}"), "spec.network.cloud.aws"},
	{"cloud service with an unknown protocol", network("cloud: {gcp: [{service: a, protocol: icmp}]}"), "spec.network.cloud.gcp[0].protocol"},
	{"http at level node", kind("level: node\nnetwork: {drop: 1, http: {paths: [/a]}}"), "network.http works at level pod only"},
	{"http method unknown", network("http: {methods: [BREW]}"), "spec.network.http.methods[0]"},
	{"http method in lower case", network("http: {methods: [get]}"), "spec.network.http.methods[0]"},
	{"http method twice", network("http: {methods: [GET, GET]}"), "spec.network.http.methods[1]"},
	{"http path without a slash", network("http: {paths: [a]}"), "spec.network.http.paths[0]"},
	{"http path with a blank", network("http: {paths: [\"/a b\"]}"), "spec.network.http.paths[0]"},
	{"http path empty", network("http: {paths: [\"\"]}"), "spec.network.http.paths[0]"},
	{"http path too long", network("http: {paths: [/" + strings.Repeat("a", 90) + "]}"), "spec.network.http.paths[0]"},
	{"http path twice", network("http: {paths: [/a, /a]}"), "spec.network.http.paths[1]"},
	{"http root path beside another", network("http: {paths: [/, /a]}"), "matches every path"},
	{"too many http paths", network("http: {paths: [" + paths(21) + "]}"), "spec.network.http.paths"},

	// The other kinds.
	{"memory without a percentage", kind("memoryPressure: {}"), "spec.memoryPressure.targetPercent"},
	{"memory 0%", kind("memoryPressure: {targetPercent: 0%}"), "spec.memoryPressure.targetPercent"},
	{"memory 101%", kind("memoryPressure: {targetPercent: 101%}"), "spec.memoryPressure.targetPercent"},
	{"memory pressure of nothing", kind("memoryPressure: {targetPercent: \" \"}"), "spec.memoryPressure.targetPercent"},
	{"memory 0 as a number", kind("memoryPressure: {targetPercent: 0}"), "spec.memoryPressure.targetPercent"},
	{"memory 101 as a number", kind("memoryPressure: {targetPercent: 101}"), "spec.memoryPressure.targetPercent"},
	{"memory ramp as a number that was meant as seconds", kind("memoryPressure: {targetPercent: 50%, rampDuration: 60}"), "60ns is shorter than 1ms; a number without a unit is nanoseconds: write 60s"},
	{"memory ramp negative", kind("memoryPressure: {targetPercent: 50%, rampDuration: -1s}"), "spec.memoryPressure.rampDuration"},
	{"disk failure without paths", kind("diskFailure: {}"), "spec.diskFailure.paths"},
	{"disk failure with an empty list", kind("diskFailure: {paths: []}"), "spec.diskFailure.paths"},
	{"disk failure with a blank path", kind("diskFailure: {paths: [\" \"]}"), "a path has 1 to 62 characters"},
	{"disk failure with a long path", kind("diskFailure: {paths: [/" + strings.Repeat("a", 62) + "]}"), "a path has 1 to 62 characters"},
	{"disk failure of the node's root", kind("level: node\ndiskFailure: {paths: [/data, /]}"), "allowRootDiskFailure"},
	{"disk failure of the node's root, written otherwise", kind("level: node\ndiskFailure: {paths: [//./]}"), "allowRootDiskFailure"},
	{"disk failure of the node's root, allowed", kind("level: node\nunsafeMode: {allowRootDiskFailure: true}\ndiskFailure: {paths: [/]}"), ""},
	{"disk failure", kind("diskFailure: {paths: [/tmp], openat: {exitCode: EACCES}, probability: 50%}"), ""},
	{"disk failure of some containers", kind("containers: [web]\ndiskFailure: {paths: [/tmp, /data]}"), ""},
	{"disk failure with an unknown error", kind("diskFailure: {paths: [/a], openat: {exitCode: EWHAT}}"), "spec.diskFailure.openat.exitCode"},
	{"disk failure without an error", kind("diskFailure: {paths: [/a], openat: {}}"), "spec.diskFailure.openat.exitCode"},
	{"disk failure with a bare probability", kind("diskFailure: {paths: [/a], probability: \"50\"}"), ""},
	{"disk failure with a probability as a number", kind("diskFailure: {paths: [/a], probability: 50}"), ""},
	{"disk failure with probability 0 as a number", kind("diskFailure: {paths: [/a], probability: 0}"), "spec.diskFailure.probability"},
	{"disk failure with probability 0", kind("diskFailure: {paths: [/a], probability: 0%}"), "spec.diskFailure.probability"},
	{"grpc without a port", kind("grpc: {endpoints: [{endpoint: /a/b, error: OK}]}"), "spec.grpc.port"},
	{"grpc without endpoints", kind("grpc: {port: 1}"), "spec.grpc.endpoints"},
	{"grpc with a large port", kind("grpc: {port: 65536, endpoints: []}"), "spec.grpc.port"},
	{"grpc with an unknown error", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, error: BAD}]}"), "spec.grpc.endpoints[0].error"},
	{"grpc with another override", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, override: '{\"a\":1}'}]}"), "spec.grpc.endpoints[0].override"},
	{"grpc with error and override", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, error: OK, override: '{}'}]}"), "set either error or override"},
	{"grpc with neither error nor override", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, error: \"\"}]}"), "set either error or override"},
	{"grpc with more than 100%", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, error: OK, queryPercent: 60}, {endpoint: /a/b, override: '{}', queryPercent: 41}]}"), "lower a queryPercent"},
	{"grpc with nothing left", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, error: OK, queryPercent: 99}, {endpoint: /a/b, override: '{}'}, {endpoint: /a/b, error: ABORTED}]}"), "lower a queryPercent"},
	{"grpc with a percentage over 100", kind("grpc: {port: 1, endpoints: [{endpoint: /a/b, error: OK, queryPercent: 101}]}"), "spec.grpc.endpoints[0].queryPercent"},
	{"dns without records", kind("dns: {}"), "spec.dns.records"},
	{"dns with an empty list", kind("dns: {records: []}"), "spec.dns.records"},
	{"dns with a large port", kind("dns: {port: 65536, records: [{hostname: a, record: {type: A, value: DROP}}]}"), "spec.dns.port"},
	{"dns with an unknown protocol", kind("dns: {protocol: quic, records: [{hostname: a, record: {type: A, value: DROP}}]}"), "spec.dns.protocol"},
	{"dns without a hostname", kind("dns: {records: [{record: {type: A, value: DROP}}]}"), "spec.dns.records[0].hostname"},
	{"dns without a value", kind("dns: {records: [{hostname: a, record: {type: A}}]}"), "spec.dns.records[0].record.value"},
	{"dns with an unknown type", dns("NS", "a"), "spec.dns.records[0].record.type"},
	{"dns A with an IPv6 address", dns("A", "2001:db8::1"), "an A record is a list of IPv4 addresses"},
	{"dns A with a name", dns("A", "10.0.0.1,example.com"), "an A record is a list of IPv4 addresses"},
	{"dns AAAA with an IPv4 address", dns("AAAA", "10.0.0.1"), "an AAAA record is a list of IPv6 addresses"},
	{"dns AAAA with IPv4 in an IPv6 dress", dns("AAAA", "::ffff:10.0.0.1"), "an AAAA record is a list of IPv6 addresses"},
	{"dns CNAME with two names", dns("CNAME", "a.example,b.example"), "a CNAME record is one name"},
	{"dns CNAME with a failure", dns("CNAME", "NXDOMAIN"), "for records of type A and AAAA only"},
	{"dns A with one address too few", dns("A", "10.0.0.1,"), "an A record is a list of IPv4 addresses"},
	{"dns TXT with a failure", dns("TXT", "DROP"), "for records of type A and AAAA only"},
	{"dns SRV with a failure", dns("SRV", "SERVFAIL"), "for records of type A and AAAA only"},
	{"dns MX without a priority", dns("MX", "mail.example.com"), "an MX record is a list"},
	{"dns SRV without a port", dns("SRV", "10 60 host.example.com"), "an SRV record is a list"},
	{"dns record twice", kind("dns: {records: [{hostname: a, record: {type: A, value: DROP}}, {hostname: a, record: {type: A, value: 10.0.0.1}}]}"), "one record of each type"},
	{"dns record twice, in another case and with a dot", kind("dns: {records: [{hostname: A.example., record: {type: A, value: DROP}}, {hostname: a.example, record: {type: A, value: 10.0.0.1}}]}"), "one record of each type"},
	{"dns of a wildcard", kind("dns: {records: [{hostname: '*.example.com', record: {type: A, value: DROP}}]}"), "stands for all names below it"},
	{"dns of two dots", kind("dns: {records: [{hostname: a..example, record: {type: A, value: DROP}}]}"), "want a name such as"},
	{"dns CNAME that is no name", dns("CNAME", "a..example"), "a CNAME record is one name"},
	{"dns with a negative ttl", kind("dns: {records: [{hostname: a, record: {type: A, value: DROP, ttl: -1}}]}"), "spec.dns.records[0].record.ttl"},
	{"pod replacement", kind("podReplacement: {deleteStorage: false, forceDelete: true, gracePeriodSeconds: 0}"), ""},
	{"pod replacement without anything said", kind("podReplacement: {}"), ""},
	{"pod replacement that pulses", kind("podReplacement: {}\npulse: {activeDuration: 10s, dormantDuration: 10s}"), "cannot pulse"},
	{"pod replacement of some containers", kind("containers: [web]\npodReplacement: {}"), "containers cannot be chosen"},
	{"pod replacement with a grace period of more than ten minutes", kind("podReplacement: {gracePeriodSeconds: 601}"), "spec.podReplacement.gracePeriodSeconds"},
	{"pod replacement with a negative grace period", kind("podReplacement: {gracePeriodSeconds: -1}"), "spec.podReplacement.gracePeriodSeconds"},

	// Triggers, pulse, onInit.
	{"triggers null", kind("triggers: null\ncpuPressure: {}"), ""},
	{"triggers with nulls", kind("triggers: {createPods: {notBefore: null, offset: null}, inject: null}\ncpuPressure: {}"), ""},
	{"trigger offset as nanoseconds", kind("triggers: {inject: {offset: 1000000000}}\ncpuPressure: {}"), ""},
	{"trigger offset as a number that was meant as seconds", kind("triggers: {inject: {offset: 90}}\ncpuPressure: {}"), "90ns is shorter than 1ms; a number without a unit is nanoseconds: write 90s"},
	{"trigger offset below a millisecond", kind("triggers: {createPods: {offset: 10us}}\ncpuPressure: {}"), "is shorter than 1ms"},
	{"trigger offset of a millisecond", kind("triggers: {createPods: {offset: 1ms}, inject: {offset: 0}}\ncpuPressure: {}"), ""},
	{"trigger with both", kind("triggers: {inject: {notBefore: \"2030-01-01T00:00:00Z\", offset: 1m}}\ncpuPressure: {}"), "not both"},
	{"trigger with a time and an offset of 0", kind("triggers: {inject: {notBefore: \"2030-01-01T00:00:00Z\", offset: 0s}}\ncpuPressure: {}"), ""},
	{"trigger with a negative offset", kind("triggers: {createPods: {offset: -1m}}\ncpuPressure: {}"), "spec.triggers.createPods.offset"},
	{"trigger with a word", kind("triggers: {createPods: {notBefore: tomorrow}}\ncpuPressure: {}"), "tomorrow"},
	{"inject before createPods", kind("triggers: {inject: {notBefore: \"2030-01-01T00:00:00Z\"}, createPods: {notBefore: \"2030-01-01T00:00:01Z\"}}\ncpuPressure: {}"), "inject.notBefore is before createPods.notBefore"},
	{"inject with createPods", kind("triggers: {inject: {notBefore: \"2030-01-01T01:00:00+01:00\"}, createPods: {notBefore: \"2030-01-01T00:00:00Z\"}}\ncpuPressure: {}"), ""},
	{"pulse with container failure", kind("containerFailure: {}\npulse: {activeDuration: 1s, dormantDuration: 1s}"), "cannot pulse"},
	{"pulse without a dormant duration", kind("cpuPressure: {}\npulse: {activeDuration: 1s}"), "set both activeDuration and dormantDuration"},
	{"pulse too fast", kind("cpuPressure: {}\npulse: {activeDuration: 499ms, dormantDuration: 1s}"), "spec.pulse.activeDuration"},
	{"service that cannot be one", network("services: [{name: ../../etc}]"), "services[0].name"},
	{"service in what cannot be a namespace", network("services: [{name: a, namespace: a/b}]"), "services[0].namespace"},
	{"pulse of an empty text", kind("cpuPressure: {}\npulse: {activeDuration: '', dormantDuration: 1s}"), "0s is shorter than 500ms"},
	{"pulse too fast in nanoseconds", kind("cpuPressure: {}\npulse: {activeDuration: 1s, dormantDuration: 499999999}"), "spec.pulse.dormantDuration"},
	{"pulse as numbers that were meant as seconds", kind("cpuPressure: {}\npulse: {activeDuration: 60, dormantDuration: 1s}"), "60ns is shorter than 500ms; a number without a unit is nanoseconds: write 60s"},
	{"dormant as a number that was meant as seconds", kind("cpuPressure: {}\npulse: {activeDuration: 1s, dormantDuration: 30}"), "30ns is shorter than 500ms; a number without a unit is nanoseconds: write 30s"},
	{"pulse delayed by a number that was meant as seconds", kind("cpuPressure: {}\npulse: {initialDelay: 5, activeDuration: 1s, dormantDuration: 1s}"), "5ns is shorter than 1ms; a number without a unit is nanoseconds: write 5s"},
	{"pulse with a negative delay", kind("cpuPressure: {}\npulse: {initialDelay: -1s, activeDuration: 1s, dormantDuration: 1s}"), "spec.pulse.initialDelay"},
	{"onInit with cpu pressure", kind("onInit: true\ncpuPressure: {}"), "onInit works at level pod with dns and network only"},
	{"onInit at level node", kind("onInit: true\nlevel: node\nnetwork: {drop: 1}"), "onInit works at level pod with dns and network only"},
	{"onInit with network", kind("onInit: true\nnetwork: {drop: 100}"), ""},
	{"onInit with dns and network", kind("onInit: true\nnetwork: {drop: 100}\ndns: {records: [{hostname: a.example, record: {type: A, value: NXDOMAIN}}]}"), ""},
	{"onInit false", kind("onInit: false\ncpuPressure: {}"), ""},
	{"pulse", kind("pulse: {initialDelay: 10s, activeDuration: 60s, dormantDuration: 500ms}\nnetwork: {drop: 100}"), ""},
	{"pulse in nanoseconds", kind("pulse: {activeDuration: 500000000, dormantDuration: 500000000}\ncpuPressure: {}"), ""},
	{"pulse null", kind("pulse: null\ncpuPressure: {}"), ""},

	// Unsafe mode, reporting.
	{"unsafe mode null", kind("unsafeMode: null\nreporting: null\ncpuPressure: {}"), ""},
	{"unsafe mode without a threshold", kind("unsafeMode: {config: {countTooLarge: {}}}\ncpuPressure: {}"), "set namespaceThreshold, clusterThreshold or both"},
	{"unsafe mode with a threshold of 0", kind("unsafeMode: {config: {countTooLarge: {clusterThreshold: 0}}}\ncpuPressure: {}"), "spec.unsafeMode.config.countTooLarge.clusterThreshold"},
	{"unsafe mode with a threshold of 101", kind("unsafeMode: {config: {countTooLarge: {namespaceThreshold: 101}}}\ncpuPressure: {}"), "spec.unsafeMode.config.countTooLarge.namespaceThreshold"},
	{"reporting to a channel's ID", kind("reporting: {slackChannel: C0123ABCD}\ncpuPressure: {}"), ""},
	{"reporting to a bad channel", kind("reporting: {slackChannel: \"#Chaos\"}\ncpuPressure: {}"), "spec.reporting.slackChannel"},
	{"reporting to a long channel", kind("reporting: {slackChannel: " + strings.Repeat("a", 81) + "}\ncpuPressure: {}"), "spec.reporting.slackChannel"},
	{"reporting with a short purpose", kind("reporting: {purpose: test}\ncpuPressure: {}"), "spec.reporting.purpose"},
	{"reporting to no address", kind("reporting: {slackUserEmail: someone}\ncpuPressure: {}"), "spec.reporting.slackUserEmail"},
	{"reporting with an unknown type", kind("reporting: {minNotificationType: Debug}\ncpuPressure: {}"), "spec.reporting.minNotificationType"},

	// Operations of others.
	{"pod operations null", kind("podOpsLifecycle: null\ncpuPressure: {}"), ""},
	{"pod operations at their defaults", kind("podOpsLifecycle: {}\ncpuPressure: {}"), ""},
	{"pod operations ignored", kind("podOpsLifecycle: {policy: Ignore}\ncpuPressure: {}"), ""},
	{"pod operations, empty words", kind("podOpsLifecycle: {policy: \"\", whenBusy: \"\", busyTimeoutSeconds: null, onConcurrentOperation: \"\"}\ncpuPressure: {}"), ""},
	{"pod operations that protect targets", kind("podOpsLifecycle: {policy: Participate, protectTargets: true, protectionTimeoutSeconds: 1}\ncpuPressure: {}"), ""},
	{"pod operations that protect nothing", kind("podOpsLifecycle: {protectTargets: false, protectionTimeoutSeconds: null}\ncpuPressure: {}"), ""},
	{"pod operations, protected by one that takes no part", kind("podOpsLifecycle: {protectTargets: true}\ncpuPressure: {}"), "spec.podOpsLifecycle.protectTargets"},
	{"pod operations, protected by one that respects", kind("podOpsLifecycle: {policy: Respect, protectTargets: true}\ncpuPressure: {}"), "spec.podOpsLifecycle.protectTargets"},
	{"pod operations, protected for no time", kind("podOpsLifecycle: {policy: Participate, protectTargets: true, protectionTimeoutSeconds: 0}\ncpuPressure: {}"), "spec.podOpsLifecycle.protectionTimeoutSeconds"},
	{"pod operations, an unknown policy", kind("podOpsLifecycle: {policy: Obey}\ncpuPressure: {}"), "spec.podOpsLifecycle.policy"},
	{"pod operations, an unknown way to wait", kind("podOpsLifecycle: {whenBusy: wait}\ncpuPressure: {}"), "spec.podOpsLifecycle.whenBusy"},
	{"pod operations, an unknown end", kind("podOpsLifecycle: {onConcurrentOperation: Abort}\ncpuPressure: {}"), "spec.podOpsLifecycle.onConcurrentOperation"},
	{"pod operations waited for no time", kind("podOpsLifecycle: {busyTimeoutSeconds: 0}\ncpuPressure: {}"), "spec.podOpsLifecycle.busyTimeoutSeconds"},
	{"pod operations waited for more than a day", kind("podOpsLifecycle: {busyTimeoutSeconds: 86401}\ncpuPressure: {}"), "spec.podOpsLifecycle.busyTimeoutSeconds"},
	{"pod operations of its own", kind("podOpsLifecycle: {policy: Participate, operatingTimeoutSeconds: 1, availableTimeoutSeconds: 86400, unmanagedPods: Skip, whenUnavailable: Proceed}\ncpuPressure: {}"), ""},
	{"pod operations of its own at their defaults", kind("podOpsLifecycle: {policy: Participate, operatingTimeoutSeconds: null, availableTimeoutSeconds: null, unmanagedPods: \"\", whenUnavailable: \"\"}\ncpuPressure: {}"), ""},
	{"pod operations, an unknown word on unmanaged pods", kind("podOpsLifecycle: {unmanagedPods: Ignore}\ncpuPressure: {}"), "spec.podOpsLifecycle.unmanagedPods"},
	{"pod operations, an unknown word on a missing driver", kind("podOpsLifecycle: {whenUnavailable: Wait}\ncpuPressure: {}"), "spec.podOpsLifecycle.whenUnavailable"},
	{"pod operations given for no time", kind("podOpsLifecycle: {operatingTimeoutSeconds: 0}\ncpuPressure: {}"), "spec.podOpsLifecycle.operatingTimeoutSeconds"},
	{"pod operations available for more than a day", kind("podOpsLifecycle: {availableTimeoutSeconds: 86401}\ncpuPressure: {}"), "spec.podOpsLifecycle.availableTimeoutSeconds"},
	{"an operation on pods that wait to start", kind("podOpsLifecycle: {policy: Participate}\nonInit: true\nnetwork: {drop: 5}"), "a pod that waits for onInit was never in service: set policy to Respect, or remove onInit"},
	{"an operation on pods that are replaced", kind("podOpsLifecycle: {policy: Participate}\npodReplacement: {}"), "podReplacement ends its targets, which nobody gives back: set policy to Respect"},
	{"pod operations at level node", kind("level: node\npodOpsLifecycle: {}\ncpuPressure: {}"), "podOpsLifecycle is about pods: set level to pod, or remove it"},

	// Budgets.
	{"budgets, an empty word", kind("podDisruptionBudget: \"\"\ncpuPressure: {}"), ""},
	{"budgets ignored at level node", kind("level: node\npodDisruptionBudget: Ignore\ncpuPressure: {}"), ""},
	{"budgets respected at level node", kind("level: node\npodDisruptionBudget: Respect\ncpuPressure: {}"), "podDisruptionBudget is about pods: set level to pod, or remove it"},
	{"budgets, an unknown policy", kind("podDisruptionBudget: respect\ncpuPressure: {}"), "spec.podDisruptionBudget"},

	// Strictness.
	{"unknown field of the spec", kind("cpuPresure: {}\ncpuPressure: {}"), "cpuPresure"},
	{"unknown field of a kind", kind("cpuPressure: {cores: 1}"), "cores"},
	{"field in another case", kind("dryrun: true\ncpuPressure: {}"), "dryrun"},
	{"fields that were withdrawn", network("flow: ingress"), "flow"},
	{"name of 63 characters", whole(strings.Repeat("a", 63)), ""},
	{"name of 64 characters", whole(strings.Repeat("a", 64)), "use at most 63 characters"},
}

func dns(kindOf, value string) string {
	return kind("dns: {records: [{hostname: a.example, record: {type: " + kindOf + ", value: \"" + value + "\"}}]}")
}

// hosts are n hosts, each with a name of so many characters.
func hosts(n, characters int) string {
	host := "{host: " + strings.Repeat("a", characters) + ", port: 5432, protocol: tcp}"
	return strings.Repeat(host+", ", n-1) + host
}

func whole(name string) string {
	return "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: " + name +
		", namespace: default, labels: {team: checkout}}\nspec: {count: 1, selector: {app: shop}, cpuPressure: {}}\n"
}

func paths(n int) string {
	var list []string
	for i := range n {
		list = append(list, "/"+strings.Repeat("a", i+1))
	}
	return strings.Join(list, ", ")
}
