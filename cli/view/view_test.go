package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/golden"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }

func made(name string, change func(*v1beta1.Disruption)) v1beta1.Disruption {
	d := v1beta1.Disruption{}
	d.Namespace, d.Name, d.CreationTimestamp = "shop", name, *at(-90 * time.Second)
	d.Spec.Network = &v1beta1.NetworkDisruption{Drop: 20}
	if change != nil {
		change(&d)
	}
	return d
}

func with(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
}

// disruptions are one of each sort.
func disruptions() []v1beta1.Disruption {
	injected := func(s v1beta1.InjectionStatus, reason string) map[v1beta1.Kind]v1beta1.TargetInjection {
		return map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindNetwork: {InjectionStatus: s, Reason: reason}}
	}
	return []v1beta1.Disruption{
		made("new", nil),
		made("finished", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.Ending, d.Status.CleanedAt = v1beta1.PhaseFinished, "expired", at(-time.Second)
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionInjected, metav1.ConditionFalse, "Ended", "it has ended"),
				with(v1beta1.ConditionCleaned, metav1.ConditionFalse, "NotVerified", "node n1 could not be looked at")}
		}),
		made("holding", func(d *v1beta1.Disruption) {
			d.Status = v1beta1.DisruptionStatus{
				Phase: v1beta1.PhaseHolding, Targets: "2/3", InjectionStatus: v1beta1.PartiallyInjected, ExpiryTime: at(10 * time.Minute), InjectedTime: at(-time.Minute),
				DesiredTargetsCount: 4, SelectedTargetsCount: 3, IgnoredTargetsCount: 7, Workflow: &v1beta1.WorkflowRef{ID: "disruption/shop/holding/u"},
				TargetInjections: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
					"web-0": {v1beta1.KindNetwork: {InjectionStatus: v1beta1.Injected, Effect: &v1beta1.Effect{State: v1beta1.EffectProven, Evidence: "12 of 40 dropped"}}},
					"web-1": injected(v1beta1.NotInjected, "no such interface"), "web-2": injected(v1beta1.Injected, ""),
				},
				Conditions: []metav1.Condition{with(v1beta1.ConditionEffectVerified, metav1.ConditionUnknown, "NothingMatchedYet", "1 of 3 targets"),
					with(v1beta1.ConditionInjected, metav1.ConditionFalse, "InjectionFailed", "web-1: no such interface")},
			}
		}),
		made("away", func(d *v1beta1.Disruption) {
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionOrchestrated, metav1.ConditionFalse, "TemporalUnreachable", "connection refused")}
		}),
		made("rejected", func(d *v1beta1.Disruption) {
			d.Status.Phase = v1beta1.PhaseRejected
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionAccepted, metav1.ConditionFalse, "InvalidSpec", "no kind")}
		}),
		made("guarded", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.Targets, d.Status.ExpiryTime = v1beta1.PhaseHolding, "2/2", at(-time.Second)
			d.Status.SteadyState = &v1beta1.SteadyStateStatus{Phase: v1beta1.ProbeDuring, Probes: []v1beta1.ProbeStatus{
				{Name: "answers", State: v1beta1.ProbeFailure, Text: "503", Targets: 2, Failing: 1}, {Name: "orders", State: v1beta1.ProbeSuccess}, {Name: "new"}}}
		}),
		made("in-turn", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.Targets, d.Status.InjectionStatus = v1beta1.PhaseInjecting, "0/1", v1beta1.NotInjected
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionInjected, metav1.ConditionFalse, v1beta1.ReasonWaitingForCordon, "0 of 1 targets are injected: web-0: waits since noon to cordon node n1")}
		}),
		made("full", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.InjectionStatus = v1beta1.PhaseCleaning, v1beta1.PreviouslyInjected
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionCleaned, metav1.ConditionFalse, v1beta1.ReasonWaitingForRoom, "target web-0: the cleaner waits for room on node n1")}
		}),
		made("going", func(d *v1beta1.Disruption) { d.DeletionTimestamp, d.Status.Phase = at(0), v1beta1.PhaseHolding }),
		made("stuck", func(d *v1beta1.Disruption) {
			d.Spec.DryRun = true
			d.Status.Phase, d.Status.IsStuckOnRemoval = v1beta1.PhaseHolding, true
			d.Status.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{"web-9": injected(v1beta1.IsStuckOnRemoval, "busy")}
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionStuckOnRemoval, metav1.ConditionTrue, "CleaningFailed", "web-9: busy")}
			d.Status.Resumes = []v1beta1.ResumeRecord{{Action: "retry", By: "ann", Reason: "mended"}, {Action: "release", Targets: []string{"web-9"}, By: "bob", Reason: "scrapped"}}
			for i := range 25 {
				d.Status.TargetInjections[fmt.Sprintf("web-1%02d", i)] = injected(v1beta1.Injected, "")
			}
		}),
	}
}

// toned shows tones where a terminal shows colours.
func toned(tone Tone, text string) string {
	if tone == Plain || text == "" {
		return text
	}
	return []string{"", "+", "~", "!", "."}[tone] + text
}

func TestGoldens(t *testing.T) {
	var described strings.Builder
	for _, d := range disruptions() {
		for _, line := range Disruption(&d, now, false) {
			fmt.Fprintf(&described, "%-9s %s\n", line.Name, toned(line.Tone, line.Text))
		}
		described.WriteString("\n")
	}
	var progress strings.Builder
	for _, d := range disruptions() {
		_, text := Progress(&d, now)
		fmt.Fprintf(&progress, "%s: %s\n", d.Name, text)
	}
	for name, got := range map[string]string{
		"list":        Grid(List{Now: now}.Rows(disruptions()), toned),
		"list-wide":   Grid(List{Now: now, Namespaces: true, Wide: true}.Rows(disruptions()), toned),
		"progress":    progress.String(),
		"disruptions": described.String(),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, "testdata/"+name+".txt", got)
		})
	}
}

// The result of a disruption that no workflow carried out has the controller's reason.
func TestResultWithoutAWorkflow(t *testing.T) {
	d := made("left", func(d *v1beta1.Disruption) {
		d.DeletionTimestamp = at(0)
		d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionOrchestrated, metav1.ConditionFalse, v1beta1.ReasonNothingLeft, "no workflow began; it was deleted")}
	})
	if got, want := ResultOf(&d), (Result{Aborted, Bad, "no workflow began; it was deleted"}); got != want {
		t.Errorf("ResultOf() = %+v, want %+v", got, want)
	}
}

func TestEveryTargetWhenAskedFor(t *testing.T) {
	all := disruptions()
	stuck := all[len(all)-1]
	count := func(everything bool) (n int) {
		for _, line := range Disruption(&stuck, now, everything) {
			if strings.HasPrefix(line.Text, "web-") {
				n++
			}
		}
		return n
	}
	if some, all := count(false), count(true); some != mostTargets || all != 26 {
		t.Errorf("targets = %d, all %d; want %d and 26", some, all, mostTargets)
	}
}

func TestResults(t *testing.T) {
	ended := func(change func(*v1beta1.Disruption)) v1beta1.Disruption {
		return made("d", func(d *v1beta1.Disruption) {
			d.Status.Phase, d.Status.Ending, d.Status.InjectedTime = v1beta1.PhaseFinished, "expired", at(0)
			if change != nil {
				change(d)
			}
		})
	}
	verdict := func(v v1beta1.Verdict) func(*v1beta1.Disruption) {
		return func(d *v1beta1.Disruption) {
			d.Spec.SteadyState, d.Status.SteadyState = &v1beta1.SteadyState{}, &v1beta1.SteadyStateStatus{Verdict: v, Summary: "said"}
		}
	}
	for _, test := range []struct {
		name string
		d    v1beta1.Disruption
		want Outcome
	}{
		{"its time was over", ended(nil), Passed},
		{"a dry run", ended(func(d *v1beta1.Disruption) { d.Spec.DryRun, d.Status.InjectedTime = true, nil }), Passed},
		{"never wholly injected", ended(func(d *v1beta1.Disruption) { d.Status.InjectedTime = nil }), Inconclusive},
		{"deleted", ended(func(d *v1beta1.Disruption) { d.DeletionTimestamp = at(0) }), Aborted},
		{"cancelled", ended(func(d *v1beta1.Disruption) { d.Status.Ending = "cancelled" }), Aborted},
		{"its workflow failed", ended(func(d *v1beta1.Disruption) { d.Status.Ending = "failed: no such host" }), Aborted},
		{"stopped", ended(func(d *v1beta1.Disruption) {
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionStopped, metav1.ConditionTrue, "EmergencyStop", "emergency stop all")}
		}), Aborted},
		{"verdict Passed", ended(verdict(v1beta1.VerdictPassed)), Passed},
		{"verdict Failed", ended(verdict(v1beta1.VerdictFailed)), Failed},
		{"verdict Aborted", ended(verdict(v1beta1.VerdictAborted)), Aborted},
		{"verdict Inconclusive", ended(verdict(v1beta1.VerdictInconclusive)), Inconclusive},
		{"no verdict was reached", ended(verdict("")), Inconclusive},
		{"rejected", ended(func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseRejected }), Rejected},
		{"stuck, whatever its verdict", ended(func(d *v1beta1.Disruption) {
			verdict(v1beta1.VerdictPassed)(d)
			d.Status.IsStuckOnRemoval = true
		}), IsStuck},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ResultOf(&test.d); got.Outcome != test.want || got.Why == "" {
				t.Errorf("ResultOf() = %+v, want %s", got, test.want)
			}
		})
	}
}

// A result that passed with less than wanted shows that.
func TestAResultThatIsLessThanAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		targets, effect string
		tone            Tone
		want            string
	}{
		"all of it":          {"2/2", "Proven", Good, ""},
		"fewer targets":      {"1/2", "Proven", Careful, "on 1 of 2 targets"},
		"nothing came by it": {"2/2", "NothingMatchedYet", Careful, "matched nothing: no packet"},
	} {
		t.Run(name, func(t *testing.T) {
			d := made("d", func(d *v1beta1.Disruption) {
				d.Status.Phase, d.Status.Ending, d.Status.InjectedTime, d.Status.Targets = v1beta1.PhaseFinished, "expired", at(0), test.targets
				d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionEffectVerified, metav1.ConditionUnknown, test.effect, "no packet")}
			})
			got := ResultOf(&d)
			if got.Outcome != Passed || got.Tone != test.tone || !strings.Contains(got.Why, test.want) || test.want == "" && strings.Contains(got.Why, ",") {
				t.Errorf("ResultOf() = %+v, want passed, and %q", got, test.want)
			}
		})
	}
}

// Texts of other users cannot control the reader's terminal.
func TestTextsOfOthersAreInert(t *testing.T) {
	got := Grid([][]Cell{{{Text: "a\x1b]0;title\x07\u009bb\nc"}, {Text: "d"}}}, func(_ Tone, text string) string { return text })
	if want := "a\ufffd]0;title\ufffd\ufffdb c   d\n"; got != want {
		t.Errorf("Grid() = %q, want %q", got, want)
	}
}

// The hint for a rejection by a rule or a stop does not blame the manifest.
func TestHintsForRejected(t *testing.T) {
	for reason, want := range map[string]string{
		"InvalidSpec": "fix the manifest", v1beta1.ReasonDenied: "time window", v1beta1.ReasonEmergencyStop: "squall estop", "MissingRights": "operator of Squall",
	} {
		d := made("d", func(d *v1beta1.Disruption) {
			d.Status.Conditions = []metav1.Condition{with(v1beta1.ConditionAccepted, metav1.ConditionFalse, reason, "why")}
		})
		if got := hintForRejected(&d); !strings.Contains(got, want) {
			t.Errorf("%s: hint = %q, want %q", reason, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		part, whole int
		want        string
	}{{0, 0, "[----]"}, {0, 3, "[----]"}, {1, 2, "[##--]"}, {5, 3, "[####]"}, {-1, 3, "[----]"}} {
		if got := Bar(test.part, test.whole, 4); got != test.want {
			t.Errorf("Bar(%d, %d) = %s, want %s", test.part, test.whole, got, test.want)
		}
	}
}
