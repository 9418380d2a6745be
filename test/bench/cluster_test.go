package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/world"
)

const howToInstall = "give KUBECONFIG of a cluster with Squall installed, or run `make demo`, which leaves one that `make bench` finds"

// cluster measures what only real kubelets can show.
func cluster(t *testing.T, commit string) {
	here := machine(commit)
	c, err := findCluster(t)
	if err != nil {
		t.Skipf("real kubelets are not measured: %v; %s", err, howToInstall)
	}
	sizes, _ := split(*nodes, math.MaxInt)
	c.targets(t, max(slices.Max(sizes), *held))
	c.startProbes(t)
	c.end(t, c.begin(t, *held)) // the first on a node is slower and is not measured
	c.forget()
	s := section{name: "cluster"}
	for _, part := range []func(*testing.T) ([]line, []table){
		func(t *testing.T) ([]line, []table) { return c.floors(t, sizes) },
		func(t *testing.T) ([]line, []table) { return c.delays(t, slices.Min(sizes), slices.Max(sizes)) },
		c.kills,
		c.holds,
	} {
		lines, tables := part(t)
		s.lines, s.tables = append(s.lines, lines...), append(s.tables, tables...)
	}
	c.wantClean(t)
	s.notes = []string{fmt.Sprintf("%s %d nodes, real kubelets.", here, len(c.nodes))}
	publish(t, s)
}

// floors measures disruptions of some numbers of targets beside bare pods with
// the same spec, whose program is ready at once.
func (c *realCluster) floors(t *testing.T, sizes []int) (lines []line, tables []table) {
	t.Helper()
	create, delete := map[int]float64{1: 1.5, 10: 1.3, 30: 1.3}, map[int]float64{30: 1.3}
	var names []string
	var all []*pairs
	for _, n := range sizes {
		p, runs := &pairs{}, repetitions(n)
		name := thousands(int64(n)) + " targets"
		if n == 1 {
			name = "1 target"
		}
		alternate(runs, func() {
			d := c.begin(t, n)
			p.floorPods = c.floorPods(t, d)
			p.ours(world.Cost{Time: c.injectedAfter(d)}, world.Cost{Time: c.end(t, d)})
		}, func() { p.floor(c.floor(t, p.floorPods)) },
			func(i int) { logf("%s on real nodes, pair %d of %d: %s", name, i+1, runs, p.latest()) })
		names, all = append(names, name), append(all, p)
		if most := create[n]; most > 0 {
			lines = append(lines, line{what: "create to `Injected`, " + name + ", over the floor", value: p.created(), most: most})
		}
		if most := delete[n]; most > 0 {
			lines = append(lines, line{what: "delete to gone, " + name + ", over the floor", value: p.deleted(), most: most})
		}
	}
	title := "Time beside bare pods of the same spec whose program is ready at once: median (shortest to longest)"
	return lines, []table{pairsTable(title, "targets", "create to `Injected`", "delete to gone", names, all)}
}

// delays are the times from a ready chaos pod to a status that reports it, as one
// watch saw both in all earlier measurements.
func (c *realCluster) delays(t *testing.T, least, most int) (lines []line, tables []table) {
	t.Helper()
	names := []string{
		fmt.Sprintf("disruptions of %d, each of its targets", least),
		fmt.Sprintf("disruptions of %d, each of their targets", most),
		fmt.Sprintf("disruptions of %d, the last target to the whole", most),
	}
	if least == 1 {
		names[0] = "disruptions of one target"
	}
	one, _ := c.reportedAfter(t, least)
	each, last := c.reportedAfter(t, most)
	all := [][]time.Duration{one, each, last}
	for i, times := range all {
		name, high := p95(times)
		lines = append(lines, line{what: "chaos pod ready to `Injected`, " + name + ": " + names[i], value: float64(high.Milliseconds()), most: 200, below: true, unit: "ms"})
	}
	started, ended := c.kubelets(least)
	return lines, []table{
		delaysTable("From a chaos pod that is ready to a status that says so", "", "values", names, all),
		delaysTable(fmt.Sprintf("What the kubelet takes for the chaos pods of a disruption of %d", least), "", "chaos pods",
			[]string{"created to ready", "deleted to ended"}, [][]time.Duration{started, ended}),
	}
}

// kills measures from the SIGKILL of an injector to a node that has nothing of
// it left, while everything else is alive.
func (c *realCluster) kills(t *testing.T) ([]line, []table) {
	t.Helper()
	var healed []time.Duration
	for i := range *kills {
		d := c.begin(t, 1)
		pod := c.chaosPods(t, d)[0]
		var answer struct{ Seconds float64 }
		must(t, c.probe(t.Context(), &answer, pod.Spec.NodeName, "heal", "--disruption", string(d.UID), "--container", containerID(pod)))
		healed = append(healed, time.Duration(answer.Seconds*float64(time.Second)))
		logf("injector killed, %d of %d: its node is clean after %s", i+1, *kills, took(healed[i]))
		c.end(t, d)
	}
	name, high := p95(healed)
	return []line{{what: "SIGKILL of an injector to a clean node, all else alive, " + name, value: high.Seconds(), most: 3, unit: "s"}},
		[]table{delaysTable("From SIGKILL of an injector to a node without its journal, which goes when all is undone", "", "kills", []string{"disruptions of one target, all else alive"}, [][]time.Duration{healed})}
}

// holds measures what disruptions that hold cost their nodes: how many
// processors are busy, over the same targets with idle pods beside them.
func (c *realCluster) holds(t *testing.T) ([]line, []table) {
	t.Helper()
	const rounds = 3
	var holding, idle []float64
	spread := table{title: fmt.Sprintf("Busy processors of all nodes, for %s each, one after the other", *holdingFor), head: []string{"beside the same targets"}}
	for i := range rounds {
		d := c.begin(t, *held)
		pods := c.floorPods(t, d)
		for j := range pods {
			pods[j].Spec.Containers[0].StartupProbe, pods[j].Spec.Containers[0].ReadinessProbe = nil, nil
		}
		busy, _ := c.busy(t)
		holding = append(holding, busy)
		c.end(t, d)
		remove := c.run(t, pods)
		busy, of := c.busy(t)
		idle = append(idle, busy)
		remove()
		if busy > 0.8*float64(of) {
			t.Errorf("%.2f of %d processors are busy without any disruption: what holding takes besides cannot be seen", busy, of)
		}
		logf("%d targets held, round %d of %d: %.2f processors are busy, %.2f beside idle pods", *held, i+1, rounds, holding[i], idle[i])
		spread.head = append(spread.head, fmt.Sprint(i+1))
	}
	for _, row := range []struct {
		name string
		all  []float64
	}{{fmt.Sprintf("%d chaos pods that hold", *held), holding}, {fmt.Sprintf("%d idle pods of the same spec without probes", *held), idle}} {
		cells := []string{row.name}
		for _, v := range row.all {
			cells = append(cells, fmt.Sprintf("%.2f", v))
		}
		spread.add(cells...)
	}
	slices.Sort(holding)
	slices.Sort(idle)
	what := fmt.Sprintf("busy processors while %d targets are held, over idle pods", *held)
	return []line{{what: what, value: holding[rounds/2] - idle[rounds/2], most: 0.1}}, []table{spread}
}
