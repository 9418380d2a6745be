package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/chart"
)

//go:embed page.html
var page string

// HTML returns the report as a page that loads nothing and runs no script.
func (r Report) HTML() ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"join":  func(texts []string) string { return strings.Join(texts, ", ") },
		"at":    written,
		"lower": strings.ToLower,
	}).Parse(page)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, r)
	return text.Bytes(), err
}

// written is a time in UTC, or a dash for an unknown time.
func written(t any) string {
	switch t := t.(type) {
	case time.Time:
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	case *time.Time:
		if t != nil {
			return written(*t)
		}
	}
	return "-"
}

// Chart draws the disruption over time, with the time of the fault shaded; nothing if no
// time is known.
func (d Disruption) Chart() template.HTML {
	from, to := d.span()
	if !from.Before(to) {
		return ""
	}
	p := chart.Picture{Title: "Over time", Foot: "from " + written(from) + "; the fault acted in the shaded time", Span: to.Sub(from)}
	if len(d.Timeline) > 0 {
		p.Panels = append(p.Panels, d.injections(from, to))
	}
	switch {
	case len(d.Answers) > 0:
		p.Panels = append(p.Panels, chart.Answers(d.Answers, from)...)
	case len(d.Timeline) > 0 && len(d.Probes) > 0:
		p.Panels = append(p.Panels, d.states(from, to))
	}
	fault := d.fault(from, to)
	if len(fault) == 0 {
		p.Foot = "from " + written(from)
	}
	for i := range p.Panels {
		p.Panels[i].Shaded = fault
	}
	if len(p.Panels) == 0 {
		return ""
	}
	return template.HTML(p.SVG()) // the drawing escapes its texts
}

// span is the time between the first and the last known event.
func (d Disruption) span() (from, to time.Time) {
	include := func(t time.Time) {
		if t.IsZero() {
			return
		}
		if from.IsZero() || t.Before(from) {
			from = t
		}
		if t.After(to) {
			to = t
		}
	}
	for _, m := range d.Timeline {
		include(m.Time)
	}
	for _, s := range d.Answers {
		include(s.Began)
		include(s.Ends())
	}
	for _, t := range []*time.Time{d.InjectedAt, d.CleanedAt} {
		if t != nil && !from.IsZero() {
			include(*t)
		}
	}
	return from, to
}

// fault is the time from the injection of every target until the clean-up began, if that
// was seen, else until the end.
func (d Disruption) fault(from, to time.Time) []chart.Shaded {
	if d.InjectedAt == nil {
		return nil
	}
	end := to
	if d.CleanedAt != nil {
		end = *d.CleanedAt
	}
	for _, m := range d.Timeline {
		if v1beta1.Phase(m.Phase).Ending() && m.Time.Before(end) {
			end = m.Time
		}
	}
	if !d.InjectedAt.Before(end) {
		return nil
	}
	return []chart.Shaded{{Name: strings.Join(d.Faults, ", "), From: d.InjectedAt.Sub(from), To: end.Sub(from)}}
}

// until is the end of a moment of the timeline: the next one, or the end of the picture.
func (d Disruption) until(i int, to time.Time) time.Time {
	if i+1 < len(d.Timeline) {
		return d.Timeline[i+1].Time
	}
	return to
}

// injections is how many targets were injected.
func (d Disruption) injections(from, to time.Time) chart.Panel {
	p := chart.Panel{Title: "injected targets", Most: float64(max(d.Wanted, 1)), Curves: []chart.Curve{{}}}
	for i, m := range d.Timeline {
		until := d.until(i, to)
		injected := float64(m.Injected)
		if v1beta1.Phase(m.Phase).Over() {
			injected = 0 // the status keeps what it was last
		}
		p.Curves[0].Points = append(p.Curves[0].Points, chart.Point{At: m.Time.Sub(from), Value: injected}, chart.Point{At: until.Sub(from), Value: injected})
	}
	return p
}

// states are those of the probes.
func (d Disruption) states(from, to time.Time) chart.Panel {
	p := chart.Panel{Title: "probes"}
	for _, probe := range d.Probes {
		row := chart.Row{Name: probe.Name}
		for i, m := range d.Timeline {
			state, until := m.Probes[probe.Name], d.until(i, to)
			last := len(row.Bars) - 1
			switch {
			case state == "":
			case last >= 0 && row.Bars[last].Text == state:
				row.Bars[last].To = until.Sub(from)
			default:
				class := slices.Index([]string{string(v1beta1.ProbeSuccess), string(v1beta1.ProbeFailure), string(v1beta1.ProbeUnknown)}, state)
				row.Bars = append(row.Bars, chart.Bar{From: m.Time.Sub(from), To: until.Sub(from), Text: state, Class: max(class, 0)})
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}
