package v1beta1

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The rules here refuse specs that no node can run, with any kernel: without them a
// disruption would fail on each of its targets. The injector refuses only what depends on
// a kernel, a node or a target.

// podResolver is about names that the pod is to resolve where there is no pod.
var podResolver = Combination{
	Rule: "!has(self.level) || self.level != 'node' || !has(self.network) || !(" +
		"(has(self.network.hosts) && self.network.hosts.exists(h, has(h.dnsResolver) && h.dnsResolver == 'pod')) || " +
		"(has(self.network.allowedHosts) && self.network.allowedHosts.exists(h, has(h.dnsResolver) && h.dnsResolver == 'pod')))",
	Message:   "dnsResolver pod: a node has no pod to resolve names: use node",
	FieldPath: "network",
	broken: func(s DisruptionSpec) bool {
		byPod := func(h NetworkHost) bool { return h.DNSResolver == "pod" }
		return s.Level == LevelNode && s.Network != nil &&
			(slices.ContainsFunc(s.Network.Hosts, byPod) || slices.ContainsFunc(s.Network.AllowedHosts, byPod))
	},
}

// toParent is a path with an element "..".
var toParent = regexp.MustCompile(`(^|/)[.][.](/|$)`)

// upwards is about paths of a node whose ".." may lead to its root. The injector
// takes only a path that is written as the root for one.
var upwards = Combination{
	Rule: "!has(self.level) || self.level != 'node' || !has(self.diskFailure) || " +
		"!self.diskFailure.paths.exists(p, p.trim().matches('" + toParent.String() + "'))",
	Message:   `at level node ".." in a path could lead to the root of the node: write the path without it`,
	FieldPath: "diskFailure.paths",
	broken: func(s DisruptionSpec) bool {
		return s.Level == LevelNode && s.DiskFailure != nil && slices.ContainsFunc(s.DiskFailure.Paths, func(p string) bool {
			return toParent.MatchString(strings.TrimSpace(p))
		})
	},
}

// leastOfNode is about limits that are enough for a pod, and too low for a node.
var leastOfNode = Combination{
	Rule: fmt.Sprintf("!has(self.level) || self.level != 'node' || !has(self.diskPressure) || !has(self.diskPressure.throttling) || "+
		"[self.diskPressure.throttling].all(t, %s && %s && %s && %s)",
		enough("t.readBytesPerSec", nodeBytesPerSec), enough("t.writeBytesPerSec", nodeBytesPerSec),
		enough("t.readIOPSPerSec", nodeIOPSPerSec), enough("t.writeIOPSPerSec", nodeIOPSPerSec)),
	Message: fmt.Sprintf("at level node want at least %d bytes and %d operations per second, or 0 for no limit: below that the node stands still",
		nodeBytesPerSec, nodeIOPSPerSec),
	FieldPath: "diskPressure.throttling",
	broken: func(s DisruptionSpec) bool {
		if s.Level != LevelNode || s.DiskPressure == nil {
			return false
		}
		_, low := s.DiskPressure.Throttling.TooLow(LevelNode)
		return low
	},
}

// enough is the CEL expression that is true of a limit that is not asked for, or of at
// least so much.
func enough(field string, least int64) string {
	return fmt.Sprintf("(!has(%[1]s) || %[1]s <= 0 || %[1]s >= %[2]d)", field, least)
}

// pulsesNever is about a pulse that begins when the disruption has ended.
var pulsesNever = Combination{
	Rule: fmt.Sprintf("!has(self.pulse) || !has(self.pulse.initialDelay) || !has(self.pulse.activeDuration) || !has(self.pulse.dormantDuration) || %s < %s",
		CELDuration("self.pulse.initialDelay", "duration('0s')"), CELDuration("self.duration", "duration('"+DefaultDuration.String()+"')")),
	Message:   "pulse.initialDelay is not shorter than duration, so nothing would be injected: shorten it, or lengthen duration",
	FieldPath: "pulse.initialDelay",
	broken: func(s DisruptionSpec) bool {
		return s.Beats() != nil && s.Pulse.InitialDelay != nil && s.Pulse.InitialDelay.Duration >= s.lasts()
	},
}

// lasts is duration with its default.
func (s DisruptionSpec) lasts() time.Duration {
	if s.Duration == nil {
		return DefaultDuration
	}
	return s.Duration.Duration
}

// CELDuration is the CEL expression of the duration in a field, which is a string or a
// number of nanoseconds. Another rule refuses other values. The expression reads the
// field once: map gives it a name.
func CELDuration(field, absent string) string {
	return fmt.Sprintf("(!has(%[1]s) ? %[2]s : [%[1]s].map(d, type(d) == int ? duration(string(d) + 'ns') : "+
		"d.matches('^[-+]?([0-9.]+(ns|us|µs|μs|ms|s|m|h))+$') ? duration(d) : duration('0s'))[0])", field, absent)
}
