// Package window says when the windows of policies are: to the worker, which judges by
// them, and to the bridge, which wakes who waits for their end.
package window

import (
	"slices"
	"time"
	_ "time/tzdata" // a machine without the list of zones knows them all the same

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Touch tells whether one of the windows has a moment of the time from one
// moment until another. No windows mean always.
func Touch(windows []v1beta1.PolicyWindow, from, until time.Time) bool {
	_, touch := LastEnd(windows, from, until)
	return touch
}

// LastEnd is when the last window ends that has a moment of the time from one moment
// until another: from then on, none has. It is after until for one that goes on then,
// and until for no windows, which mean always.
func LastEnd(windows []v1beta1.PolicyWindow, from, until time.Time) (last time.Time, touch bool) {
	if len(windows) == 0 {
		return until, true
	}
	for _, w := range windows {
		if end, touches := lastEnd(w, from, until); touches && (!touch || end.After(last)) {
			last, touch = end, true
		}
	}
	return last, touch
}

// week is within how many days every window has come by.
const week = 8

func lastEnd(w v1beta1.PolicyWindow, from, until time.Time) (end time.Time, touches bool) {
	zone, err := time.LoadLocation(w.TimeZone) // empty is UTC
	begins, errBegin := clock(w.From)
	ends, errEnd := clock(w.To)
	if err != nil || errBegin != nil || errEnd != nil {
		return until, true // nobody knows when it is
	}
	if ends <= begins {
		ends += 24 * time.Hour
	}
	for back := range week {
		day := until.In(zone).AddDate(0, 0, -back)
		if end := at(day, ends); !end.After(from) {
			return time.Time{}, false
		} else if at(day, begins).Before(until) && (len(w.Days) == 0 || slices.Contains(w.Days, v1beta1.PolicyDay(day.Weekday().String()))) {
			return end, true
		}
	}
	return time.Time{}, false
}

// clock is the time since midnight by the clock.
func clock(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// at is when the clock of that day shows this; on days with 23 or 25 hours, too.
func at(day time.Time, shows time.Duration) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), 0, int(shows/time.Minute), 0, 0, day.Location())
}
