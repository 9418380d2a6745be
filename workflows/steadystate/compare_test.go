package steadystate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The answers of targets and control group are reported with the difference, over all
// runs of the workflow, and change no verdict.
func TestComparison(t *testing.T) {
	compared := func(targets, control contract.Answers) contract.ProbeReport {
		report := reported("shop", v1beta1.ProbeSuccess, 1, "x")
		report.Comparison = &contract.Comparison{Pods: 3, Failing: 1, Targets: targets, Control: control}
		return report
	}
	slow := reported("slow", v1beta1.ProbeSuccess, 1, "x")
	for _, test := range []struct {
		name    string
		chosen  int
		do      func(*Course, v1beta1.SteadyState)
		want    *v1beta1.ProbeComparison
		summary string
	}{
		{"a difference", 3, func(c *Course, spec v1beta1.SteadyState) {
			report(in, compared(contract.Answers{Successes: 60, Failures: 40}, contract.Answers{Successes: 199, Failures: 1}), slow)(c, spec)
		}, &v1beta1.ProbeComparison{ControlPods: 3, ControlFailing: 1, TargetAnswers: 100, ControlAnswers: 200, TargetsFailedPercent: 40, ControlFailedPercent: 1, Difference: 39},
			" Probe shop: 40% of the targets' answers failed, 1% of the control group's, a difference of +39 points."},
		{"the last word, after the phase", 3, func(c *Course, spec v1beta1.SteadyState) {
			report(in, compared(contract.Answers{Successes: 1}, contract.Answers{Successes: 1}), slow)(c, spec)
			end(false)(c, spec)
			c.CompareAtEnd([]contract.ProbeReport{compared(contract.Answers{Successes: 50}, contract.Answers{Successes: 30, Failures: 30})})
		}, &v1beta1.ProbeComparison{ControlPods: 3, ControlFailing: 1, TargetAnswers: 50, ControlAnswers: 60, ControlFailedPercent: 50, Difference: -50},
			"a difference of -50 points."},
		{"several runs", 3, func(c *Course, spec v1beta1.SteadyState) {
			for range 3 {
				c.KeepCompared()
				c.KeepCompared()
				c.CompareAtEnd([]contract.ProbeReport{compared(contract.Answers{Failures: 10}, contract.Answers{Successes: 10})})
			}
		}, &v1beta1.ProbeComparison{ControlPods: 3, ControlFailing: 1, TargetAnswers: 30, ControlAnswers: 30, TargetsFailedPercent: 100, Difference: 100},
			"a difference of +100 points."},
		{"no answer of the control group", 3, func(c *Course, spec v1beta1.SteadyState) {
			report(in, compared(contract.Answers{Failures: 10}, contract.Answers{}), slow)(c, spec)
		}, nil, " The control group was not asked: the verdict is without it."},
		{"none was left", 0, func(*Course, v1beta1.SteadyState) {}, nil, " No pod was left for the control group: the verdict is without it."},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := two(v1beta1.ProbeAbort)
			c := Course{Control: &ControlGroup{Wanted: 3, Chosen: test.chosen}}
			begin(in)(&c, spec)
			verdict := c.Verdict(spec)
			test.do(&c, spec)
			status := c.Status(spec, true, noon)
			if diff := cmp.Diff(test.want, status.Probes[0].Comparison); diff != "" {
				t.Errorf("comparison (-want +got):\n%s", diff)
			}
			if !strings.HasSuffix(status.Summary, test.summary) || status.Verdict != verdict {
				t.Errorf("%s: %q, want %s and %q at its end", status.Verdict, status.Summary, verdict, test.summary)
			}
			if group := status.ControlGroup; group == nil || group.Wanted != 3 || group.Chosen != test.chosen {
				t.Errorf("control group %+v", group)
			}
		})
	}
	if summary := new(Course).Summary(two(v1beta1.ProbeAbort), true); strings.Contains(summary, "control group") {
		t.Errorf("without a control group: %q", summary)
	}
}
