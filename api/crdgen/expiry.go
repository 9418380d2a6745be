package main

import (
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// tooLong is the rule on spec that refuses a disruption that ends too late,
// counted from its creation. Nothing in a CRD knows the time, so moments of
// triggers do not count here; an admission policy judges these.
func tooLong() map[string]any {
	lasts := fmt.Sprintf("%s + (has(self.triggers) ? %s + %s : duration('0s'))",
		lengthOf("self.duration", "duration('"+v1beta1.DefaultDuration.String()+"')"),
		"(has(self.triggers.createPods) ? "+lengthOf("self.triggers.createPods.offset", "duration('0s')")+" : duration('0s'))",
		"(has(self.triggers.inject) ? "+lengthOf("self.triggers.inject.offset", "duration('0s')")+" : duration('0s'))")
	most := int(v1beta1.Longest.Hours())
	return map[string]any{
		"rule":              fmt.Sprintf("%s <= duration('%dh')", lasts, most),
		"message":           v1beta1.EndsTooLate("too long"),
		"messageExpression": fmt.Sprintf("'%s'.format([(%s + duration('59m59s')).getHours()])", v1beta1.EndsTooLate("%dh"), lasts),
		"fieldPath":         ".duration",
	}
}

// repeatsNothing is the rule on spec that refuses an interval as long as the
// disruption.
func repeatsNothing() map[string]any {
	return map[string]any{
		"rule": fmt.Sprintf("!has(self.containerFailure) || !has(self.containerFailure.interval) || %s < %s",
			lengthOf("self.containerFailure.interval", "duration('0s')"),
			lengthOf("self.duration", "duration('"+v1beta1.DefaultDuration.String()+"')")),
		"message":   v1beta1.RepeatsNothing,
		"fieldPath": ".containerFailure.interval",
	}
}

// lengthOf is a CEL expression: the duration in a field, which is a string or a
// number of nanoseconds. What is no duration is refused elsewhere. The field is
// looked for once: map gives it a name.
func lengthOf(field, absent string) string {
	return fmt.Sprintf("(!has(%[1]s) ? %[2]s : [%[1]s].map(d, type(d) == int ? duration(string(d) + 'ns') : "+
		"d.matches('^[-+]?([0-9.]+(ns|us|µs|μs|ms|s|m|h))+$') ? duration(d) : duration('0s'))[0])", field, absent)
}
