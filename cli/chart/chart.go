// Package chart draws values over time as an SVG document. It reads no file and no clock.
package chart

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Series has the answers to a probe by one group over a phase.
type Series struct {
	Probe string `json:"probe"`
	// Group is targets or control.
	Group string `json:"group"`
	// Phase is Before, During or After, and Began when it did.
	Phase string    `json:"phase"`
	Began time.Time `json:"began"`
	// Seconds is the width of a point.
	Seconds int64 `json:"seconds"`
	// Points are the numbers of successes, failures and questions that could not be asked.
	Points [][3]int32 `json:"points"`
}

// Control is the group of the control group.
const Control = "control"

// SVG draws a panel for each probe: the share of failed answers over time, of the targets
// as a line and of the control group as a broken one. Each phase has its name where it
// begins. The line has a gap while there is no answer.
func SVG(title string, all []Series) string {
	var from, to time.Time
	for _, s := range all {
		if from.IsZero() || s.Began.Before(from) {
			from = s.Began
		}
		if s.Ends().After(to) {
			to = s.Ends()
		}
	}
	p := Picture{Title: title, Span: to.Sub(from), Notes: []string{
		fmt.Sprintf("share of answers that failed; from %s, %s long", from.UTC().Format(time.DateTime), max(to.Sub(from), time.Second))}}
	if len(all) == 0 {
		p.Notes = []string{"no probe was answered"}
	}
	p.Panels = Answers(all, from)
	return p.SVG()
}

// Answers returns the panels of SVG for a picture that begins at from.
func Answers(all []Series, from time.Time) (panels []Panel) {
	var probes []string
	for _, s := range all {
		if !slices.Contains(probes, s.Probe) {
			probes = append(probes, s.Probe)
			panels = append(panels, answers(s.Probe, all, from))
		}
	}
	return panels
}

// Ends is when the last point ends.
func (s Series) Ends() time.Time { return s.Began.Add(time.Duration(len(s.Points)) * s.step()) }

// answers is the panel of a probe.
func answers(probe string, all []Series, from time.Time) Panel {
	p := Panel{Title: probe, Unit: "%", Most: 100, Curves: []Curve{{Name: "targets"}, {Name: "control group", Broken: true}}}
	for _, s := range all {
		if s.Probe != probe {
			continue
		}
		began := s.Began.Sub(from)
		if s.Group == Control {
			p.Curves[1].Points = append(p.Curves[1].Points, s.failed(began)...)
			continue
		}
		p.Curves[0].Points = append(p.Curves[0].Points, s.failed(began)...)
		p.Moments = append(p.Moments, Moment{Name: s.Phase, At: began})
	}
	return p
}

func (s Series) step() time.Duration { return time.Duration(max(s.Seconds, 1)) * time.Second }

// failed is the share of answers that failed, in percent, as a line of steps. It ends with
// a gap, because the next phase is another line.
func (s Series) failed(began time.Duration) (points []Point) {
	for i, point := range s.Points {
		share, begins := math.NaN(), began+time.Duration(i)*s.step()
		if n := point[0] + point[1]; n > 0 {
			share = 100 * float64(point[1]) / float64(n)
		}
		points = append(points, Point{begins, share}, Point{begins + s.step(), share})
	}
	return append(points, Point{began, math.NaN()})
}
