package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// group is of disruptions that begin together and end together.
type group struct {
	disruptions, targets int // targets of each
	// Times of all runs, and those of the floor.
	create, delete, floorCreate, floorDelete []time.Duration
	// Of the last run.
	calls, cleaning     world.Calls
	cpuCreate, cpuClean world.CPU
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
	b.groups(atOnce, "kubelets that take no time")
	b.Kubelets.Take(*start, *end)
	slow := fmt.Sprintf("kubelets that start a pod in %s and end it in %s", took(*start), took(*end))
	b.groups(real, slow)
	b.Kubelets.Take(0, 0)
	publish(b, section{name: "together", lines: compare(real), notes: []string{b.where}, tables: []table{
		timesOf(real, "Time, with "+slow), timesOf(atOnce, "Time, with kubelets that take no time"), costsOf(atOnce),
	}})
}

func (b bench) groups(all []*group, how string) {
	b.Helper()
	b.fresh()
	for i := range repetitions(100) {
		for _, g := range all {
			b.groupOnce(g)
			say("%s at once, %s, run %d of %d: create %s (floor %s), delete %s (floor %s)", g.name(), how, i+1, repetitions(100),
				took(g.create[i]), took(g.floorCreate[i]), took(g.delete[i]), took(g.floorDelete[i]))
		}
	}
}

func timesOf(all []*group, title string) table {
	t := table{title: title, head: []string{"at once", "create to all `Injected`", "floor", "ratio", "delete to all gone", "floor", "ratio", "runs"}}
	for _, g := range all {
		create, delete, floorCreate, floorDelete := median(g.create), median(g.delete), median(g.floorCreate), median(g.floorDelete)
		t.add(g.name(), took(create), took(floorCreate), ratio(create, floorCreate), took(delete), took(floorDelete), ratio(delete, floorDelete), fmt.Sprint(len(g.create)))
	}
	return t
}

func costsOf(all []*group) table {
	t := table{title: "API calls, and processor seconds (create + delete)", head: []string{"at once", "calls to `Injected`", "calls to clean", "bridge", "worker", "API server", "Temporal"}}
	for _, g := range all {
		row := []string{g.name(), thousands(int64(g.calls.Total())), thousands(int64(g.cleaning.Total()))}
		for _, name := range []string{"crdbridge", "worker", "kube-apiserver", "temporal"} {
			row = append(row, fmt.Sprintf("%.2f + %.2f", g.cpuCreate[name], g.cpuClean[name]))
		}
		t.add(row...)
	}
	return t
}

// compare sets ten disruptions of ten beside one, if both were measured.
func compare(all []*group) []line {
	found := map[string]*group{}
	for _, g := range all {
		found[fmt.Sprintf("%dx%d", g.disruptions, g.targets)] = g
	}
	alone, ten := found["1x10"], found["10x10"]
	if alone == nil || ten == nil {
		return nil
	}
	return []line{
		{what: "ten disruptions of ten at once over one alone, create to `Injected`", value: over(median(ten.create), median(alone.create)), most: 2},
		{what: "ten disruptions of ten at once over one alone, delete to gone", value: over(median(ten.delete), median(alone.delete)), most: 2},
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
	pods := b.ChaosPods(all[0])
	b.profiled("delete-"+g.name(), n, func() {
		clock := world.StartClock()
		b.Each(len(all), len(all), func(i int) error { return b.Disruptions.Delete(b.Context(), all[i]) })
		for _, d := range all {
			b.Vanishes(d)
		}
		cleaned = clock.Stop()
	})
	g.cleaning = b.Meter.Settled(b).Since(injected)
	g.create, g.delete = append(g.create, created.Time), append(g.delete, cleaned.Time)
	g.cpuCreate, g.cpuClean = created.CPU, cleaned.CPU
	up, down := b.Floor(pods, n, n)
	g.floorCreate, g.floorDelete = append(g.floorCreate, up.Time), append(g.floorDelete, down.Time)
}
