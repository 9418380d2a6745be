package window

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestTouch(t *testing.T) {
	type window = v1beta1.PolicyWindow
	days := func(days ...v1beta1.PolicyDay) []v1beta1.PolicyDay { return days }
	office := window{TimeZone: "Europe/Berlin", Days: days("Monday", "Tuesday"), From: "09:00", To: "17:00"}
	for _, test := range []struct {
		name        string
		window      window
		from, until string
		touches     bool
	}{
		{"within", office, "2026-11-23T09:30:00Z", "2026-11-23T10:00:00Z", true},
		{"by the clock of the zone: 08:30 UTC is 09:30", office, "2026-11-23T08:10:00Z", "2026-11-23T08:30:00Z", true},
		{"before it", office, "2026-11-23T07:00:00Z", "2026-11-23T07:59:00Z", false},
		{"until it begins", office, "2026-11-23T07:00:00Z", "2026-11-23T08:00:00Z", false},
		{"into it", office, "2026-11-23T07:00:00Z", "2026-11-23T08:00:01Z", true},
		{"from its end on", office, "2026-11-23T16:00:00Z", "2026-11-23T20:00:00Z", false},
		{"its last second", office, "2026-11-23T15:59:59Z", "2026-11-23T20:00:00Z", true},
		{"on another day", office, "2026-11-25T09:30:00Z", "2026-11-25T20:00:00Z", false},
		{"from another day into it", office, "2026-11-22T20:00:00Z", "2026-11-23T09:00:00Z", true},
		{"all over it", office, "2026-11-22T20:00:00Z", "2026-11-27T09:00:00Z", true},
		{"five days beside it", office, "2026-11-24T20:00:00Z", "2026-11-29T20:00:00Z", false},
		{"a month", office, "2026-11-24T20:00:00Z", "2026-12-24T20:00:00Z", true},
		{"in summer 07:30 UTC is 09:30", office, "2026-07-20T07:10:00Z", "2026-07-20T07:30:00Z", true},
		{"a night: its evening", window{Days: days("Friday"), From: "22:00", To: "06:00"}, "2026-11-27T23:00:00Z", "2026-11-27T23:30:00Z", true},
		{"a night: its morning", window{Days: days("Friday"), From: "22:00", To: "06:00"}, "2026-11-28T05:00:00Z", "2026-11-28T05:30:00Z", true},
		{"a night: the morning before", window{Days: days("Friday"), From: "22:00", To: "06:00"}, "2026-11-27T05:00:00Z", "2026-11-27T05:30:00Z", false},
		{"a whole day", window{Days: days("Saturday")}, "2026-11-28T23:59:00Z", "2026-11-29T10:00:00Z", true},
		{"the day after a whole day", window{Days: days("Saturday")}, "2026-11-29T00:00:00Z", "2026-11-29T10:00:00Z", false},
		{"on the day of the week, before it begins, and a week before", office, "2026-11-16T10:00:00Z", "2026-11-23T07:00:00Z", true},
		{"on the day of the week, before it begins, and not a week before", office, "2026-11-17T20:00:00Z", "2026-11-23T07:00:00Z", false},
		{"always", window{}, "2026-11-29T00:00:00Z", "2026-11-29T00:00:01Z", true},
		{"an hour that the clock leaves out", window{TimeZone: "Europe/Berlin", From: "02:15", To: "02:45"}, "2026-03-29T00:30:00Z", "2026-03-29T02:00:00Z", true},
		{"an hour that the clock shows twice", window{TimeZone: "Europe/Berlin", From: "02:00", To: "03:00"}, "2026-10-25T01:30:00Z", "2026-10-25T01:40:00Z", true},
		{"no such zone: always", window{TimeZone: "Europe/Atlantis", From: "02:00", To: "03:00"}, "2026-11-29T12:00:00Z", "2026-11-29T13:00:00Z", true},
		{"no such time: always", window{From: "2 o'clock", To: "03:00"}, "2026-11-29T12:00:00Z", "2026-11-29T13:00:00Z", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Touch([]window{test.window}, moment(t, test.from), moment(t, test.until)); got != test.touches {
				t.Errorf("Touch = %t, want %t", got, test.touches)
			}
		})
	}
	if !Touch(nil, time.Now(), time.Now()) {
		t.Error("without windows a rule is about every time")
	}
}

func TestLastEnd(t *testing.T) {
	type window = v1beta1.PolicyWindow
	morning := window{TimeZone: "Europe/Berlin", From: "06:00", To: "09:00"}
	night := window{TimeZone: "Europe/Berlin", From: "22:00", To: "06:00"}
	for _, test := range []struct {
		name        string
		windows     []window
		from, until string
		want        string // empty if none touches
	}{
		{"within", []window{morning}, "2026-11-23T07:00:00Z", "2026-11-23T12:00:00Z", "2026-11-23T08:00:00Z"},
		{"beside it", []window{morning}, "2026-11-23T08:00:00Z", "2026-11-23T12:00:00Z", ""},
		{"of two days", []window{morning}, "2026-11-23T07:00:00Z", "2026-11-24T12:00:00Z", "2026-11-24T08:00:00Z"},
		{"one that goes on", []window{morning}, "2026-11-23T06:00:00Z", "2026-11-23T07:00:00Z", "2026-11-23T08:00:00Z"},
		{"one after the other", []window{morning, night}, "2026-11-23T04:00:00Z", "2026-11-23T12:00:00Z", "2026-11-23T08:00:00Z"},
		{"one after the other, whatever their order", []window{night, morning}, "2026-11-23T04:00:00Z", "2026-11-23T12:00:00Z", "2026-11-23T08:00:00Z"},
		{"of two that do not touch", []window{morning, night}, "2026-11-23T08:00:00Z", "2026-11-23T12:00:00Z", ""},
		{"always", nil, "2026-11-23T08:00:00Z", "2026-11-23T12:00:00Z", "2026-11-23T12:00:00Z"},
		{"nobody knows when: always", []window{morning, {From: "noon"}}, "2026-11-23T08:00:00Z", "2026-11-23T12:00:00Z", "2026-11-23T12:00:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, touch := LastEnd(test.windows, moment(t, test.from), moment(t, test.until))
			if touch != (test.want != "") || touch && !got.Equal(moment(t, test.want)) {
				t.Errorf("LastEnd = %s, %t, want %s", got, touch, test.want)
			}
		})
	}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
