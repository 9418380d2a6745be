package bench

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/test/world"
)

// pairs are what disruptions cost and, for each of them, what the floor did.
type pairs struct {
	create, delete, floorCreate, floorDelete []world.Cost
	floorPods                                []*corev1.Pod // the floor's pods, of the first disruption
}

// alternate measures in turn, and calls after when a pair is complete. From
// pair to pair the other one goes first, so that neither gains or loses by its
// place; the first pair begins with ours.
func alternate(pairs int, ours, floor func(), after func(i int)) {
	for i := range pairs {
		if i%2 == 0 {
			ours()
			floor()
		} else {
			floor()
			ours()
		}
		after(i)
	}
}

func (p *pairs) ours(create, delete world.Cost) {
	p.create, p.delete = append(p.create, create), append(p.delete, delete)
}

func (p *pairs) floor(create, delete world.Cost) {
	p.floorCreate, p.floorDelete = append(p.floorCreate, create), append(p.floorDelete, delete)
}

// latest describes the times of the last pair.
func (p *pairs) latest() string {
	last := func(all []world.Cost) string { return took(all[len(all)-1].Time) }
	return fmt.Sprintf("create %s (floor %s), delete %s (floor %s)", last(p.create), last(p.floorCreate), last(p.delete), last(p.floorDelete))
}

// created is how many times the floor it took to create; deleted, to delete.
func (p *pairs) created() float64 { return over(p.create, p.floorCreate) }
func (p *pairs) deleted() float64 { return over(p.delete, p.floorDelete) }

// over is how many times the median of floor the median of ours is.
func over(ours, floor []world.Cost) float64 {
	return median(timesOf(ours)).Seconds() / median(timesOf(floor)).Seconds()
}

func timesOf(all []world.Cost) (times []time.Duration) {
	for _, cost := range all {
		times = append(times, cost.Time)
	}
	return times
}

// pairsTable shows pairs, each with its name.
func pairsTable(title, what, create, delete string, names []string, all []*pairs) table {
	t := table{title: title, head: []string{what, create, "floor", "ratio", delete, "floor", "ratio", "pairs"}}
	for i, p := range all {
		t.add(names[i], spread(timesOf(p.create)), spread(timesOf(p.floorCreate)), fmt.Sprintf("%.2f", p.created()),
			spread(timesOf(p.delete)), spread(timesOf(p.floorDelete)), fmt.Sprintf("%.2f", p.deleted()), fmt.Sprint(len(p.create)))
	}
	return t
}

// spread is the median, and the shortest and the longest.
func spread(all []time.Duration) string {
	if len(all) < 2 {
		return took(median(all))
	}
	return fmt.Sprintf("%s (%s to %s)", took(median(all)), took(slices.Min(all)), took(slices.Max(all)))
}

// cpuOf is the mean of what a program used; of all programs without a name.
func cpuOf(all []world.Cost, name string) (seconds float64) {
	for _, cost := range all {
		if name == "" {
			seconds += cost.CPU.Total() / float64(len(all))
		} else {
			seconds += cost.CPU[name] / float64(len(all))
		}
	}
	return seconds
}

// processors are what programs used, to create and to delete.
func (p *pairs) processors(names ...string) (cells []string) {
	for _, name := range names {
		cells = append(cells, processor(cpuOf(p.create, name))+" + "+processor(cpuOf(p.delete, name)))
	}
	return cells
}

// processor formats seconds of a processor. The kernel counts hundredths, so fewer
// than ten of them mean nothing.
func processor(seconds float64) string {
	if seconds < 0.1 {
		return "< 0.1"
	}
	return fmt.Sprintf("%.1f", seconds)
}

// processorOver is ours over the floor, where the floor is measurable.
func processorOver(ours, floor float64) string {
	if floor < 1 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ours/floor)
}

// enough is how many values a 95th percentile needs: of fewer it is the longest.
const enough = 20

// p95 is the 95th percentile and its name. Of few values it is the longest, and
// the name shows that.
func p95(all []time.Duration) (name string, value time.Duration) {
	if len(all) < enough {
		return fmt.Sprintf("longest of %d", len(all)), quantile(all, 1)
	}
	return "p95", quantile(all, 0.95)
}

// delaysTable shows how times are spread.
func delaysTable(title, what, counted string, names []string, all [][]time.Duration) table {
	t := table{title: title, head: []string{what, "p50", "p95", "shortest", "longest", counted}}
	for i, times := range all {
		high := "-"
		if len(times) >= enough {
			high = took(quantile(times, 0.95))
		}
		t.add(names[i], took(median(times)), high, took(quantile(times, 0)), took(quantile(times, 1)), fmt.Sprint(len(times)))
	}
	return t
}
