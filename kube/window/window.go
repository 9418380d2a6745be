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
	return len(windows) == 0 || slices.ContainsFunc(windows, func(w v1beta1.PolicyWindow) bool { return touchesOne(w, from, until) })
}

// week is after how many days every window has come by.
const week = 8

func touchesOne(w v1beta1.PolicyWindow, from, until time.Time) bool {
	zone, err := time.LoadLocation(w.TimeZone) // empty is UTC
	begins, errBegin := clock(w.From)
	ends, errEnd := clock(w.To)
	if err != nil || errBegin != nil || errEnd != nil {
		return true // nobody knows when it is
	}
	if ends <= begins {
		ends += 24 * time.Hour
	}
	// One that began the day before may go on.
	day := from.In(zone).AddDate(0, 0, -1)
	for range week + 1 {
		begin, end := at(day, begins), at(day, ends)
		if begin.After(from) && !begin.Before(until) {
			return false
		}
		on := len(w.Days) == 0 || slices.Contains(w.Days, v1beta1.PolicyDay(day.Weekday().String()))
		if on && end.After(from) {
			return true
		}
		day = day.AddDate(0, 0, 1)
	}
	return false
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
