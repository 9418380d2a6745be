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
		v1beta1.CELDuration("self.duration", "duration('"+v1beta1.DefaultDuration.String()+"')"),
		"(has(self.triggers.createPods) ? "+v1beta1.CELDuration("self.triggers.createPods.offset", "duration('0s')")+" : duration('0s'))",
		"(has(self.triggers.inject) ? "+v1beta1.CELDuration("self.triggers.inject.offset", "duration('0s')")+" : duration('0s'))")
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
			v1beta1.CELDuration("self.containerFailure.interval", "duration('0s')"),
			v1beta1.CELDuration("self.duration", "duration('"+v1beta1.DefaultDuration.String()+"')")),
		"message":   v1beta1.RepeatsNothing,
		"fieldPath": ".containerFailure.interval",
	}
}
