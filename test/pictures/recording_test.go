package main

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/chart"
)

// TestPanels: a gap in the samples breaks a curve, and ends a bar; the shaded time
// is that of status Injected.
func TestPanels(t *testing.T) {
	value := func(v float64) reading { return reading{values: map[string]float64{"lost": v}} }
	answer := func(text string, class int) reading {
		return reading{states: map[string]state{"orders": {text, class}}}
	}
	shaded := []chart.Shaded{{Name: "Injected", From: 1, To: 3}}
	for _, c := range []struct {
		name    string
		samples []sample
		figure  figure
		want    chart.Panel
	}{
		{"a figure", []sample{{0, value(1)}, {1, reading{}}, {2, value(40)}}, figure{title: "lost", unit: " %", most: 50, curves: []string{"lost"}, asked: []chart.Asked{{Name: "asked", Value: 40}}},
			chart.Panel{Title: "lost", Unit: " %", Most: 50, Asked: []chart.Asked{{Name: "asked", Value: 40}}, Shaded: shaded,
				Curves: []chart.Curve{{Points: []chart.Point{{At: 0, Value: 1}, {At: 1, Value: math.NaN()}, {At: 2, Value: 40}}}}}},
		{"two figures have names", []sample{{0, value(1)}}, figure{curves: []string{"lost", "late"}},
			chart.Panel{Most: 1, Shaded: shaded, Curves: []chart.Curve{{Name: "lost", Points: []chart.Point{{At: 0, Value: 1}}}, {Name: "late", Points: []chart.Point{{At: 0, Value: math.NaN()}}}}}},
		{"growth", []sample{{0, value(1)}, {2 * time.Second, value(7)}}, figure{curves: []string{"lost"}, perSecond: true},
			chart.Panel{Most: 5, Shaded: shaded, Curves: []chart.Curve{{Points: []chart.Point{{At: time.Second, Value: 3}}}}}},
		{"states", []sample{{0, answer("here", 0)}, {1, answer("here", 0)}, {2, answer("gone", 1)}, {3, reading{}}, {4, answer("here", 0)}, {5, answer("here", 0)}, {6, reading{}}, {7, answer("here", 0)}}, figure{title: "told"},
			chart.Panel{Title: "told", Shaded: shaded, Rows: []chart.Row{{Name: "orders", Bars: []chart.Bar{{To: 2, Text: "here"}, {From: 2, To: 3, Text: "gone", Class: 1}, {From: 4, To: 6, Text: "here"}, {From: 7, To: 7, Text: "here"}}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recording{samples: c.samples, injected: 1, ended: 3, span: 5}
			if diff := cmp.Diff([]chart.Panel{c.want}, r.panels([]figure{c.figure}), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("panels (-want +got):\n%s", diff)
			}
		})
	}
}

// Every kind has a plan, and every plan asks for the kind that it is a picture of.
func TestPlansAskForTheirKind(t *testing.T) {
	planned := map[v1beta1.Kind]bool{}
	for _, p := range plans {
		planned[p.kind] = true
	}
	for _, kind := range v1beta1.AllKinds() {
		if !planned[kind] {
			t.Errorf("%s has no plan", kind)
		}
	}
	for _, p := range plans {
		for _, r := range p.runs {
			d, err := disruption("space", r.spec)
			if err != nil {
				t.Errorf("%s: %v", p.kind, err)
				continue
			}
			if asked := d.Spec.Faults.Requested(); len(asked) != 1 || asked[0].Kind != p.kind {
				t.Errorf("%s: %q asks for %v", p.kind, r.spec, asked)
			}
			if r.look == nil || len(r.figures) == 0 || r.during <= 0 {
				t.Errorf("%s: %q is not measured: %+v", p.kind, r.spec, r)
			}
		}
	}
}

func TestRoom(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 3: 5, 207: 500, 6000: 10000} {
		if got := room(chart.Panel{Asked: []chart.Asked{{Value: most}}, Curves: []chart.Curve{{Points: []chart.Point{{Value: math.NaN()}}}}}); math.Abs(got-want) > want/1e9 {
			t.Errorf("room of %g = %g, want %g", most, got, want)
		}
	}
}
