package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/sample"
)

func TestSeed(t *testing.T) {
	t.Setenv(sample.Variable, "77")
	for _, c := range []struct {
		args   []string
		lowest uint64
		most   uint64
	}{{[]string{"-seed", "5"}, 5, 5}, {[]string{"-seed", "0"}, 77, 77}, {nil, 1, 1_000_000}} {
		if o, err := parse(c.args); err != nil || o.seed < c.lowest || o.seed > c.most {
			t.Errorf("parse(%v) has seed %d, %v, want %d to %d", c.args, o.seed, err, c.lowest, c.most)
		}
	}
}

func TestChoicesFollowFromTheSeed(t *testing.T) {
	differ := false
	for n := range 50 {
		if a, b := planOf(7, n), planOf(7, n); !cmp.Equal(a, b, cmp.AllowUnexported(plan{})) {
			t.Errorf("disruption %d of one seed is %+v and %+v", n, a, b)
		}
		if a, b := storm(7, n, time.Second), storm(7, n, time.Second); a != b {
			t.Errorf("kill %d of one seed is %+v and %+v", n, a, b)
		}
		differ = differ || !cmp.Equal(planOf(7, n), planOf(8, n), cmp.AllowUnexported(plan{})) && storm(7, n, time.Second) != storm(8, n, time.Second)
	}
	if !differ {
		t.Error("two seeds choose the same")
	}
}

func TestPlansAreValidAndOfAllSorts(t *testing.T) {
	seen := map[string]bool{}
	for n := range 300 {
		p := planOf(1, n)
		d := &v1beta1.Disruption{Spec: p.spec}
		d.Namespace, d.Name = "soak", "soak-0001"
		if errs := d.Validate(); len(errs) > 0 {
			t.Fatalf("disruption %d: %v", n, errs)
		}
		seen[string(p.ending)] = true
		for _, fault := range p.spec.Requested() {
			seen[string(fault.Kind)] = true
		}
		seen[p.spec.Count.String()] = true
		seen["level "+string(p.spec.Level)] = true
		seen["an operation"] = seen["an operation"] || p.spec.ParticipatesInOperations()
		seen["protected"] = seen["protected"] || p.spec.ProtectsTargets()
		seen["guarded"] = seen["guarded"] || p.spec.SteadyState != nil
	}
	sorts := []string{string(expires), string(deleted), string(nipped), "1", "2", "3", "level pod", "level node", "an operation", "protected", "guarded"}
	kinds := slices.DeleteFunc(v1beta1.AllKinds(), func(kind v1beta1.Kind) bool {
		return kind == v1beta1.KindNodeFailure // the nodes are this machine
	})
	for _, sort := range append(sorts, kinds.Names()...) {
		if !seen[sort] {
			t.Errorf("no disruption of 300 is %q", sort)
		}
	}
}

func TestEveryPartIsKilledSoon(t *testing.T) {
	for seed := range uint64(20) {
		var killed []string
		for n := range len(parts) {
			killed = append(killed, storm(seed, n, time.Second).part)
		}
		if want := slices.Sorted(slices.Values(parts)); !slices.Equal(slices.Sorted(slices.Values(killed)), want) {
			t.Errorf("seed %d: the first kills are %v, want each of %v", seed, killed, want)
		}
	}
}

// heals are injectors that were killed and whose nodes healed.
func heals(count int) []killed {
	return slices.Repeat([]killed{{part: injector, journals: true, healed: time.Second}}, count)
}

// A soak is only worth something if it can fail.
func TestLimits(t *testing.T) {
	want := options{disruptions: 2, alone: 30}
	now := time.Now()
	good := func() outcome {
		o := outcome{trials: []trial{{name: "a", asked: now, ended: now}, {name: "b", asked: now, ended: now}}}
		for _, part := range parts {
			o.kills = append(o.kills, killed{part: part, journals: true, healed: time.Second})
		}
		o.kills = append(o.kills, heals(fewestHeals-1)...)
		return o
	}
	for name, c := range map[string]struct {
		spoil func(*outcome)
		want  string // of the missed line
	}{
		"nothing wrong":   {func(*outcome) {}, ""},
		"too few":         {func(o *outcome) { o.trials = o.trials[:1] }, "1 disruptions begun, 2 wanted"},
		"one lost":        {func(o *outcome) { o.lost = []string{"a: has not ended"} }, "1 lost"},
		"something left":  {func(o *outcome) { o.left = []string{"node n: journal j"} }, "node n: journal j"},
		"ended too early": {func(o *outcome) { o.trials[1].early = []string{"n"} }, "b on n"},
		"a part not killed": {func(o *outcome) {
			o.kills = slices.DeleteFunc(o.kills, func(k killed) bool { return k.part == containerd })
		}, "containerd killed 0 times"},
		"a part does not come":  {func(o *outcome) { o.kills[1].healed = 0 }, "worker killed 1 times, healed 0"},
		"an injector not heals": {func(o *outcome) { o.kills = append(o.kills, killed{part: injector, journals: true}) }, "injector killed 4 times, healed 3"},
		"one of 20 heals late":  {func(o *outcome) { o.kills[0].healed = selfHeal; o.kills = append(o.kills, heals(17)...) }, ""},
		"two of 20 heal late": {func(o *outcome) {
			o.kills[0].healed, o.kills[len(o.kills)-1].healed = selfHeal, selfHeal
			o.kills = append(o.kills, heals(17)...)
		}, "p95 10.0 s of 20"},
		"too few to say how soon": {func(o *outcome) { o.kills[0].healed = selfHeal; o.kills = append(o.kills, heals(16)...) }, ""},
		"hardly any to heal":      {func(o *outcome) { o.kills[0].journals = false }, "of 2, at least 3 wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good()
			c.spoil(&o)
			var missed []string
			for _, l := range o.limits(want) {
				if !l.kept {
					missed = append(missed, l.what)
				}
			}
			if c.want == "" && len(missed) > 0 || c.want != "" && (len(missed) != 1 || !strings.Contains(missed[0], c.want)) {
				t.Errorf("missed %q, want %q", missed, c.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 20 {
		all = append(all, time.Duration(20-i))
	}
	for share, want := range map[float64]time.Duration{0.5: 10, 0.95: 19, 1: 20, 0.01: 1} {
		if got := quantile(all, share); got != want {
			t.Errorf("quantile(1..20, %g) = %d, want %d", share, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing = %d, want 0", got)
	}
}

func TestDifferences(t *testing.T) {
	before := map[string]string{"same": "1", "changed": "1", "gone": "1"}
	after := map[string]string{"same": "1", "changed": "2", "new": "1"}
	want := []string{`changed is "2", was "1"`, `gone is "", was "1"`, `new is "1", was ""`}
	if got := differences(before, after); !slices.Equal(got, want) {
		t.Errorf("differences(%v, %v) = %q, want %q", before, after, got, want)
	}
}

// TestSlowest names a slow trial with its end; a trial that has not ended has no
// time.
func TestSlowest(t *testing.T) {
	now := time.Now()
	o := outcome{trials: []trial{
		{name: "quick", storm: true, asked: now, ended: now.Add(time.Second)},
		{name: "slow", storm: true, asked: now, ended: now.Add(time.Minute)},
		{name: "never", storm: true, asked: now},
		{name: "other", asked: now, ended: now.Add(time.Hour)},
	}}
	slowest, found := o.slowest(true)
	if got := fmt.Sprint(slowest.name, slowest.took(), found); got != "slow1m0s true" {
		t.Errorf("slowest = %s, want slow1m0s true", got)
	}
}
