// Package chart draws how probes were answered as an SVG document, from values
// alone: it reads no file and no clock.
package chart

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// Series is how a probe was answered over a phase by one group.
type Series struct {
	Probe string `json:"probe"`
	// Group is targets or control.
	Group string `json:"group"`
	// Phase is Before, During or After, and Began when it did.
	Phase string    `json:"phase"`
	Began time.Time `json:"began"`
	// Seconds is the width of a point.
	Seconds int64 `json:"seconds"`
	// Points are successes, failures and questions that could not be asked.
	Points [][3]int32 `json:"points"`
}

// Control is the group of the control group.
const Control = "control"

const (
	width, left, top = 960, 60, 50
	panel, gap       = 120, 50
	colourTargets    = "#b3261e"
	colourControl    = "#1f5fa8"
)

// SVG draws a panel for each probe: which share of its answers failed over time, of
// the targets as a line and of the control group as a broken one. Phases are named
// where they begin. Where nobody answered the line is broken off.
func SVG(title string, all []Series) string {
	var probes []string
	var from, to time.Time
	for _, s := range all {
		if !slices.Contains(probes, s.Probe) {
			probes = append(probes, s.Probe)
		}
		end := s.Began.Add(time.Duration(int64(len(s.Points))*max(s.Seconds, 1)) * time.Second)
		if from.IsZero() || s.Began.Before(from) {
			from = s.Began
		}
		if end.After(to) {
			to = end
		}
	}
	span := max(to.Sub(from), time.Second)
	x := func(at time.Time) float64 {
		return left + float64(at.Sub(from))/float64(span)*(width-left-20)
	}
	height := top + max(len(probes), 1)*(panel+gap)
	var b strings.Builder
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	write(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, width, height, width, height)
	write(`<rect width="100%%" height="100%%" fill="white"/>`)
	write(`<text x="%d" y="20" font-size="15">%s</text>`, left, html.EscapeString(title))
	write(`<text x="%d" y="38"><tspan fill="%s">targets</tspan> <tspan fill="%s">control group (broken line)</tspan>, share of answers that failed; from %s, %s long</text>`,
		left, colourTargets, colourControl, from.UTC().Format(time.DateTime), span)
	if len(probes) == 0 {
		write(`<text x="%d" y="%d">no probe was answered</text>`, left, top+panel/2)
	}
	for i, probe := range probes {
		y := top + i*(panel+gap) + 20
		write(`<text x="%d" y="%d">%s</text>`, left, y-6, html.EscapeString(probe))
		for percent := 0; percent <= 100; percent += 50 {
			at := y + panel - panel*percent/100
			write(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#ddd"/><text x="%d" y="%d" text-anchor="end">%d%%</text>`, left, at, width-20, at, left-6, at+4, percent)
		}
		for _, s := range all {
			if s.Probe != probe {
				continue
			}
			if s.Group != Control {
				write(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#999"/><text x="%.1f" y="%d" fill="#555">%s</text>`,
					x(s.Began), y, x(s.Began), y+panel, x(s.Began)+3, y+panel+14, html.EscapeString(s.Phase))
			}
			for _, path := range lines(s, x, float64(y)) {
				write("%s", path)
			}
		}
	}
	write(`</svg>`)
	return b.String()
}

// lines are the unbroken parts of a series.
func lines(s Series, x func(time.Time) float64, y float64) (all []string) {
	style := fmt.Sprintf(`stroke="%s"`, colourTargets)
	if s.Group == Control {
		style = fmt.Sprintf(`stroke="%s" stroke-dasharray="5 3"`, colourControl)
	}
	var points []string
	flush := func() {
		if len(points) > 0 {
			all = append(all, fmt.Sprintf(`<polyline fill="none" stroke-width="1.5" stroke-linecap="round" %s points="%s"/>`, style, strings.Join(points, " ")))
		}
		points = nil
	}
	for i, point := range s.Points {
		answers := point[0] + point[1]
		if answers == 0 {
			flush()
			continue
		}
		at := y + panel - panel*float64(point[1])/float64(answers)
		begins := s.Began.Add(time.Duration(int64(i)*max(s.Seconds, 1)) * time.Second)
		ends := begins.Add(time.Duration(max(s.Seconds, 1)) * time.Second)
		points = append(points, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(begins), at, x(ends), at))
	}
	flush()
	return all
}
