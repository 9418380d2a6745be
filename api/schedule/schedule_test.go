package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var monday = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)

func of(schedule, zone string) v1beta1.DisruptionCronSpec {
	return v1beta1.DisruptionCronSpec{Schedule: schedule, TimeZone: zone}
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ name, schedule, zone, want string }{
		{"every quarter of an hour", "*/15 * * * *", "", "2026-11-23T10:15:00Z"},
		{"names of days", "0 9 * * tue", "", "2026-11-24T09:00:00Z"},
		{"either day, when both are restricted", "0 12 25 * wed", "", "2026-11-25T12:00:00Z"},
		{"a zone", "0 12 * * *", "Europe/Berlin", "2026-11-23T11:00:00Z"},
		{"a zone in the schedule", "TZ=Europe/Berlin 0 12 * * *", "", "2026-11-23T11:00:00Z"},
		{"a name for it", "@daily", "", "2026-11-24T00:00:00Z"},
		{"an interval, which counts from 1970", "@every 7h", "", "2026-11-23T16:00:00Z"},
		{"leap day", "0 0 29 2 *", "", "2028-02-29T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse(of(c.schedule, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Next(monday).UTC().Format(time.RFC3339); got != c.want {
				t.Errorf("Next() = %s, want %s", got, c.want)
			}
		})
	}
}

// A leap day is up to eight years away, when there is none in a year of hundred.
func TestALeapDayIsFoundAcrossACentury(t *testing.T) {
	s, err := Parse(of("0 0 29 2 *", ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)); got.Year() != 2104 {
		t.Errorf("Next() = %s, want it in 2104", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, schedule, zone, want string }{
		{"nothing", "", "", "is invalid"},
		{"too few fields", "* * *", "", "want five fields"},
		{"six fields", "0 * * * * *", "", "want five fields"},
		{"a minute that is none", "60 * * * *", "", "60"},
		{"a day that never comes", "0 0 30 2 *", "", "never fires"},
		{"a range of days that never come", "0 0 30-31 feb *", "", "never fires"},
		{"the 31st of short months", "0 0 31 2,4,6,9,11 *", "", "never fires"},
		{"a zone that is none", "0 0 * * *", "Mars/Base", "no time zone \"Mars/Base\""},
		{"the zone of whatever machine", "0 0 * * *", "Local", "no time zone"},
		{"an interval of years", "@every 9000h", "", "at most a year"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(of(c.schedule, c.zone))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse() = %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	lasting := func(schedule string, duration, jitter time.Duration) v1beta1.DisruptionCronSpec {
		s := of(schedule, "")
		s.DisruptionTemplate.Duration = &v1beta1.Duration{Duration: duration}
		s.Jitter = &v1beta1.Duration{Duration: jitter}
		return s
	}
	offset := lasting("0 * * * *", 30*time.Minute, 0)
	offset.DisruptionTemplate.Triggers = &v1beta1.DisruptionTriggers{Inject: v1beta1.DisruptionTrigger{Offset: v1beta1.Duration{Duration: 30 * time.Minute}}}
	for _, c := range []struct {
		name string
		spec v1beta1.DisruptionCronSpec
		want string
	}{
		{"just enough time between", lasting("0 * * * *", 59*time.Minute, 0), ""},
		{"too little time between", lasting("0 * * * *", 59*time.Minute+time.Second, 0), "want at least 1m0s between the end of one and the next"},
		{"the shortest pause counts", lasting("0,5 12 * * *", 10*time.Minute, 0), "runs 5m0s apart"},
		{"triggers count", offset, "a run lasts 1h0m0s"},
		{"jitter counts", lasting("0 * * * *", 30*time.Minute, 30*time.Minute), "begins up to 30m0s late"},
		{"a duration that nobody gave is an hour", of("0 * * * *", ""), "a run lasts 1h0m0s"},
		{"once in a leap year", lasting("0 0 29 2 *", time.Hour, 0), ""},
		{"an interval", lasting("@every 5m", 5*time.Minute, 0), "runs 5m0s apart"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Judge(c.spec, monday, time.Minute)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrTooFrequent) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Judge() = %v, want %q in it", err, c.want)
			}
		})
	}
	if err := Judge(of("a b c d e", ""), monday, time.Minute); !errors.Is(err, ErrInvalid) {
		t.Errorf("Judge() = %v, want %v", err, ErrInvalid)
	}
}

// Taking the calendars one by one, each with all its fields, results in the same times.
func TestCalendarsAreTheSchedule(t *testing.T) {
	for _, text := range []string{"*/7 3,5-8 * * *", "0 12 13 * fri", "0 12 */10 1-3 *", "0 12 ? * mon-wed", "15 * 1 1 0", "@weekly"} {
		t.Run(text, func(t *testing.T) {
			s, err := Parse(of(text, ""))
			if err != nil {
				t.Fatal(err)
			}
			calendars, every := s.Calendars()
			if every != 0 {
				t.Fatalf("it is an interval of %s", every)
			}
			in := func(value int, of []Range) bool {
				return slices.ContainsFunc(of, func(r Range) bool { return r.Start <= value && value <= r.End })
			}
			fires := func(at time.Time) bool {
				return slices.ContainsFunc(calendars, func(c Calendar) bool {
					return in(at.Minute(), c.Minute) && in(at.Hour(), c.Hour) && in(at.Day(), c.DayOfMonth) && in(int(at.Month()), c.Month) && in(int(at.Weekday()), c.DayOfWeek)
				})
			}
			var got, want []time.Time
			end := monday.AddDate(0, 2, 0)
			for at := monday.Add(time.Minute); at.Before(end); at = at.Add(time.Minute) {
				if fires(at) {
					got = append(got, at)
				}
			}
			for at := s.Next(monday); at.Before(end); at = s.Next(at) {
				want = append(want, at)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
	s, err := Parse(of("@every 90m", ""))
	if err != nil {
		t.Fatal(err)
	}
	if calendars, every := s.Calendars(); calendars != nil || every != 90*time.Minute {
		t.Errorf("Calendars() = %v, %s, want one interval of 1h30m", calendars, every)
	}
}
