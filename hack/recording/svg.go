package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"slices"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// line is a row of the screen: pieces of text in one style.
type line []piece

type piece struct {
	text  string
	color string // of the letters, such as #3fb950; empty for the usual one
	bold  bool
}

// screen reads the rows of a terminal, without the space at their ends.
func screen(terminal *vt.Emulator) []line {
	lines := make([]line, terminal.Height())
	for y := range lines {
		var row line
		for x := 0; x < terminal.Width(); x++ {
			cell := terminal.CellAt(x, y)
			text := " "
			style := uv.Style{}
			if cell != nil {
				style = cell.Style
				if cell.Content != "" {
					text = cell.Content
				}
			}
			next := piece{text, hex(style.Fg), style.Attrs&uv.AttrBold != 0}
			if n := len(row); n > 0 && row[n-1].color == next.color && row[n-1].bold == next.bold {
				row[n-1].text += text
				continue
			}
			row = append(row, next)
		}
		for len(row) > 0 {
			last := &row[len(row)-1]
			if last.text = strings.TrimRight(last.text, " "); last.text != "" {
				break
			}
			row = row[:len(row)-1]
		}
		lines[y] = row
	}
	return lines
}

// onDark are the basic colours as they can be read on a dark ground.
var onDark = map[color.Color]string{
	ansi.Red: "#ff7b72", ansi.Green: "#3fb950", ansi.Yellow: "#d29922", ansi.Blue: "#58a6ff",
}

func hex(c color.Color) string {
	if c == nil {
		return ""
	}
	if basic, ok := onDark[c]; ok {
		return basic
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

func same(a, b []line) bool { return slices.EqualFunc(a, b, slices.Equal[line]) }

// Sizes in the picture, in pixels.
const (
	fontSize   = 14
	lineHeight = 20
	letter     = 8.43 // width of a letter of the usual fonts, by their size
	margin     = 16
)

// shot is a row that shows a line from one time to another.
type shot struct {
	row      int
	line     line
	from, to time.Duration // to is 0 for a line that stays
}

// shots are the lines of all frames, in order of rows and times.
func (f *film) shots() (shots []shot) {
	for row := range f.rows {
		var open *shot
		for _, frame := range f.frames {
			now := frame.lines[row]
			if open != nil && slices.Equal(open.line, now) {
				continue
			}
			if open != nil {
				open.to = frame.at
				shots = append(shots, *open)
				open = nil
			}
			if len(now) > 0 {
				open = &shot{row: row, line: now, from: frame.at}
			}
		}
		if open != nil {
			shots = append(shots, *open)
		}
	}
	return shots
}

// svg draws the film. It begins again after its end. Where nothing moves, because a person
// wants that or a program cannot do it, the last screen is shown.
func (f *film) svg() []byte {
	var out bytes.Buffer
	shots := f.shots()
	used := shots[len(shots)-1].row + 1 // the rows below stay empty
	width, height := int(float64(f.columns)*letter)+2*margin, used*lineHeight+2*margin
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="%d" fill="#e6edf3">
<desc>%s</desc>
<style>
text{white-space:pre;animation:%gs step-end infinite}
.gone{visibility:hidden}
`, width, height, fontSize, f.origin, f.length().Seconds())
	for i, s := range shots {
		fmt.Fprintf(&out, "#s%d{animation-name:k%[1]d}@keyframes k%[1]d{0%%{visibility:%s}", i, visibility(s.from == 0))
		if s.from > 0 {
			fmt.Fprintf(&out, "%.2f%%{visibility:visible}", f.percent(s.from))
		}
		if s.to > 0 {
			fmt.Fprintf(&out, "%.2f%%{visibility:hidden}", f.percent(s.to))
		}
		out.WriteString("}\n")
	}
	fmt.Fprintf(&out, "@media (prefers-reduced-motion:reduce){text{animation:none}}\n</style>\n<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", width, height)
	for i, s := range shots {
		class := ""
		if s.to > 0 {
			class = ` class="gone"`
		}
		fmt.Fprintf(&out, `<text id="s%d"%s x="%d" y="%d">%s</text>`+"\n", i, class, margin, margin+(s.row+1)*lineHeight-5, s.line.svg())
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func (f *film) percent(at time.Duration) float64 { return 100 * at.Seconds() / f.length().Seconds() }

func visibility(visible bool) string {
	if visible {
		return "visible"
	}
	return "hidden"
}

func (l line) svg() string {
	var out strings.Builder
	for _, p := range l {
		var text bytes.Buffer
		_ = xml.EscapeText(&text, []byte(p.text)) // a buffer takes everything
		attributes := ""
		if p.color != "" {
			attributes += ` fill="` + p.color + `"`
		}
		if p.bold {
			attributes += ` font-weight="bold"`
		}
		if attributes == "" {
			out.Write(text.Bytes())
			continue
		}
		fmt.Fprintf(&out, "<tspan%s>%s</tspan>", attributes, text.Bytes())
	}
	return out.String()
}
