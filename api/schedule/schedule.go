// Package schedule understands the schedules of DisruptionCrons: their times, when the
// next run is due, and why a schedule is not usable. It knows no cluster and no clock.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a machine without the list of zones knows them too

	"github.com/robfig/cron/v3"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Schedule is one that fires.
type Schedule struct {
	times cron.Schedule
	zone  *time.Location
}

var (
	// ErrInvalid means that a schedule cannot be read, or never fires.
	ErrInvalid = errors.New("schedule")
	// ErrTooFrequent means that a run would begin before, or too soon after, the end of
	// the one before it.
	ErrTooFrequent = errors.New("too frequent")
)

// LeastPause is the default of the minimal time between the end of a run and the next
// one.
const LeastPause = time.Minute

// longestWait is how far ahead to search for a time: the longest pause of a schedule that
// fires at all is the one between two 29ths of February.
const longestWait = 9 * 366 * 24 * time.Hour

// Parse reads the schedule of a DisruptionCron. Any error is ErrInvalid, with a hint.
func Parse(s v1beta1.DisruptionCronSpec) (Schedule, error) {
	text, zone := strings.TrimSpace(s.Schedule), s.TimeZone
	if fields := strings.Fields(text); len(fields) > 1 && (strings.HasPrefix(fields[0], "TZ=") || strings.HasPrefix(fields[0], "CRON_TZ=")) {
		_, zone, _ = strings.Cut(fields[0], "=")
		text = strings.Join(fields[1:], " ")
	}
	location, err := time.LoadLocation(zone) // empty is UTC
	if err != nil || zone == "Local" {
		return Schedule{}, fmt.Errorf("%w: there is no time zone %q: want a name such as Europe/Berlin", ErrInvalid, zone)
	}
	times, err := cron.ParseStandard(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("%w %q is invalid: %w; want five fields (minute, hour, day, month, weekday) such as \"0 12 * * mon-fri\", or @daily",
			ErrInvalid, s.Schedule, err)
	}
	if every, constant := times.(cron.ConstantDelaySchedule); constant && every.Delay > 365*24*time.Hour {
		return Schedule{}, fmt.Errorf("%w %q: want at most a year between two runs, @every 8760h", ErrInvalid, s.Schedule)
	}
	schedule := Schedule{times, location}
	if schedule.Next(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fmt.Errorf("%w %q never fires: no month that it names has such a day", ErrInvalid, s.Schedule)
	}
	return schedule, nil
}

// Next is the first time after another at which a run is due. A parsed schedule always
// has one.
func (s Schedule) Next(after time.Time) time.Time {
	if every, constant := s.times.(cron.ConstantDelaySchedule); constant {
		// Times count from the beginning of 1970, as Temporal counts, so that they do not
		// depend on the creation of the DisruptionCron.
		return time.Unix(0, 0).Add(after.Sub(time.Unix(0, 0)).Truncate(every.Delay) + every.Delay).In(s.zone)
	}
	limit := after.Add(longestWait)
	// The library gives up after five years: search on from there.
	for from := after.In(s.zone); from.Before(limit); from = from.AddDate(4, 0, 0) {
		if next := s.times.Next(from); !next.IsZero() {
			return next
		}
	}
	return time.Time{}
}

// samples is how many times of a schedule are compared for the shortest pause: those of a
// day, if it fires every few minutes, or those of years.
const samples = 500

// Judge returns an error when the runs of a DisruptionCron would be too close together:
// the pause between the end of one and the beginning of the next has to be least. An
// unreadable schedule is ErrInvalid, a too short pause ErrTooFrequent.
func Judge(s v1beta1.DisruptionCronSpec, now time.Time, least time.Duration) error {
	times, err := Parse(s)
	if err != nil {
		return err
	}
	pause, before := time.Duration(-1), times.Next(now)
	for range samples {
		next := times.Next(before)
		if apart := next.Sub(before); pause < 0 || apart < pause {
			pause = apart
		}
		before = next
	}
	var late time.Duration
	if s.Jitter != nil {
		late = s.Jitter.Duration
	}
	lasts := s.DisruptionTemplate.Expiry(now).Sub(now)
	if pause-lasts-late >= least {
		return nil
	}
	life := fmt.Sprintf("a run lasts %s", lasts)
	if late > 0 {
		life += fmt.Sprintf(" and begins up to %s late", late)
	}
	instead := "choose a rarer schedule"
	if room := pause - late - least; room >= time.Second {
		instead = fmt.Sprintf("choose a disruptionTemplate.duration of at most %s, or a rarer schedule", room)
	}
	return fmt.Errorf("%w: schedule %q has runs %s apart, and %s: want at least %s between the end of one and the next; %s",
		ErrTooFrequent, s.Schedule, pause, life, least, instead)
}
