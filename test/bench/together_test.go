package bench

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// group is of disruptions that begin together and end together.
type group struct {
	pairs
	disruptions, targets int // targets of each
	// Of the last run.
	calls, cleaning world.Calls
}

func (g group) name() string {
	if g.disruptions == 1 {
		return fmt.Sprintf("1 disruption of %d", g.targets)
	}
	return fmt.Sprintf("%s disruptions of %d", thousands(int64(g.disruptions)), g.targets)
}

// groups reads "10x10,100x1".
func groups(list string) (all []*group) {
	for word := range strings.SplitSeq(list, ",") {
		var g group
		if _, err := fmt.Sscanf(word, "%dx%d", &g.disruptions, &g.targets); err != nil || g.disruptions < 1 || g.targets < 1 {
			panic(fmt.Sprintf("-several %s: %q is not like 10x10", list, word))
		}
		all = append(all, &g)
	}
	return all
}

// together measures disruptions that run at the same time, beside one alone:
// with kubelets that take no time, so that nothing is seen but what the
// programs need, and with kubelets that take as long as real ones.
func (b bench) together(list string) {
	b.Helper()
	atOnce, real := groups(list), groups(list)
	most := 0
	for _, g := range atOnce {
		most = max(most, g.disruptions*g.targets)
	}
	b.Targets(most + most/2)
	const instant = "kubelets that take no time"
	b.groups(atOnce, instant)
	b.Kubelets.Take(*start, *end)
	slow := fmt.Sprintf("kubelets that start a pod in %s and end it in %s", took(*start), took(*end))
	b.groups(real, slow)
	b.Kubelets.Take(0, 0)
	lines := append(overFloor(atOnce), tenOverOne(atOnce, instant)...)
	publish(b, section{name: "together", lines: append(lines, tenOverOne(real, slow)...), notes: []string{b.where()}, tables: []table{
		groupTimes(atOnce, instant), groupTimes(real, slow), groupCosts(atOnce),
	}})
}

func (b bench) groups(all []*group, how string) {
	b.Helper()
	for _, g := range all {
		b.fresh()
		n, targets := repetitions(100), g.disruptions*g.targets
		alternate(n, func() { b.groupOnce(g) }, func() { g.floor(b.Floor(g.floorPods, targets, targets)) },
			func(i int) { logf("%s at once, %s, pair %d of %d: %s", g.name(), how, i+1, n, g.latest()) })
	}
}

func groupTimes(all []*group, how string) table {
	var names []string
	var measured []*pairs
	for _, g := range all {
		names, measured = append(names, g.name()), append(measured, &g.pairs)
	}
	return pairsTable("Time, with "+how+": median (shortest to longest)", "at once", "create to all `Injected`", "delete to all gone", names, measured)
}

func groupCosts(all []*group) table {
	t := table{title: "API calls without those for the bridge's lease, and processor seconds (create + delete; mean), with kubelets that take no time",
		head: []string{"at once", "calls to `Injected`", "calls to clean", "bridge", "worker", "API server", "Temporal"}}
	for _, g := range all {
		row := []string{g.name(), thousands(int64(g.calls.Work().Total())), thousands(int64(g.cleaning.Work().Total()))}
		t.add(append(row, g.processors("crdbridge", "worker", "kube-apiserver", "temporal")...)...)
	}
	return t
}

// find returns the group of so many disruptions of so many targets, or nil.
func find(all []*group, disruptions, targets int) *group {
	for _, g := range all {
		if g.disruptions == disruptions && g.targets == targets {
			return g
		}
	}
	return nil
}

// overFloor sets the groups that have a line beside the floor of their pods.
func overFloor(all []*group) (lines []line) {
	for _, limit := range []struct {
		what                 string
		disruptions, targets int
		create, delete       float64
	}{
		{"ten disruptions of ten at once, over the floor of their hundred pods", 10, 10, 3, 2},
		{"a hundred disruptions of one at once, over the floor of their hundred pods", 100, 1, 12, 8},
	} {
		if g := find(all, limit.disruptions, limit.targets); g != nil {
			lines = append(lines,
				line{what: "create to `Injected`, " + limit.what, value: g.created(), most: limit.create},
				line{what: "delete to gone, " + limit.what, value: g.deleted(), most: limit.delete})
		}
	}
	return lines
}

// tenOverOne sets ten disruptions of ten beside one, if both were measured.
func tenOverOne(all []*group, how string) []line {
	alone, ten := find(all, 1, 10), find(all, 10, 10)
	if alone == nil || ten == nil {
		return nil
	}
	return []line{
		{what: "create to `Injected`, ten disruptions of ten at once over one alone, with " + how, value: over(ten.create, alone.create), most: 2},
		{what: "delete to gone, ten disruptions of ten at once over one alone, with " + how, value: over(ten.delete, alone.delete), most: 2},
	}
}

func (b bench) groupOnce(g *group) {
	b.Helper()
	all := make([]*v1beta1.Disruption, g.disruptions)
	for i := range all {
		all[i] = b.disruption(g.targets)
	}
	n := g.disruptions * g.targets
	var created, cleaned world.Cost
	before := b.Meter.Settled(b)
	b.profiled("create-"+g.name(), n, func() {
		clock := world.StartClock()
		b.Each(len(all), len(all), func(i int) error { return b.Disruptions.Create(b.Context(), all[i]) })
		for _, d := range all {
			b.Injected(d)
		}
		created = clock.Stop()
	})
	injected := b.Meter.Settled(b)
	g.calls = injected.Since(before)
	g.floorPods = b.ChaosPods(all[0])
	b.profiled("delete-"+g.name(), n, func() {
		clock := world.StartClock()
		b.Each(len(all), len(all), func(i int) error { return b.Disruptions.Delete(b.Context(), all[i]) })
		for _, d := range all {
			b.Vanishes(d)
		}
		cleaned = clock.Stop()
	})
	g.cleaning = b.Meter.Settled(b).Since(injected)
	g.ours(created, cleaned)
}
