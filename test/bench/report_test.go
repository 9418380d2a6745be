package bench

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLine(t *testing.T) {
	for _, test := range []struct {
		name string
		line line
		want bool
	}{
		{"less than the limit", line{value: 1.29, most: 1.3}, true},
		{"the limit itself, where it may be reached", line{value: 3, most: 3}, true},
		{"the limit itself, where it may not", line{value: 400, most: 400, below: true}, false},
		{"more than the limit", line{value: 1.31, most: 1.3}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.line.met(); got != test.want {
				t.Errorf("%+v met = %t, want %t", test.line, got, test.want)
			}
		})
	}
}

func TestSection(t *testing.T) {
	s := section{
		name:   "x",
		lines:  []line{{what: "time", value: 1.654, most: 1.3}, {what: "events", value: 212, most: 1000, below: true}, {what: "delay", value: 84.2, most: 200, below: true, unit: "ms"}},
		tables: []table{{title: "Times", head: []string{"targets", "create"}, rows: [][]string{{"1", "210 ms"}, {"10,000", "41.2 s"}}}},
		notes:  []string{"Measured some time."},
	}
	for _, part := range []string{
		"| time       | at most 1.30 |     1.65 | **not met** |",
		"| events     |  under 1,000 |      212 |         met |",
		"| delay      | under 200 ms | 84.20 ms |         met |",
		"Times:\n\n| targets | create |\n|---------|-------:|\n| 1       | 210 ms |\n| 10,000  | 41.2 s |\n\nMeasured some time.\n",
	} {
		if !strings.Contains(s.String(), part) {
			t.Errorf("it says:\n%s\nwithout:\n%s", s, part)
		}
	}
}

func TestRenew(t *testing.T) {
	document := "# Title\n<!-- measured: a -->\nold\n<!-- end: a -->\nbetween\n<!-- measured: b -->\nkept\n<!-- end: b -->\n"
	got, err := renew(document, section{name: "a", notes: []string{"new"}})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(document, "old\n", "\nnew\n\n", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again, err := renew(got, section{name: "a", notes: []string{"new"}}); err != nil || again != got {
		t.Errorf("renewed once more: %v\n%s", err, cmp.Diff(got, again))
	}
	if _, err := renew(document, section{name: "c"}); err == nil {
		t.Error("a section without a place in the document was no error")
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.95: 95, 1: 100} {
		if got := quantile(all, q); got != want {
			t.Errorf("quantile(1 to 100, %g) = %d, want %d", q, got, want)
		}
	}
	if got := median([]time.Duration{9, 1, 5}); got != 5 {
		t.Errorf("median(9, 1, 5) = %d, want 5", got)
	}
	if got := median(nil); got != 0 {
		t.Errorf("median of nothing = %d, want 0", got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 10050: "10,050"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestPicture(t *testing.T) {
	curves := []curve{
		{"create", "create", []point{{1, 200 * time.Millisecond}, {1000, 2 * time.Second}}},
		{"the floor of it", "create floor", []point{{1, 10 * time.Millisecond}, {1000, 1900 * time.Millisecond}}},
	}
	drawn := picture("Time by targets", curves)
	decoder := xml.NewDecoder(strings.NewReader(drawn))
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, drawn)
		}
	}
	x, y := axes(curves)
	if x.low != 0 || x.high != 3 || y.low != -2 || y.high != 1 {
		t.Errorf("axes of 10^%d to 10^%d targets, 10^%d to 10^%d s; want 0 to 3, -2 to 1", x.low, x.high, y.low, y.high)
	}
	if at := y.at(0.01); at != height-bottom {
		t.Errorf("10 ms is at %g, want at the lower edge, %d", at, height-bottom)
	}
	if at := x.at(1000); at != width-right {
		t.Errorf("1,000 targets are at %g, want at the right edge, %d", at, width-right)
	}
	if n := strings.Count(drawn, "<circle"); n != 4 {
		t.Errorf("%d points, want 4", n)
	}
}
