package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// line is something that must be reached.
type line struct {
	what  string
	value float64
	// most is the limit: value may reach it or, if below, must stay under it.
	most  float64
	below bool
	unit  string
}

func (l line) met() bool { return l.value < l.most || !l.below && l.value == l.most }

// section is the text and the tables of one part of the benchmark.
type section struct {
	name   string // of its place in the document
	lines  []line
	tables []table
	notes  []string
}

// table is one of Markdown, readable as it is.
type table struct {
	title string
	head  []string
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t table) String() string {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	if t.title != "" {
		fmt.Fprintf(&b, "%s:\n\n", t.title)
	}
	row := func(cells []string) {
		for i, cell := range cells {
			gap := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(&b, "| %s%s |", cell, gap) // what the row is about
			} else {
				fmt.Fprintf(&b, " %s%s |", gap, cell)
			}
		}
		b.WriteByte('\n')
	}
	row(t.head)
	for i := range t.head {
		if i == 0 {
			fmt.Fprintf(&b, "|%s|", strings.Repeat("-", width[i]+2))
		} else {
			fmt.Fprintf(&b, "%s:|", strings.Repeat("-", width[i]+1))
		}
	}
	b.WriteByte('\n')
	for _, cells := range t.rows {
		row(cells)
	}
	return b.String()
}

func (s section) String() string {
	var parts []string
	if len(s.lines) > 0 {
		t := table{head: []string{"must reach", "line", "measured", ""}}
		for _, l := range s.lines {
			limit, verdict := "at most ", "met"
			if l.below {
				limit = "under "
			}
			if !l.met() {
				verdict = "**not met**"
			}
			t.add(l.what, limit+quantity(l.most, l.unit), quantity(l.value, l.unit), verdict)
		}
		parts = append(parts, t.String())
	}
	for _, t := range s.tables {
		parts = append(parts, t.String())
	}
	for _, note := range s.notes {
		parts = append(parts, note+"\n")
	}
	return strings.Join(parts, "\n")
}

func quantity(v float64, unit string) string {
	number := fmt.Sprintf("%.2f", v)
	if v == float64(int64(v)) {
		number = thousands(int64(v))
	} else if v >= 100 {
		number = thousands(int64(v + 0.5))
	}
	return strings.TrimSpace(number + " " + unit)
}

// thousands writes 12345 as 12,345.
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// took writes a time with three digits.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }

// quantile is the smallest value that the share q of all does not exceed; 0.5
// is the median. It is 0 of nothing.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func median(all []time.Duration) time.Duration { return quantile(all, 0.5) }

// renew puts the section into the document, in place of what its last
// measurement put there. Everything else stays as it is.
func renew(document string, s section) (string, error) {
	begin, end := "<!-- measured: "+s.name+" -->\n", "<!-- end: "+s.name+" -->"
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("the document has no place for %s: want %q and %q", s.name, strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + s.String() + "\n" + end + after, nil
}
