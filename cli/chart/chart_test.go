package chart

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/golden"
)

// The chart is a document that a browser reads, with a line for each group that has a gap
// while there is no answer.
func TestSVG(t *testing.T) {
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	drawn := SVG("shop/game-day <b>", []Series{
		{Probe: "web", Group: "targets", Phase: "Before", Began: began, Seconds: 1, Points: [][3]int32{{4, 0, 0}, {4, 0, 0}}},
		{Probe: "web", Group: "targets", Phase: "During", Began: began.Add(2 * time.Second), Seconds: 2, Points: [][3]int32{{4, 0, 0}, {0, 0, 4}, {1, 3, 0}, {0, 4, 0}}},
		{Probe: "web", Group: Control, Phase: "During", Began: began.Add(2 * time.Second), Seconds: 2, Points: [][3]int32{{4, 0, 0}, {4, 0, 0}, {4, 0, 0}, {4, 0, 0}}},
	})
	readable(t, drawn)
	for what, want := range map[string]int{
		"<polyline": 4, `<polyline class="curve s1 broken"`: 1, ">web</text>": 1, ">Before</text>": 1, ">During</text>": 1, ">shop/game-day &lt;b&gt;</text>": 1,
		// the last 4 of 10 seconds: from 3 of 4 that fail, to all
		`points="446.4,133.0 573.2,133.0 573.2,103.0 700.0,103.0"`: 1,
	} {
		if got := strings.Count(drawn, what); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", what, got, want, drawn)
		}
	}
	if none := SVG("x", nil); !strings.Contains(none, "no probe was answered") {
		t.Errorf("chart of nothing: %s", none)
	}
}

// A picture is the same for the same values, byte by byte.
func TestPicture(t *testing.T) {
	second := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	drawn := Picture{
		Title: "Network & names", Notes: []string{"network: {drop: 40}", strings.Repeat("a long word ", 12)}, Foot: "measured once", Span: second(8),
		Panels: []Panel{
			{Title: "answers lost", Unit: " %", Most: 100, Asked: []Asked{{"asked: 40 %", 40}}, Shaded: []Shaded{{"Injected", second(2), second(6)}},
				Curves: []Curve{{Name: "to the target", Points: []Point{{0, 0}, {second(2), 0}, {second(3), 42}, {second(4), math.NaN()}, {second(5), 38}, {second(6), 120}}}}},
			{Title: "what is told", Rows: []Row{{Name: "orders", Bars: []Bar{{0, second(2), "10.0.0.1", 0}, {second(2), second(6), "no such host", 1}, {second(6), second(6.5), "10.0.0.1", 0}}}}},
		},
	}.SVG()
	readable(t, drawn)
	golden.Compare(t, "testdata/picture.svg", drawn)
}

func TestGrid(t *testing.T) {
	for _, c := range []struct {
		span, at time.Duration
		tick     time.Duration
		clock    string
	}{
		{8 * time.Second, 3 * time.Second, time.Second, "3s"},
		{45 * time.Second, 90 * time.Second, 5 * time.Second, "1m30s"},
		{10 * time.Minute, 2 * time.Minute, time.Minute, "2m"},
		{9 * time.Hour, 2 * time.Hour, time.Hour, "2h"},
		{400 * time.Hour, 90 * time.Minute, 40 * time.Hour, "1h30m"},
	} {
		d := drawing{span: c.span}
		if got := d.tick(); got != c.tick {
			t.Errorf("tick() of %s = %s, want %s", c.span, got, c.tick)
		}
		if got := clock(c.at); got != c.clock {
			t.Errorf("clock(%s) = %s, want %s", c.at, got, c.clock)
		}
	}
}

// readable wants a document that a browser reads.
func readable(t *testing.T, drawn string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(drawn)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("no XML: %v\n%s", err, drawn)
		}
	}
}
