package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Picture shows values over time, in panels one below the other.
type Picture struct {
	Title string
	// Notes are lines below the title, Foot one below everything.
	Notes []string
	Foot  string
	// Span is how long all of it took.
	Span   time.Duration
	Panels []Panel
}

// Panel shows either a figure as curves, or states as rows of bars.
type Panel struct {
	Title  string
	Unit   string // of the figure
	Most   float64
	Curves []Curve
	Rows   []Row
	// Asked is drawn as level lines, Shaded as background.
	Asked   []Asked
	Shaded  []Shaded
	Moments []Moment
}

// Curve is a figure over time. It has a gap at a value that is no number.
type Curve struct {
	Name   string // in the legend; may be empty
	Broken bool   // drawn as a broken line
	Points []Point
}

// Point is a value at a time after the beginning.
type Point struct {
	At    time.Duration
	Value float64
}

// Asked is the value that a figure should have.
type Asked struct {
	Name  string
	Value float64
}

// Shaded is a highlighted time with a name.
type Shaded struct {
	Name     string
	From, To time.Duration
}

// Moment is a time with a name.
type Moment struct {
	Name string
	At   time.Duration
}

// Row has the states of one thing over time.
type Row struct {
	Name string
	Bars []Bar
}

// Bar is the time of one state. Bars of one class look alike.
type Bar struct {
	From, To time.Duration
	Text     string
	Class    int
}

const (
	width, left, right = 720, 66, 20
	panel, row         = 120, 26
	classes            = 3
)

// style has a background of its own, light or dark as the reader's system, so that a
// picture can be read on any page.
const style = `
text{font:12.5px system-ui,sans-serif;fill:#444}.title{font-size:15px;font-weight:600}.title,.head{fill:#111}.foot{font-size:11px}.ground{fill:#fff}
.grid{stroke:#0002}.shade{fill:#f5a62326}.asked{stroke:#777;stroke-dasharray:6 4}.moment{stroke:#999}
.curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.broken{stroke-dasharray:5 4}
.s0{stroke:#b3261e}.s1{stroke:#1f5fa8}.s2{stroke:#767676}.b0{fill:#1f5fa8}.b1{fill:#b3261e}.b2{fill:#767676}.bar{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#bbb}.title,.head{fill:#eee}.ground{fill:#15181d}.grid{stroke:#fff3}.shade{fill:#f5a62330}.asked{stroke:#999}
.s0{stroke:#ff8a80}.s1{stroke:#7ab8ff}.s2{stroke:#aaa}.b0{fill:#2f6fb8}.b1{fill:#c2453c}}
`

// drawing is a document that grows.
type drawing struct {
	strings.Builder
	span time.Duration
}

func (d *drawing) write(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// text writes at a place that is the text's start, middle or end.
func (d *drawing) text(class, anchor string, x, y float64, text string) {
	looks := ""
	if class != "" {
		looks = ` class="` + class + `"`
	}
	if anchor != "start" {
		looks += ` text-anchor="` + anchor + `"`
	}
	d.write(`<text%s x="%.1f" y="%.1f">%s</text>`, looks, x, y, html.EscapeString(text))
}

// x is the position of a time.
func (d *drawing) x(at time.Duration) float64 {
	return left + float64(at)/float64(d.span)*(width-left-right)
}

// SVG draws a picture that loads nothing.
func (p Picture) SVG() string {
	d := &drawing{span: max(p.Span, time.Second)}
	y := 24.0
	d.text("title", "start", left, y, p.Title)
	for _, note := range p.Notes {
		for _, line := range wrapped(note) {
			y += 19
			d.text("", "start", left, y, line)
		}
	}
	y += 14
	for _, panel := range p.Panels {
		y = d.panel(panel, y)
	}
	if p.Foot != "" {
		y += 18
		d.text("foot", "start", left, y, p.Foot)
	}
	height := y + 14
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-label="%s">`+"\n<style>%s</style>\n"+
		`<rect class="ground" width="100%%" height="100%%"/>`+"\n", width, height, html.EscapeString(p.Title), style)
	return head + d.String() + "</svg>\n"
}

// wrapped splits a text into lines that fit a picture, unless a word is longer.
func wrapped(text string) (lines []string) {
	const most = 90
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= most {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// panel draws a panel below y, and returns its bottom.
func (d *drawing) panel(p Panel, y float64) float64 {
	y += 20
	d.text("head", "start", left, y, p.Title)
	y = d.legend(p, y) + 8
	tall := float64(panel)
	if len(p.Rows) > 0 {
		tall = float64(len(p.Rows) * (row + 18))
	}
	if len(p.Shaded) > 0 {
		y += 14 // for their names
	}
	for _, s := range p.Shaded {
		d.write(`<rect class="shade" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, d.x(s.From), y, d.x(s.To)-d.x(s.From), tall)
		d.text("", "middle", (d.x(s.From)+d.x(s.To))/2, y-4, s.Name)
	}
	for at := time.Duration(0); at <= d.span; at += d.tick() {
		d.write(`<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, d.x(at), y, d.x(at), y+tall)
		d.text("", "middle", d.x(at), y+tall+16, clock(at))
	}
	if len(p.Rows) > 0 {
		d.rows(p.Rows, y)
	} else {
		d.figure(p, y)
	}
	bottom := y + tall + 20
	for _, m := range p.Moments {
		d.write(`<line class="moment" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, d.x(m.At), y, d.x(m.At), y+tall)
		d.text("", "start", d.x(m.At)+3, y+tall+32, m.Name)
		bottom = y + tall + 36
	}
	return bottom
}

// legend names the curves that have names, and the levels, in a line of its own.
func (d *drawing) legend(p Panel, y float64) float64 {
	at, below := float64(left), y+18
	key := func(class, name string) {
		if name == "" {
			return
		}
		y = below
		d.write(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, at, y-4, at+26, y-4)
		d.text("", "start", at+32, y, name)
		at += 32 + 8.5*float64(len(name)) + 14
	}
	for i, c := range p.Curves {
		if len(c.Points) > 0 {
			key(c.class(i), c.Name)
		}
	}
	var asked []string
	for _, a := range p.Asked {
		asked = append(asked, a.Name)
	}
	key("asked", strings.Join(asked, ", "))
	return y
}

func (c Curve) class(i int) string {
	class := fmt.Sprintf("curve s%d", i%classes)
	if c.Broken {
		class += " broken"
	}
	return class
}

// figure draws the levels and curves of a panel.
func (d *drawing) figure(p Panel, top float64) {
	most := p.Most
	if most <= 0 {
		most = 1
	}
	y := func(value float64) float64 { return top + panel - panel*min(value, most)/most }
	for _, part := range []float64{0, 0.5, 1} {
		d.write(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y(part*most), width-right, y(part*most))
		d.text("", "end", left-7, y(part*most)+4, fmt.Sprintf("%.4g%s", part*most, p.Unit))
	}
	for _, a := range p.Asked {
		d.write(`<line class="asked" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y(a.Value), width-right, y(a.Value))
	}
	for i, c := range p.Curves {
		for _, points := range c.unbroken() {
			var list []string
			for _, point := range points {
				list = append(list, fmt.Sprintf("%.1f,%.1f", d.x(point.At), y(point.Value)))
			}
			d.write(`<polyline class="%s" points="%s"/>`, c.class(i), strings.Join(list, " "))
		}
	}
}

// unbroken are the parts of a curve between values that are no number.
func (c Curve) unbroken() (parts [][]Point) {
	begun := false
	for _, point := range c.Points {
		if math.IsNaN(point.Value) {
			begun = false
			continue
		}
		if !begun {
			parts, begun = append(parts, nil), true
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], point)
	}
	return parts
}

// rows draws bars, and their texts where there is room for them.
func (d *drawing) rows(rows []Row, y float64) {
	for _, r := range rows {
		d.text("", "start", left+4, y+13, r.Name)
		y += 18
		for _, b := range r.Bars {
			wide := d.x(b.To) - d.x(b.From)
			d.write(`<rect class="b%d" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="3"/>`, b.Class%classes, d.x(b.From), y, max(wide-1, 1), row-6)
			if wide > 7*float64(len(b.Text)) {
				d.text("bar", "middle", d.x(b.From)+wide/2, y+14.5, b.Text)
			}
		}
		y += row
	}
}

// tick is the time between two lines of the grid: at most ten of them.
func (d *drawing) tick() time.Duration {
	for _, every := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour} {
		if d.span/every <= 10 {
			return every
		}
	}
	return d.span / 10
}

// clock writes a time without zeroes at its end: 90s, 2m and 1h as 1m30s, 2m and 1h.
func clock(at time.Duration) string {
	text := at.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
