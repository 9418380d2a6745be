package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/world"
)

func TestFloorAndOursAlternate(t *testing.T) {
	order := ""
	alternate(4, func() { order += "A" }, func() { order += "B" }, func(int) { order += " " })
	if order != "AB BA AB BA " {
		t.Errorf("order = %q, want each first in every other pair", order)
	}
}

func TestPairsAreShownWithTheirSpread(t *testing.T) {
	costs := func(milliseconds ...int) (all []world.Cost) {
		for _, ms := range milliseconds {
			all = append(all, world.Cost{Time: time.Duration(ms) * time.Millisecond, CPU: world.CPU{"worker": float64(ms) / 1000, "etcd": 1}})
		}
		return all
	}
	p := &pairs{create: costs(300, 200, 900), floorCreate: costs(150, 100, 160), delete: costs(400, 400, 400), floorDelete: costs(100, 100, 100)}
	shown := pairsTable("", "what", "create", "delete", []string{"one"}, []*pairs{p}).String()
	if want := "| one  | 300 ms (200 ms to 900 ms) | 150 ms (100 ms to 160 ms) |  2.00 |"; !strings.Contains(shown, want) {
		t.Errorf("it shows\n%s\nwant\n%s", shown, want)
	}
	if got := p.processors("worker", "etcd"); got[0] != "0.5 + 0.4" || got[1] != "1.0 + 1.0" {
		t.Errorf("processor seconds = %v, want the mean of all pairs with one decimal", got)
	}
	if got := processor(0.04) + ", " + processorOver(0.09, 0.01) + ", " + processorOver(3, 2); got != "< 0.1, -, 1.5" {
		t.Errorf("processor seconds of few ticks = %s", got)
	}
}

func TestFewValuesHaveNoPercentile(t *testing.T) {
	var all []time.Duration
	for i := range 40 {
		all = append(all, time.Duration(i+1)*time.Millisecond)
	}
	if name, value := p95(all[:6]); name != "longest of 6" || value != 6*time.Millisecond {
		t.Errorf("of six values p95 = %s, %s", name, value)
	}
	if name, value := p95(all); name != "p95" || value != 38*time.Millisecond {
		t.Errorf("of forty values p95 = %s, %s", name, value)
	}
	shown := delaysTable("", "what", "values", []string{"six", "forty"}, [][]time.Duration{all[:6], all}).String()
	for _, want := range []string{"| six   |  3 ms |     - |     1 ms |    6 ms |      6 |", "| forty | 20 ms | 38 ms |     1 ms |   40 ms |     40 |"} {
		if !strings.Contains(shown, want) {
			t.Errorf("it shows\n%s\nwithout\n%s", shown, want)
		}
	}
}
