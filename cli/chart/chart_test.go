package chart

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

// The chart is a document that a browser reads, with a line for each group that is
// broken off where nobody answered.
func TestSVG(t *testing.T) {
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	drawn := SVG("shop/game-day <b>", []Series{
		{Probe: "web", Group: "targets", Phase: "Before", Began: began, Seconds: 1, Points: [][3]int32{{4, 0, 0}, {4, 0, 0}}},
		{Probe: "web", Group: "targets", Phase: "During", Began: began.Add(2 * time.Second), Seconds: 2, Points: [][3]int32{{4, 0, 0}, {0, 0, 4}, {1, 3, 0}, {0, 4, 0}}},
		{Probe: "web", Group: Control, Phase: "During", Began: began.Add(2 * time.Second), Seconds: 2, Points: [][3]int32{{4, 0, 0}, {4, 0, 0}, {4, 0, 0}, {4, 0, 0}}},
	})
	for decoder := xml.NewDecoder(strings.NewReader(drawn)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("no XML: %v\n%s", err, drawn)
		}
	}
	for what, want := range map[string]int{
		"<polyline": 4, "stroke-dasharray": 1, ">web</text>": 1, ">Before</text>": 1, ">During</text>": 1, "shop/game-day &lt;b&gt;": 1,
		// the last 4 of 10 seconds: from 3 of 4 that fail, to all
		`points="588.0,100.0 764.0,100.0 764.0,70.0 940.0,70.0"`: 1,
	} {
		if got := strings.Count(drawn, what); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", what, got, want, drawn)
		}
	}
	if none := SVG("x", nil); !strings.Contains(none, "no probe was answered") {
		t.Errorf("chart of nothing: %s", none)
	}
}
