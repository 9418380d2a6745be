package bench

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// result is what disruptions of some number of targets and kinds cost.
type result struct {
	pairs
	targets, kinds int
	// Of the last run.
	calls, cleaning   world.Calls
	events, bytes     int64
	bridgeNow, bridge int64 // bytes of memory: with everything injected, at most
	workerNow, worker int64
}

func (r result) name() string {
	kinds := "1 kind"
	if r.kinds > 1 {
		kinds = fmt.Sprintf("%d kinds", r.kinds)
	}
	if r.targets == 1 {
		return "1 target, " + kinds
	}
	return fmt.Sprintf("%s targets, %s", thousands(int64(r.targets)), kinds)
}

// disruption is a new one, of n targets.
func (b bench) disruption(n int) *v1beta1.Disruption {
	*b.made++
	return b.Disruption(fmt.Sprintf("bench-%d", *b.made), n)
}

// targets measures one disruption after the other. A failure ends it; it returns
// the results before that.
func (b bench) targets(t *testing.T, ns []int) (all []result) {
	t.Helper()
	for _, n := range ns {
		for kind := range min(*kinds, 2) {
			if kind == 1 && n > 5000 {
				continue // this takes minutes, and 5,000 show the same
			}
			r := result{targets: n, kinds: kind + 1}
			if t.Failed() || !t.Run(r.name(), func(t *testing.T) { b.in(t).measure(&r) }) {
				return all
			}
			all = append(all, r)
		}
	}
	return all
}

// repetitions is how many pairs are measured with n targets.
func repetitions(n int) int {
	switch {
	case *runs > 0:
		return *runs
	case n <= 1000:
		return 7
	}
	return 3
}

func (b bench) measure(r *result) {
	b.Helper()
	b.Targets(r.targets)
	b.fresh()
	n := repetitions(r.targets)
	alternate(n, func() { b.once(r) }, func() {
		r.floor(b.Floor(r.floorPods, r.targets*r.kinds, world.AtOnce(r.targets)))
	}, func(i int) { logf("%s, pair %d of %d: %s", r.name(), i+1, n, r.latest()) })
}

// once measures one disruption.
func (b bench) once(r *result) {
	b.Helper()
	d := b.disruption(r.targets)
	if r.kinds == 2 {
		d.Spec.Network = &v1beta1.NetworkDisruption{Drop: 10}
	}
	b.bridge.ForgetPeak()
	b.worker.ForgetPeak()
	var created, cleaned world.Cost
	before := b.Meter.Settled(b)
	b.profiled("create", r.targets, func() {
		clock := world.StartClock()
		b.Create(d)
		b.Injected(d)
		created = clock.Stop()
	})
	injected := b.Meter.Settled(b)
	r.calls = injected.Since(before)
	r.bridgeNow, _ = b.bridge.Memory()
	r.workerNow, _ = b.worker.Memory()
	r.floorPods = b.ChaosPods(d)
	b.profiled("delete", r.targets, func() {
		clock := world.StartClock()
		b.Must(b.Disruptions.Delete(b.Context(), d))
		b.Vanishes(d)
		cleaned = clock.Stop()
	})
	r.cleaning = b.Meter.Settled(b).Since(injected)
	b.NothingLeft(d)
	b.Completed(d)
	r.events, r.bytes = b.Length(d)
	_, r.bridge = b.bridge.Memory()
	_, r.worker = b.worker.Memory()
	r.ours(created, cleaned)
}

// describe lists the measurements and their limits.
func describe(all []result, where string) section {
	s := section{name: "targets", notes: []string{where}}
	for _, r := range all {
		s.lines = append(s.lines, r.lines()...)
	}
	s.tables = []table{times(all), history(all), processes(all)}
	s.tables = append(s.tables, verbs("API calls for each target until `Injected`, by verb", all, func(r result) world.Calls { return r.calls }))
	s.tables = append(s.tables, verbs("API calls for each target to clean, by verb", all, func(r result) world.Calls { return r.cleaning }))
	return s
}

func (r result) lines() (lines []line) {
	if r.kinds > 1 {
		return nil
	}
	over := func(create, delete float64) {
		n := strings.TrimSuffix(r.name(), ", 1 kind")
		lines = append(lines, line{what: "create to `Injected`, " + n + ", over the floor", value: r.created(), most: create})
		if delete > 0 {
			lines = append(lines, line{what: "delete to gone, " + n + ", over the floor", value: r.deleted(), most: delete})
		}
	}
	switch r.targets {
	case 1:
		over(8, 0)
	case 1000:
		over(1.15, 1.25)
		lines = append(lines, line{what: "API calls per target to `Injected`, 1,000 targets", value: float64(r.calls.Work().Total()) / float64(r.targets), most: 3})
	case 10000:
		over(1.2, 1.3)
		lines = append(lines,
			line{what: "10,000 targets: history events", value: float64(r.events), most: 1000, below: true},
			line{what: "10,000 targets: history", value: float64(r.bytes) / 1e6, most: 1, below: true, unit: "MB"})
	}
	return lines
}

func times(all []result) table {
	var names []string
	var measured []*pairs
	for i := range all {
		names, measured = append(names, all[i].name()), append(measured, &all[i].pairs)
	}
	return pairsTable("Time: median (shortest to longest)", "targets, kinds", "create to `Injected`", "delete to gone", names, measured)
}

func history(all []result) table {
	t := table{title: "Temporal and the API, without the calls for the bridge's lease", head: []string{"targets, kinds", "events", "history", "calls to `Injected`", "for each target", "calls to clean", "for each target"}}
	for _, r := range all {
		n, calls, cleaning := float64(r.targets), r.calls.Work().Total(), r.cleaning.Work().Total()
		t.add(r.name(), thousands(r.events), fmt.Sprintf("%.1f kB", float64(r.bytes)/1e3),
			thousands(int64(calls)), fmt.Sprintf("%.2f", float64(calls)/n), thousands(int64(cleaning)), fmt.Sprintf("%.2f", float64(cleaning)/n))
	}
	return t
}

func processes(all []result) table {
	t := table{title: "Processor seconds (create + delete; mean), of all programs over the floor (create, delete; - where it used less than one), and memory (at most, and with everything injected)",
		head: []string{"targets, kinds", "all, over the floor", "bridge", "worker", "API server", "etcd", "Temporal", "bridge", "now", "worker", "now"}}
	for _, r := range all {
		row := []string{r.name(), processorOver(cpuOf(r.create, ""), cpuOf(r.floorCreate, "")) + ", " + processorOver(cpuOf(r.delete, ""), cpuOf(r.floorDelete, ""))}
		row = append(row, r.processors("crdbridge", "worker", "kube-apiserver", "etcd", "temporal")...)
		t.add(append(row, megabytes(r.bridge), megabytes(r.bridgeNow), megabytes(r.worker), megabytes(r.workerNow))...)
	}
	return t
}

func verbs(title string, all []result, of func(result) world.Calls) table {
	t := table{title: title, head: []string{"call"}}
	names := map[string]bool{}
	for _, r := range all {
		if r.kinds == 1 {
			t.head = append(t.head, thousands(int64(r.targets)))
			for name := range of(r) {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row := []string{name}
		for _, r := range all {
			if r.kinds == 1 {
				row = append(row, fmt.Sprintf("%.4g", float64(of(r)[name])/float64(r.targets)))
			}
		}
		t.add(row...)
	}
	return t
}

// draw renews the picture.
func draw(t *testing.T, all []result) {
	t.Helper()
	curves := []curve{
		{name: "create to Injected", class: "create"}, {name: "the floor: bare pods created and ready", class: "create floor"},
		{name: "delete to gone", class: "delete"}, {name: "the floor: bare pods deleted and gone", class: "delete floor"},
	}
	for _, r := range all {
		if r.kinds > 1 {
			continue
		}
		for i, costs := range [][]world.Cost{r.create, r.floorCreate, r.delete, r.floorDelete} {
			curves[i].points = append(curves[i].points, point{r.targets, median(timesOf(costs))})
		}
	}
	path := filepath.Join("..", "..", "docs", "images", "bench.svg")
	if err := os.WriteFile(path, []byte(picture("What a disruption takes, by its targets", curves)), 0o644); err != nil {
		t.Fatal(err)
	}
}
