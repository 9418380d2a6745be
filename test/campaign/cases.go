package campaign

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/sample"
)

// bases are valid specs, which together have every part that a spec can have.
// {slot} becomes the label of the one pod that is theirs, {node} a node.
var bases = []basis{
	{"cpu", "{selector: {slot: '{slot}'}, cpuPressure: {count: 10%}, count: 1, duration: 30s, filter: {annotations: {chosen: 'yes'}}, maxRuns: 2, maxLostTargets: 1}"},
	{"advanced", "{selector: {campaign: 'yes'}, advancedSelector: [{key: slot, operator: In, values: ['{slot}']}], cpuPressure: {count: 1}, count: 100%, duration: 30s, containers: [target], unsafeMode: {config: {countTooLarge: {namespaceThreshold: 90, clusterThreshold: 90}}}}"},
	{"memory", "{selector: {slot: '{slot}'}, memoryPressure: {targetPercent: 40%, rampDuration: 1s}, count: 1, duration: 30s, reporting: {slackChannel: chaos, purpose: the campaign of tests, minNotificationType: Error, slackUserEmail: a@example.com}}"},
	{"disk", "{selector: {slot: '{slot}'}, diskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576, readBytesPerSec: 1048576, readIOPSPerSec: 100, writeIOPSPerSec: 100}}, count: 1, duration: 30s}"},
	{"disk-failure", "{selector: {slot: '{slot}'}, diskFailure: {paths: [/data], openat: {exitCode: EPERM}, probability: 10%}, count: 1, duration: 30s}"},
	{"dns", "{selector: {slot: '{slot}'}, dns: {port: 53, protocol: udp, records: [{hostname: first.example.com, record: {type: A, value: 192.0.2.77, ttl: 5}}]}, count: 1, duration: 30s}"},
	{"grpc", "{selector: {slot: '{slot}'}, grpc: {port: 50051, endpoints: [{endpoint: /shop.Cart/Add, error: CANCELED, queryPercent: 50}]}, count: 1, duration: 30s}"},
	{"grpc-override", "{selector: {slot: '{slot}'}, grpc: {port: 50051, endpoints: [{endpoint: /shop.Cart/Add, override: '{}', queryPercent: 50}]}, count: 1, duration: 30s}"},
	{"container", "{selector: {slot: '{slot}'}, containerFailure: {forced: true, interval: 20s}, maxRuns: 2, count: 1, duration: 30s}"},
	{"network", "{selector: {slot: '{slot}'}, network: {drop: 10, hosts: [{host: 192.0.2.1, port: 80, protocol: tcp, flow: egress, connState: new, percentage: 50, dnsResolver: pod}], allowedHosts: [{host: 192.0.2.2, port: 81, protocol: udp, flow: egress, connState: est, percentage: 100, dnsResolver: pod}]}, count: 1, duration: 30s}"},
	{"network-operations", "{selector: {slot: '{slot}'}, network: {delay: 20, delayJitter: 5, duplicate: 5, corrupt: 5, bandwidthLimit: 1000000, hosts: [{host: 192.0.2.1}]}, count: 1, duration: 30s}"},
	{"network-services", "{selector: {slot: '{slot}'}, network: {drop: 10, services: [{name: made-up, namespace: '{namespace}', percentage: 10, ports: [{name: web, port: 80}]}]}, count: 1, duration: 30s}"},
	{"network-cloud", "{selector: {slot: '{slot}'}, network: {drop: 10, cloud: {aws: [{service: S3, protocol: tcp, flow: egress, connState: new}], gcp: [{service: Google, protocol: tcp, flow: egress, connState: new}], datadog: [{service: synthetics, protocol: tcp, flow: egress, connState: new}]}}, count: 1, duration: 30s}"},
	{"network-http", "{selector: {slot: '{slot}'}, network: {drop: 10, http: {methods: [GET], paths: [/cart]}}, count: 1, duration: 30s}"},
	{"pulse", "{selector: {slot: '{slot}'}, network: {drop: 10, hosts: [{host: 192.0.2.1}]}, pulse: {initialDelay: 1s, activeDuration: 2s, dormantDuration: 2s}, triggers: {createPods: {offset: 1s}, inject: {offset: 2s}}, count: 1, duration: 30s}"},
	{"node", "{level: node, selector: {kubernetes.io/hostname: '{node}'}, cpuPressure: {count: 10%}, dryRun: true, count: 1, duration: 30s}"},
	{"node-failure", "{level: node, selector: {kubernetes.io/hostname: '{node}'}, nodeFailure: {shutdown: false}, dryRun: true, count: 1, duration: 30s}"},
	{"replacement", "{selector: {slot: '{slot}'}, podReplacement: {deleteStorage: false, forceDelete: false, gracePeriodSeconds: 1}, dryRun: true, count: 1, duration: 30s}"},
	{"operations", "{selector: {slot: '{slot}'}, cpuPressure: {count: 10%}, podOpsLifecycle: {policy: Respect, whenBusy: Skip, onConcurrentOperation: Release, unmanagedPods: Proceed, whenUnavailable: Proceed, busyTimeoutSeconds: 5, operatingTimeoutSeconds: 5, availableTimeoutSeconds: 5}, podDisruptionBudget: Respect, count: 1, duration: 30s}"},
	{"probes", `{selector: {slot: '{slot}'}, cpuPressure: {count: 10%}, count: 1, duration: 30s, steadyState: {gateTimeoutSeconds: 5, recoveryTimeoutSeconds: 1, onProberLost: Record, controlGroup: 1, probes: [
	  {name: web, scope: PerTarget, phases: [During], onFailure: Record, initialDelaySeconds: 1, periodSeconds: 1, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 2, budget: {percent: 50, window: 10s}, httpGet: {scheme: HTTP, port: 8080, path: /, httpHeaders: [{name: X-A, value: b}]}},
	  {name: open, scope: PerTarget, phases: [During], onFailure: Record, tcpSocket: {port: 8080}}]}}`},
	{"probes-once", `{selector: {slot: '{slot}'}, cpuPressure: {count: 10%}, count: 1, duration: 30s, steadyState: {gateTimeoutSeconds: 5, probes: [
	  {name: ready, onFailure: Record, phases: [During], podsReady: {min: 1, selector: {slot: '{slot}'}}},
	  {name: http, onFailure: Record, phases: [During], httpGet: {host: 'a.{namespace}.svc', port: 80}},
	  {name: tcp, onFailure: Record, phases: [During], tcpSocket: {host: 'a.{namespace}.svc', port: 80}},
	  {name: grpc, onFailure: Record, phases: [During], grpc: {host: 'a.{namespace}.svc', port: 80, service: shop}}]}}`},
	{"probes-of-operators", `{selector: {slot: '{slot}'}, cpuPressure: {count: 10%}, count: 1, duration: 30s, steadyState: {gateTimeoutSeconds: 5, probes: [
	  {name: run, onFailure: Record, phases: [During], scope: PerTarget, exec: {command: ['true']}},
	  {name: value, onFailure: Record, phases: [During], prometheus: {query: up, comparison: '> 0'}}]}}`},
}

type basis struct{ name, spec string }

// attempt is a spec with one field changed.
type attempt struct {
	base string
	// field is the path of the changed field, empty where nothing is changed.
	field string
	value any
	spec  map[string]any
	// next is the same with the field's next value: an edit while it runs.
	next map[string]any
	// valid is true where Squall's own check takes the spec. The schema, which only an
	// API server has, may refuse some that it takes.
	valid bool
}

func (a attempt) String() string {
	if a.field == "" {
		return a.base
	}
	return fmt.Sprintf("%s: %s = %.40q", a.base, a.field, fmt.Sprint(a.value))
}

// mostBases is in how many bases a field is changed.
const mostBases = 2

// attempts are all that can be made of the bases, those without a change first.
func attempts(fields []field) []attempt {
	var all, unchanged []attempt
	for _, b := range bases {
		unchanged = append(unchanged, attempt{base: b.name, spec: parse(b.spec)})
	}
	for _, f := range fields {
		values, tried := f.values(), 0
		for _, base := range havingFirst(unchanged, f.path) {
			before := len(all)
			for i, value := range values {
				a := attempt{base: base.base, field: f.path, value: value, spec: runtime.DeepCopyJSON(base.spec), next: runtime.DeepCopyJSON(base.spec)}
				if set(a.spec, f.path, value) && set(a.next, f.path, values[(i+1)%len(values)]) && !dangerous(a.spec) && !dangerous(a.next) {
					a.valid = valid(a.spec)
					all = append(all, a)
				}
			}
			if len(all) > before {
				tried++
			}
			if tried == mostBases || tried == 1 && !has(base.spec, f.path) {
				break
			}
		}
	}
	return append(unchanged, all...)
}

// sampled are most of the attempts, or all of them for 0, in an order that follows
// from the seed. The bases come first; each must work or explain why it does not.
// Then attempts with a valid change alternate with attempts with an invalid one,
// so that a sample of any seed has each sort of outcome.
func sampled(all []attempt, most int, seed sample.Seed) []attempt {
	rank := make(map[string]uint64, len(all))
	for _, a := range all {
		rank[a.String()] = seed.Rank(a.String())
	}
	var chosen, valid, invalid []attempt
	for _, a := range all {
		switch {
		case a.field == "":
			chosen = append(chosen, a)
		case a.valid:
			valid = append(valid, a)
		default:
			invalid = append(invalid, a)
		}
	}
	for _, part := range [][]attempt{valid, invalid} {
		slices.SortStableFunc(part, func(a, b attempt) int { return cmp.Compare(rank[a.String()], rank[b.String()]) })
	}
	for i := range max(len(valid), len(invalid)) {
		chosen = append(chosen, valid[min(i, len(valid)):min(i+1, len(valid))]...)
		chosen = append(chosen, invalid[min(i, len(invalid)):min(i+1, len(invalid))]...)
	}
	if most > 0 {
		return chosen[:min(most, len(chosen))]
	}
	return chosen
}

// valid reports whether Squall's own check accepts a spec.
func valid(spec map[string]any) bool {
	text, err := yaml.Marshal(spec)
	if err != nil {
		return false
	}
	d := v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	if yaml.UnmarshalStrict([]byte(examples.Replace(string(text))), &d.Spec) != nil {
		return false
	}
	d.Default()
	return len(d.Validate()) == 0
}

// examples has something for what only a run knows.
var examples = strings.NewReplacer("{slot}", "1", "{node}", "a", "{namespace}", "shop")

// missing are the outcomes that some attempts must have had and none had. A sample
// has all bases, of which most work and some cannot, and specs that are refused.
func missing(counts map[string]int, made int) (missing []string) {
	const enough = 200 // attempts, for each way to end without an injection
	if counts["ended"]+counts["explained"]+counts["rejected"] == 0 {
		missing = append(missing, "accepted and not injected")
	}
	for _, what := range []string{"refused", "injected", "ended", "explained"} {
		if counts[what] == 0 && (made > enough || what == "refused" || what == "injected") {
			missing = append(missing, what)
		}
	}
	return missing
}

// havingFirst are the bases, those first that have the field.
func havingFirst(all []attempt, path string) []attempt {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b attempt) int {
		switch first, second := has(a.spec, path), has(b.spec, path); {
		case first && !second:
			return -1
		case second && !first:
			return 1
		}
		return 0
	})
	return all
}

// dangerous is what would be done to this machine, as all nodes of the development
// cluster share its kernel: the end of a node, and faults of a node other than a
// little work for its processors.
func dangerous(spec map[string]any) bool {
	if spec["dryRun"] == true {
		return false
	}
	return spec["nodeFailure"] != nil || spec["level"] == "node" && spec["cpuPressure"] == nil
}

func parse(text string) map[string]any {
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err)) // of ours
	}
	return spec
}
