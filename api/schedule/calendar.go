package schedule

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Range is from Start to End, both included.
type Range struct{ Start, End int }

// Calendar are times at which every field agrees.
type Calendar struct {
	Minute, Hour, DayOfMonth, Month, DayOfWeek []Range
}

// Calendars are the times of the schedule in Temporal's form, in which every field of a
// calendar has to agree. If cron takes either day, of the month or of the week, there are
// two calendars. Every is set instead for a schedule of one interval.
func (s Schedule) Calendars() (calendars []Calendar, every time.Duration) {
	times, fields := s.times.(*cron.SpecSchedule)
	if !fields {
		return nil, s.times.(cron.ConstantDelaySchedule).Delay
	}
	// The highest bit is set for a field that was a star.
	const star = 1 << 63
	all := Calendar{
		Minute: ranges(times.Minute, 0, 59), Hour: ranges(times.Hour, 0, 23), Month: ranges(times.Month, 1, 12),
		DayOfMonth: []Range{{1, 31}}, DayOfWeek: []Range{{0, 6}},
	}
	byDay, byWeekday := all, all
	byDay.DayOfMonth, byWeekday.DayOfWeek = ranges(times.Dom, 1, 31), ranges(times.Dow, 0, 6)
	if times.Dom&star == 0 && times.Dow&star == 0 {
		return []Calendar{byDay, byWeekday}, 0
	}
	byDay.DayOfWeek = byWeekday.DayOfWeek
	return []Calendar{byDay}, 0
}

// Zone is the name of the time zone in which the calendars are meant.
func (s Schedule) Zone() string { return s.zone.String() }

// ranges are the bits that are set, from least to most, in as few as there can be.
func ranges(bits uint64, least, most int) []Range {
	var found []Range
	for i := least; i <= most; i++ {
		switch {
		case bits&(1<<uint(i)) == 0:
		case len(found) > 0 && found[len(found)-1].End == i-1:
			found[len(found)-1].End = i
		default:
			found = append(found, Range{i, i})
		}
	}
	return found
}
