package disruption

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The bridge informs a disruption that lacks targets of policies, and no other.
func TestObserveReportsPolicies(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1beta1.Disruption)
		want   bool
	}{
		{"it wants more targets", func(*v1beta1.Disruption) {}, true},
		{"static, and it has none", func(d *v1beta1.Disruption) { d.Spec.StaticTargeting, d.Status.SelectedTargetsCount = true, 0 }, true},
		{"static, and it has some", func(d *v1beta1.Disruption) { d.Spec.StaticTargeting = true }, false},
		{"it has all that it wants", func(d *v1beta1.Disruption) { d.Status.SelectedTargetsCount = 2 }, false},
		{"it ends", func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseCleaning }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := holding()
			s.d.Status.DesiredTargetsCount, s.d.Status.SelectedTargetsCount = 2, 1
			test.change(s.d)
			s.d.Status.SpecHash = s.d.Spec.Hash()
			seen := s.snapshot()
			hashOf := func(generations ...int64) string {
				seen.policies = nil
				for _, generation := range generations {
					seen.policies = append(seen.policies, v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Generation: generation}})
				}
				return observe(seen).Hash
			}
			if changed := hashOf(1) != hashOf(2); changed != test.want {
				t.Errorf("of an edit it is informed %t, want %t", changed, test.want)
			}
			if changed := hashOf(1) != hashOf(); changed != test.want {
				t.Errorf("of a deletion it is informed %t, want %t", changed, test.want)
			}
		})
	}
}

// A changed policy wakes disruptions of either level that lack targets, and no other.
func TestAPolicyWakesWhoLacksTargets(t *testing.T) {
	b := newBridge(t).start()
	short, full := b.Disrupt("short"), b.Disrupt("full")
	nodes := b.Disrupt("nodes", func(d *v1beta1.Disruption) {
		d.Spec.Level, d.Spec.Faults = v1beta1.LevelNode, v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}
	})
	for d, selected := range map[*v1beta1.Disruption]int{short: 1, nodes: 1, full: 2} {
		b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
			s.Phase, s.SpecHash = v1beta1.PhaseHolding, d.Spec.Hash()
			s.DesiredTargetsCount, s.SelectedTargetsCount = 2, selected
		})
		b.Informed(d)
	}
	b.Quiet()
	last := func(d *v1beta1.Disruption) string { return b.Temporal.LastObservation(d).Hash }
	ofFull := last(full)
	policy := &v1beta1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: b.Namespace},
		Spec:       v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{{Name: "never", Namespaces: []string{b.Namespace}}}},
	}
	t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), policy) }) // it is of the whole cluster
	woken := func(what string, change func() error) {
		t.Helper()
		ofShort, ofNodes := last(short), last(nodes)
		b.Must(change())
		bridgetest.Eventually(t, bridgetest.Soon, what, func() bool { return last(short) != ofShort && last(nodes) != ofNodes })
	}
	woken("of the policy", func() error { return b.Kube.Create(t.Context(), policy) })
	policy.Spec.Rules[0].Name = "other"
	woken("of its edit", func() error { return b.Kube.Update(t.Context(), policy) })
	woken("of its end", func() error { return b.Kube.Delete(t.Context(), policy) })
	b.Quiet()
	if last(full) != ofFull {
		t.Error("a disruption with all its targets is informed of policies")
	}
}

// The end of a window is a change for a disruption that waited for it, and for no other.
// The bridge reconciles when the window ends, not before.
func TestWindowsEnd(t *testing.T) {
	// The disruption lasts from 10:00 to 20:00, and it is 11:00.
	at := func(clock string) time.Time {
		moment, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return moment.AddDate(2026, 10, 24)
	}
	window := func(from, to string) v1beta1.PolicyWindow { return v1beta1.PolicyWindow{From: from, To: to} }
	noon, evening, late, never := window("09:00", "12:00"), window("18:00", "19:00"), window("18:00", "21:00"), window("05:00", "06:00")
	const hour = time.Hour
	for _, test := range []struct {
		name  string
		rules [][]v1beta1.PolicyWindow
		now   string
		// looks is after how long the bridge reconciles again, and changes how many rules
		// wait.
		looks   time.Duration
		changes int
	}{
		{"no window", [][]v1beta1.PolicyWindow{nil}, "11:00", 24 * hour, 0},
		{"one that goes on", [][]v1beta1.PolicyWindow{{noon}}, "11:00", hour + windowLeeway, 1},
		{"its end, by a clock that may be ahead", [][]v1beta1.PolicyWindow{{noon}}, "12:00", windowLeeway, 1},
		{"after its end", [][]v1beta1.PolicyWindow{{noon}}, "12:01", 24 * hour, 0},
		{"another of the rule comes before the disruption ends", [][]v1beta1.PolicyWindow{{noon, evening}}, "11:00", 8*hour + windowLeeway, 1},
		{"another goes on when the disruption ends", [][]v1beta1.PolicyWindow{{noon, late}}, "11:00", 24 * hour, 0},
		{"at another time", [][]v1beta1.PolicyWindow{{never}}, "11:00", 24 * hour, 0},
		{"of two rules the first to end", [][]v1beta1.PolicyWindow{{evening}, {noon}}, "11:00", hour + windowLeeway, 2},
		{"of two rules the other", [][]v1beta1.PolicyWindow{{evening}, {noon}}, "13:00", 6*hour + windowLeeway, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := holding()
			s.d.CreationTimestamp, s.d.Spec.Duration = metav1.NewTime(at("10:00")), &v1beta1.Duration{Duration: 10 * hour}
			s.d.Status.DesiredTargetsCount, s.d.Status.SelectedTargetsCount = 2, 1
			var policy v1beta1.DisruptionPolicy
			for _, windows := range test.rules {
				policy.Spec.Rules = append(policy.Spec.Rules, v1beta1.PolicyRule{Windows: windows})
			}
			seen := s.snapshot()
			seen.at, seen.policies = at(test.now), []v1beta1.DisruptionPolicy{policy}
			if looks := nextWindowEnd(seen, 24*hour); looks != test.looks {
				t.Errorf("it looks again after %s, want %s", looks, test.looks)
			}
			if changes := len(policyChanges(seen)) - 1; changes != test.changes {
				t.Errorf("%d rules wait for the end of a window, want %d", changes, test.changes)
			}
		})
	}
}

// The end of a window wakes disruptions that lack targets, also in a bridge that started
// meanwhile. It wakes no other, and none before.
func TestTheEndOfAWindowWakesWhoLacksTargets(t *testing.T) {
	// The clock stands still just before the bridge counts a window as over, whose end is
	// in the middle of the disruptions' time.
	end := time.Now().UTC().Add(time.Hour).Truncate(time.Minute)
	var clock atomic.Int64
	clock.Store(end.Add(windowLeeway - 50*time.Millisecond).UnixNano())
	b := newBridgeWithClock(t, func() time.Time { return time.Unix(0, clock.Load()) }).start()
	policy := &v1beta1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: b.Namespace},
		Spec: v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{{Name: "hours", Namespaces: []string{b.Namespace},
			Windows: []v1beta1.PolicyWindow{{From: end.Add(-2 * time.Hour).Format("15:04"), To: end.Format("15:04")}}, AtMost: atMost(1)}}},
	}
	b.Must(b.Kube.Create(t.Context(), policy))
	t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), policy) }) // it is of the whole cluster
	short, full := b.Disrupt("short", lasts(6*time.Hour)), b.Disrupt("full", lasts(6*time.Hour))
	for d, selected := range map[*v1beta1.Disruption]int{short: 1, full: 2} {
		b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
			s.Phase, s.SpecHash = v1beta1.PhaseHolding, d.Spec.Hash()
			s.DesiredTargetsCount, s.SelectedTargetsCount = 2, selected
		})
		b.Informed(d)
	}
	b.Quiet()
	last := func(d *v1beta1.Disruption) string { return b.Temporal.LastObservation(d).Hash }
	observed := func(d *v1beta1.Disruption) int { return len(b.Temporal.Signals(d, contract.SignalObserved)) }
	ofShort, ofFull, shortObserved, fullObserved := last(short), last(full), observed(short), observed(full)
	b.Must(b.Stop())
	b.start()
	bridgetest.Eventually(t, bridgetest.Soon, "the next bridge has informed both", func() bool { return observed(short) > shortObserved && observed(full) > fullObserved })
	b.Quiet()
	if last(short) != ofShort {
		t.Error("a bridge that begins reports other changes though the window has not ended")
	}
	shortObserved, fullObserved = observed(short), observed(full)
	clock.Store(end.Add(windowLeeway).UnixNano())
	bridgetest.Eventually(t, bridgetest.Soon, "it is informed of the end", func() bool { return last(short) != ofShort })
	b.Quiet()
	if observed(full) != fullObserved || last(full) != ofFull {
		t.Error("a disruption with all its targets is informed of a window")
	}
	if n := observed(short) - shortObserved; n != 1 {
		t.Errorf("the end of a window is reported %d times, want once", n)
	}
}

func lasts(d time.Duration) func(*v1beta1.Disruption) {
	return func(disruption *v1beta1.Disruption) { disruption.Spec.Duration = &v1beta1.Duration{Duration: d} }
}

func atMost(targets int32) *v1beta1.PolicyLimit { return &v1beta1.PolicyLimit{Targets: &targets} }
