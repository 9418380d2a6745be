package targets

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// For any mix of sure, pending and free targets: a sure target stays and never moves to
// a later place, any other is dropped, and there are as many as wanted if enough exist.
func TestTopUp(t *testing.T) {
	for range 2000 {
		sure := map[types.UID]bool{}
		var pending []Target
		for i := range rand.IntN(8) {
			uid := types.UID(fmt.Sprint("p", i))
			pending = append(pending, Target{InjectionTarget: v1beta1.InjectionTarget{UID: uid}})
			sure[uid] = rand.IntN(2) == 0
		}
		var free []Candidate
		for i := range rand.IntN(8) {
			free = append(free, Candidate{Target: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint("f", i))}})
		}
		wanted := rand.IntN(10)
		before, next := uidsOf(pending), uidsOf(topUp(pending, sure, wanted, free))
		kept := 0
		for i, uid := range before {
			at := slices.Index(next, uid)
			if sure[uid] != (at >= 0) || at > i {
				t.Fatalf("%v, sure %v, became %v", before, sure, next)
			}
			if sure[uid] {
				kept++
			}
		}
		if want := kept + min(max(0, wanted-kept), len(free)); len(next) != want {
			t.Fatalf("%v, sure %v, wanted %d of %d more, became %v", before, sure, wanted, len(free), next)
		}
		if slices.Sort(next); len(slices.Compact(slices.Clone(next))) != len(next) {
			t.Fatalf("%v twice", next)
		}
	}
}

// rule 18: a target that was injected is not chosen again. A target that was never
// injected is retried: three times at once, and then after a pause.
func TestWhatIsUsedUp(t *testing.T) {
	ended := func(tries int, again bool) Target {
		return Target{InjectionTarget: v1beta1.InjectionTarget{UID: "web"}, Ended: "over", Tries: tries, Again: again}
	}
	endedAgo := func(tries int, ago time.Duration) Target {
		target, at := ended(tries, true), metav1.NewTime(time.Now().Add(-ago))
		target.EndedAt = &at
		return target
	}
	returned := func(tries int) Target {
		return Target{InjectionTarget: v1beta1.InjectionTarget{UID: "web"}, Ended: "matches no longer", Tries: tries, Returns: true}
	}
	active := Target{InjectionTarget: v1beta1.InjectionTarget{UID: "web"}, Tries: 1}
	for name, test := range map[string]struct {
		shards []Target
		tries  int
		free   bool
	}{
		"never chosen":                      {nil, 0, true},
		"disrupted":                         {[]Target{active}, 0, false},
		"was injected":                      {[]Target{ended(0, false)}, 0, false},
		"never injected, once":              {[]Target{ended(0, true)}, 1, true},
		"never injected, twice":             {[]Target{ended(0, true), ended(1, true)}, 2, true},
		"never injected, three times":       {[]Target{ended(0, true), ended(1, true), endedAgo(2, 10*time.Second)}, 0, false},
		"three times, a pause ago":          {[]Target{ended(0, true), ended(1, true), endedAgo(2, 20*time.Second)}, 3, true},
		"seven times":                       {[]Target{endedAgo(6, 50*time.Second)}, 0, false},
		"seven times, the longest pause":    {[]Target{endedAgo(6, 61*time.Second)}, 7, true},
		"never injected, then injected":     {[]Target{ended(0, true), ended(1, false)}, 0, false},
		"not wanted for a while":            {[]Target{returned(0), returned(0), returned(0), returned(0)}, 0, true},
		"not wanted after one try":          {[]Target{ended(0, true), returned(1)}, 1, true},
		"never injected, and disrupted now": {[]Target{ended(0, true), active}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var stand []Shard
			for i, target := range test.shards {
				stand = append(stand, Shard{Number: i, Targets: []Target{target}})
			}
			every := intstr.FromString("100%")
			spec := v1beta1.DisruptionSpec{Count: &every}
			next, _ := nextClaims(spec, []Candidate{{Target: v1beta1.InjectionTarget{UID: "web"}}}, stand, nil, nil, nil, Budgets(nil).without(nil))
			if chosen := len(next) == 1; chosen != test.free || chosen && next[0].Tries != test.tries {
				t.Errorf("next = %+v, want it chosen %t, after %d tries", next, test.free, test.tries)
			}
		})
	}
}

// N4: with count 100 %, ten lost targets an hour are replaced for each that is wanted.
func TestHowManyLostTargetsAreReplacedAnHour(t *testing.T) {
	hour := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	every, most := intstr.FromString("100%"), 1000
	for name, test := range map[string]struct {
		now, before int // lost in this hour, and in the one before
		forgotten   Forgotten
		most        *int
		want        int
	}{
		"as many as are replaced":          {20, 0, Forgotten{}, nil, 0},
		"one more":                         {21, 0, Forgotten{}, nil, 1},
		"many more, an hour ago":           {0, 99, Forgotten{}, nil, 0},
		"some of them are forgotten":       {11, 0, Forgotten{Lost: 99, Hour: hourOf(hour), LostInHour: 10}, nil, 1},
		"forgotten an hour ago":            {11, 0, Forgotten{Lost: 99, Hour: hourOf(hour) - 1, LostInHour: 99}, nil, 0},
		"many more, and a bound that fits": {99, 0, Forgotten{}, &most, 0},
	} {
		t.Run(name, func(t *testing.T) {
			shard := Shard{forgotten: test.forgotten}
			for i := range test.now + test.before {
				at := metav1.NewTime(hour.Add(time.Minute))
				if i >= test.now {
					at = metav1.NewTime(hour.Add(-time.Minute))
				}
				shard.Targets = append(shard.Targets, Target{InjectionTarget: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint(i))}, Ended: Gone, Lost: true, EndedAt: &at})
			}
			spec := v1beta1.DisruptionSpec{Count: &every, MaxLostTargets: test.most}
			if got := notReplaced(spec, 2, []Shard{shard}, hour.Add(30*time.Minute)); got != test.want {
				t.Errorf("%d are not replaced, want %d", got, test.want)
			}
			selection := Selection{Desired: 2, Matching: 2, Selected: 1}
			selection.NoteLost(spec, []Shard{shard}, hour.Add(30*time.Minute))
			if (selection.Lost != "") != (test.want > 0) || test.want > 0 && (selection.RetryAt == nil || !selection.RetryAt.Equal(hour.Add(time.Hour)) || !strings.Contains(selection.LeftOut(), "maxLostTargets")) {
				t.Errorf("selection = %+v, want that reason, and when others are chosen again", selection)
			}
		})
	}
}

func TestWhatFailedIsNamedWithItsNextAttempt(t *testing.T) {
	now := time.Now()
	at := metav1.NewTime(now.Add(-5 * time.Second))
	failed := Target{InjectionTarget: v1beta1.InjectionTarget{UID: "web", Name: "web-0"}, Ended: "never injected: OutOfcpu", Tries: 2, Again: true, EndedAt: &at}
	healthy := []Candidate{{Target: failed.InjectionTarget}}
	for name, c := range map[string]struct {
		selected int
		static   bool
		change   func(*Target)
		want     bool
	}{
		"it waits":                  {0, false, func(*Target) {}, true},
		"all that are wanted":       {1, false, func(*Target) {}, false},
		"targeting is static":       {0, true, func(*Target) {}, false},
		"it is tried again already": {0, false, func(t *Target) { t.Ended = "" }, false},
		"it may be tried at once":   {0, false, func(t *Target) { t.Tries = 1 }, false},
		"its time has come":         {0, false, func(t *Target) { early := metav1.NewTime(now.Add(-time.Hour)); t.EndedAt = &early }, false},
	} {
		target := failed
		c.change(&target)
		s := Selection{Desired: 1, Matching: 1, Selected: c.selected}
		s.NoteFailed(v1beta1.DisruptionSpec{StaticTargeting: c.static}, healthy, []Shard{{Targets: []Target{target}}}, now)
		if named := s.RetryAt != nil && s.RetryAt.Equal(at.Add(15*time.Second)) && strings.Contains(s.String(), "web-0: never injected: OutOfcpu"); named != c.want || s.RetryAt != nil != c.want {
			t.Errorf("%s: selection %+v, %q; want it named %t", name, s, s.String(), c.want)
		}
	}
}

// Squall cleans up the newest targets when fewer match than a percentage needs.
func TestWhichTargetsAreSurplus(t *testing.T) {
	half := intstr.FromString("50%")
	shards := func(ended ...int) []Shard {
		var all []Target
		for i := range 4 {
			target := Target{InjectionTarget: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint("p", i))}}
			if slices.Contains(ended, i) {
				target.Ended = "gone"
			}
			all = append(all, target)
		}
		return []Shard{{Targets: all[:2]}, {Number: 1, Targets: all[2:]}}
	}
	filled := shards()
	filled[0].Targets[1].Run = 3
	matching := func(uids ...string) (healthy []Candidate) {
		for _, uid := range uids {
			healthy = append(healthy, Candidate{Target: v1beta1.InjectionTarget{UID: types.UID(uid)}})
		}
		return healthy
	}
	for name, c := range map[string]struct {
		healthy []Candidate
		shards  []Shard
		static  bool
		want    []types.UID
	}{
		"as many as are wanted":                    {matching("p0", "p1", "p2", "p3", "q0", "q1", "q2"), shards(), false, nil},
		"half of four":                             {matching("p0", "p1", "p2", "p3"), shards(), false, []types.UID{"p2", "p3"}},
		"the newest is in a place of an older one": {matching("p0", "p1", "p2", "p3"), filled, false, []types.UID{"p3", "p1"}},
		"what is gone is none":                     {matching("p0", "p3"), shards(), false, []types.UID{"p3"}},
		"what ended before is none":                {matching("p1", "p3", "q0", "q1"), shards(0, 2), false, nil},
		"the last target stays":                    {matching("p2"), shards(), false, nil},
		"targeting is static":                      {matching("p0", "p1", "p2", "p3"), shards(), true, nil},
	} {
		spec := v1beta1.DisruptionSpec{Count: &half, StaticTargeting: c.static}
		if got := Surplus(spec, c.healthy, c.shards); !slices.Equal(got, c.want) {
			t.Errorf("%s: Surplus() = %v, want %v", name, got, c.want)
		}
	}
}

// Pods that were disrupted at their start no longer wait, and pods that a driver took out
// of service are not ready: both still count. A percentage is one of all matching pods, not
// of those that are candidates at the moment.
func TestTallyOfPodsThatWait(t *testing.T) {
	candidate := func(uid types.UID) Candidate { return Candidate{Target: v1beta1.InjectionTarget{UID: uid}} }
	chosen := func(uid types.UID) Target { return Target{InjectionTarget: v1beta1.InjectionTarget{UID: uid}} }
	shards := []Shard{{Targets: []Target{chosen("runs"), chosen("waits"), {InjectionTarget: v1beta1.InjectionTarget{UID: "gone"}, Ended: "gone"}}}}
	count := intstr.FromString("100%")
	operation := &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsJoined}
	for name, c := range map[string]struct {
		spec v1beta1.DisruptionSpec
		want Selection
	}{
		"at the start":    {v1beta1.DisruptionSpec{OnInit: true}, Selection{Matching: 3, Desired: 3, Selected: 2}},
		"as an operation": {v1beta1.DisruptionSpec{PodOpsLifecycle: operation}, Selection{Matching: 3, Desired: 3, Selected: 2}},
		"as usual":        {v1beta1.DisruptionSpec{}, Selection{Matching: 2, Desired: 2, Selected: 2}},
	} {
		c.spec.Count = &count
		if got := Tally(c.spec, []Candidate{candidate("waits"), candidate("new")}, shards); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: Tally = %+v, want %+v", name, got, c.want)
		}
	}
}

// A disruption that gets fewer targets than it wants learns which disruptions hold
// them.
func TestHoldersAreNamed(t *testing.T) {
	var healthy []Candidate
	for i := range 6 {
		healthy = append(healthy, Candidate{Target: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint("p", i))}})
	}
	one := Holders{"p1": "shop/slow (cpu-pressure)", "p2": "shop/slow (cpu-pressure)", "gone": "shop/old (dns-disruption)"}
	many := Holders{"p0": "a/a (x)", "p1": "b/b (x)", "p2": "c/c (x)", "p3": "d/d (x)", "p4": "e/e (x)"}
	shares := v1beta1.DisruptionSpec{AllowDisruptedTargets: true}
	for want, got := range map[string]string{
		"": Holders{"gone": "x/y (z)"}.Of(shares, healthy),
		"2 are held by shop/slow (cpu-pressure): the same kind is never on a target twice":                            one.Of(shares, healthy),
		"2 are held by shop/slow (cpu-pressure): allowDisruptedTargets: true shares them, but not with the same kind": one.Of(v1beta1.DisruptionSpec{}, healthy),
		"5 are held by a/a (x), b/b (x), c/c (x) and 2 more: the same kind is never on a target twice":                many.Of(shares, healthy),
		"0 of 2 matching targets; 2 are held by a/a (x)":                                                              Selection{Matching: 2, Desired: 1, Held: "2 are held by a/a (x)"}.String(),
		"1 of 2 matching targets":                                     Selection{Matching: 2, Desired: 1, Selected: 1, Held: "1 are held by a/a (x)"}.String(),
		"all 2 matching targets are disrupted already or were before": Selection{Matching: 2, Desired: 1}.String(),
	} {
		if got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
	}
}

// rule S11: Squall replaces lost targets as often as count asks for, then stops and
// reports it. Targets that were released for another reason do not count.
func TestHowManyLostTargetsAreReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		lost, released int
		chosen         int
		reason         string
	}{
		"nothing was lost":       {0, 0, 2, ""},
		"as many as count":       {2, 0, 2, ""},
		"one more":               {3, 0, 1, "3 targets were lost and 1 of them are not replaced (maxLostTargets)"},
		"twice as many":          {4, 0, 0, "4 targets were lost and 2 of them are not replaced (maxLostTargets)"},
		"many more":              {9, 0, 0, "9 targets were lost and 2 of them are not replaced (maxLostTargets)"},
		"released by operations": {0, 9, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stand []Shard
			for i := range test.lost + test.released {
				uid := types.UID(fmt.Sprint("before", i))
				stand = append(stand, Shard{Number: i, Targets: []Target{{InjectionTarget: v1beta1.InjectionTarget{UID: uid}, Ended: "over", Lost: i < test.lost}}})
			}
			var healthy []Candidate
			for i := range 10 {
				healthy = append(healthy, Candidate{Target: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint("p", i))}})
			}
			two := intstr.FromInt32(2)
			spec := v1beta1.DisruptionSpec{Count: &two}
			next, _ := nextClaims(spec, healthy, stand, nil, nil, nil, Budgets(nil).without(nil))
			if len(next) != test.chosen {
				t.Errorf("%d are chosen, want %d", len(next), test.chosen)
			}
			shards := append(stand, Shard{Number: len(stand), Targets: next})
			selection := Tally(spec, healthy, shards)
			if selection.NoteLost(spec, shards, time.Now()); selection.Lost != test.reason {
				t.Errorf("reason %q, want %q", selection.Lost, test.reason)
			}
		})
	}
}
