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

// together measures disruptions that run at the same time, beside one alone.
func (b bench) together(all []*group) {
	b.Helper()
	most := 0
	for _, g := range all {
		most = max(most, g.disruptions*g.targets)
	}
	b.Targets(most + most/2)
	b.fresh()
	for i := range repetitions(100) {
		for _, g := range all {
			b.groupOnce(g)
			say("%s at once, run %d of %d: create %s (floor %s), delete %s (floor %s)", g.name(), i+1, repetitions(100),
				took(g.create[i]), took(g.floorCreate[i]), took(g.delete[i]), took(g.floorDelete[i]))
		}
	}
	s := section{name: "together", lines: compare(all), notes: []string{b.where}}
	t := table{title: "Time", head: []string{"at once", "create to all `Injected`", "floor", "ratio", "delete to all gone", "floor", "ratio", "runs"}}
	costs := table{title: "API calls, and processor seconds (create + delete)", head: []string{"at once", "calls to `Injected`", "calls to clean", "bridge", "worker", "API server", "Temporal"}}
	for _, g := range all {
		create, delete, floorCreate, floorDelete := median(g.create), median(g.delete), median(g.floorCreate), median(g.floorDelete)
		t.add(g.name(), took(create), took(floorCreate), ratio(create, floorCreate), took(delete), took(floorDelete), ratio(delete, floorDelete), fmt.Sprint(len(g.create)))
		row := []string{g.name(), thousands(int64(g.calls.Total())), thousands(int64(g.cleaning.Total()))}
		for _, name := range []string{"crdbridge", "worker", "kube-apiserver", "temporal"} {
			row = append(row, fmt.Sprintf("%.2f + %.2f", g.cpuCreate[name], g.cpuClean[name]))
		}
		costs.add(row...)
	}
	s.tables = []table{t, costs}
	publish(b, s)
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
