// Package view describes disruptions in text and tables, for people. It decides from
// objects and the time alone, and writes nowhere.
package view

import (
	"strings"
	"unicode/utf8"

	"github.com/squall-chaos/squall/api/text"
)

// Cell is a piece of text and how bad it is.
type Cell struct {
	Text string
	Tone Tone
}

// Tone is how important a text is; a terminal shows it as a colour.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good
	Careful
	Bad
	Quiet
)

// Paint gives a text the colour of a tone.
type Paint func(Tone, string) string

// Printable replaces control characters: names of steps, reasons and messages of other
// users cannot move the cursor or set a title.
func Printable(written string) string { return text.Printable(written) }

// Grid writes rows in columns of equal width.
func Grid(rows [][]Cell, paint Paint) string { return (&Columns{}).Grid(rows, paint) }

// Columns are the widths of a table to which rows are added.
type Columns struct{ widths []int }

// Grid writes further rows under the earlier ones. A longer text widens its column from
// there on.
func (c *Columns) Grid(rows [][]Cell, paint Paint) string {
	for _, row := range rows {
		for i := range row {
			row[i].Text = Printable(row[i].Text)
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(paint(cell.Tone, cell.Text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell.Text)+3))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Bar shows part of whole, so many characters wide.
func Bar(part, whole, width int) string {
	full := 0
	if whole > 0 {
		full = min(max(part, 0), whole) * width / whole
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}
