package main

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/squall-chaos/squall/cli/chart"
)

// reading is what one look saw: figures and what was the case, each by its name.
type reading struct {
	values map[string]float64
	states map[string]state
}

// state is what was the case with one thing. States of one class look alike.
type state struct {
	text  string
	class int
}

// sample is a reading and when it was taken, since the beginning.
type sample struct {
	at time.Duration
	reading
}

// recording is what was seen in a run.
type recording struct {
	samples []sample
	// injected is when status became Injected, and ended when it was no longer.
	injected, ended time.Duration
	span            time.Duration
}

// figure is the content of a panel: named values as curves, or else all states as
// rows.
type figure struct {
	title, unit string
	// most is the upper end of the panel; 0 is what has room for all values.
	most   float64
	curves []string
	// perSecond draws how much values grow in a second.
	perSecond bool
	asked     []chart.Asked
}

// panels draw a recording, one for each figure.
func (r recording) panels(figures []figure) (all []chart.Panel) {
	for _, f := range figures {
		p := chart.Panel{Title: f.title, Unit: f.unit, Most: f.most, Asked: f.asked,
			Shaded: []chart.Shaded{{Name: "Injected", From: r.injected, To: r.ended}}}
		for _, name := range f.curves {
			c := r.curve(name)
			if f.perSecond {
				c.Points = perSecond(c.Points)
			}
			if len(f.curves) > 1 {
				c.Name = name
			}
			p.Curves = append(p.Curves, c)
		}
		if len(f.curves) == 0 {
			p.Rows = r.rows()
		} else if p.Most == 0 {
			p.Most = room(p)
		}
		all = append(all, p)
	}
	return all
}

// curve is a value over time, broken off where a look did not see it.
func (r recording) curve(name string) (c chart.Curve) {
	for _, s := range r.samples {
		value, seen := s.values[name]
		if !seen {
			value = math.NaN()
		}
		c.Points = append(c.Points, chart.Point{At: s.at, Value: value})
	}
	return c
}

// perSecond is how much values grow from point to point, in a second.
func perSecond(points []chart.Point) (rates []chart.Point) {
	for i := 1; i < len(points); i++ {
		from, to := points[i-1], points[i]
		rates = append(rates, chart.Point{At: (from.At + to.At) / 2, Value: (to.Value - from.Value) / (to.At - from.At).Seconds()})
	}
	return rates
}

// room is 1, 2 or 5 times a power of ten, and at least the largest value of a panel.
func room(p chart.Panel) float64 {
	most := 0.0
	for _, a := range p.Asked {
		most = max(most, a.Value)
	}
	for _, c := range p.Curves {
		for _, point := range c.Points {
			if point.Value > most { // no number is not
				most = point.Value
			}
		}
	}
	if most == 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{1, 2, 5} {
		if times*power >= most {
			return times * power
		}
	}
	return 10 * power
}

// rows are all things of which a state was seen, in the order in which they came. A
// state lasts until the next look, and the last one no longer than it was seen.
func (r recording) rows() (rows []chart.Row) {
	var names []string
	for _, s := range r.samples {
		for _, name := range slices.Sorted(maps.Keys(s.states)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		row := chart.Row{Name: name}
		for i, s := range r.samples {
			now, seen := s.states[name]
			if !seen {
				continue
			}
			until := s.at
			if i+1 < len(r.samples) {
				until = r.samples[i+1].at
			}
			if n := len(row.Bars); n > 0 && row.Bars[n-1].To == s.at && row.Bars[n-1].Text == now.text {
				row.Bars[n-1].To = until
				continue
			}
			row.Bars = append(row.Bars, chart.Bar{From: s.at, To: until, Text: now.text, Class: now.class})
		}
		rows = append(rows, row)
	}
	return rows
}
