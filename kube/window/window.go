// Package window computes the times of policies' windows. The worker judges by them,
// and the controller wakes the disruptions that wait for their end.
package window

import (
	"slices"
	"time"
	_ "time/tzdata" // for a machine without a list of time zones

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Touch reports whether one of the windows overlaps the time between from and until. No
// windows mean always.
func Touch(windows []v1beta1.PolicyWindow, from, until time.Time) bool {
	_, touch := LastEnd(windows, from, until)
	return touch
}

// LastEnd returns the end of the last window that overlaps the time between from and
// until; no window overlaps it after that. The end is after until for a window that
// continues then. No windows mean always: the end is until.
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

// week is the number of days within which every window occurs.
const week = 8

func lastEnd(w v1beta1.PolicyWindow, from, until time.Time) (end time.Time, touches bool) {
	zone, err := time.LoadLocation(w.TimeZone) // empty is UTC
	begins, errBegin := clock(w.From)
	ends, errEnd := clock(w.To)
	if err != nil || errBegin != nil || errEnd != nil {
		return until, true // an invalid window counts as always
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

// clock parses a time of day, as the time since midnight.
func clock(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// at returns the moment of a time of day on that day, also on days with 23 or 25 hours.
func at(day time.Time, shows time.Duration) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), 0, int(shows/time.Minute), 0, 0, day.Location())
}
