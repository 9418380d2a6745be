package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const (
	// repeatedShare is how many of a hundred runs may be repeated because the
	// worker gave up events. A machine that needs more is too slow to judge by.
	repeatedShare = 1
	// repeatedFew may be repeated however few runs there are: a sample of 60
	// runs would allow none.
	repeatedFew = 1
)

// account is the end of a run: the recorded events, sorted, and everything else
// as text.
type account struct {
	rest   string
	events []string
}

func (a account) equal(b account) bool { return a.rest == b.rest && slices.Equal(a.events, b.events) }

// against is the difference between a and the end that was wanted.
func (a account) against(want account) string {
	return cmp.Diff(want.rest+"\n"+strings.Join(want.events, "\n"), a.rest+"\n"+strings.Join(a.events, "\n"))
}

// lostEvent is the worker's log record of an event that it gave up. Object reads
// like Pod shop/web-0.
type lostEvent struct{ Msg, Reason, Message, Object, Error string }

// text is the event as an outcome has it, for an event of a type: the log lacks the type.
func (l lostEvent) text(eventType string) string {
	kind, name, _ := strings.Cut(l.Object, " ")
	return fmt.Sprintf("%s %s: %s %s: %s", kind, name[strings.LastIndex(name, "/")+1:], eventType, l.Reason, l.Message)
}

// is reports whether an event, as an outcome has it, is this one.
func (l lostEvent) is(event string) bool {
	return event == l.text(corev1.EventTypeNormal) || event == l.text(corev1.EventTypeWarning)
}

// lostIn are the events that, by a log, were given up because the time to store them was
// over (docs/events.md). Events that were refused are not among them.
func lostIn(log string) (lost []lostEvent) {
	for line := range strings.Lines(log) {
		var e lostEvent
		if json.Unmarshal([]byte(line), &e) != nil || e.Msg != "event not recorded" {
			continue
		}
		if strings.Contains(e.Error, context.DeadlineExceeded.Error()) {
			lost = append(lost, e)
		}
	}
	return lost
}

// lostEvents are the events of this run that the worker gave up.
func (r *run) lostEvents() []lostEvent { return lostIn(r.programs[worker].Output()[r.logged:]) }

// stableEvents are the same with the names of every run.
func (r *run) stableEvents(lost []lostEvent) (stable []lostEvent) {
	for _, l := range lost {
		l.Message, l.Object = r.stable(l.Message), r.stable(l.Object)
		stable = append(stable, l)
	}
	return stable
}

// untilRecorded waits until n events that match are recorded. It does not wait for
// those that the worker gave up: they do not come, and the end of the run lacks
// them.
func (r *run) untilRecorded(n int, what string, matches func(event string) bool) error {
	return r.until(what, func() bool {
		recorded, err := r.events()
		there := 0
		for _, event := range recorded {
			if matches(event) {
				there++
			}
		}
		for _, lost := range r.lostEvents() {
			if matches(lost.text(corev1.EventTypeNormal)) {
				there++
			}
		}
		return err == nil && there >= n
	})
}

// onlyLost is true when the end lacks events, each of which the worker gave up,
// and is as wanted otherwise.
func onlyLost(got, want account, lost []lostEvent) bool {
	if got.rest != want.rest || len(got.events) >= len(want.events) {
		return false
	}
	missing := slices.Clone(want.events)
	for _, event := range got.events {
		i := slices.Index(missing, event)
		if i < 0 {
			return false // an event that the reference has not
		}
		missing = slices.Delete(missing, i, i+1)
	}
	lost = slices.Clone(lost)
	for _, event := range missing {
		i := slices.IndexFunc(lost, func(l lostEvent) bool { return l.is(event) })
		if i < 0 {
			return false
		}
		lost = slices.Delete(lost, i, i+1)
	}
	return true
}

// ending is what a disturbed run showed.
type ending struct {
	// err is why the run did not come to its end.
	err error
	// reached is false when the run did not come to its point.
	reached bool
	got     account
	lost    []lostEvent
}

// judgement is what follows from a disturbed run.
type judgement struct {
	// wrong is how the run differed from the reference.
	wrong string
	// excused is a difference that the worker's lost events explain: the run is
	// repeated, once.
	excused bool
	// again is a run that came to no judgement and is made again.
	again bool
}

// decide judges a disturbed run. Any difference fails its point at once, but for
// one that lost events explain, which is excused the first time.
func decide(e ending, want account, excusedBefore bool) judgement {
	switch {
	case e.err != nil:
		return judgement{wrong: e.err.Error()}
	case e.got.equal(want):
		return judgement{again: !e.reached}
	}
	excused := !excusedBefore && onlyLost(e.got, want, e.lost)
	return judgement{wrong: e.got.against(want), excused: excused, again: excused}
}

// repeatedTooOften is what is wrong with the number of repeated runs, or empty.
func repeatedTooOften(repeated, runs int) string {
	if most := max(repeatedFew, runs*repeatedShare/100); repeated > most {
		return fmt.Sprintf("%d of %d runs were repeated because the worker gave up events, want at most %d: the machine is too slow, or events are lost too easily", repeated, runs, most)
	}
	return ""
}

func TestDecide(t *testing.T) {
	want := account{rest: "Left: []", events: []string{"Disruption it: Normal Created: a", "Disruption it: Normal Injected: b", "Pod web-0: Normal Disrupted: c", "Pod web-0: Normal Disrupted: c"}}
	without := func(indices ...int) account {
		got := account{rest: want.rest}
		for i, event := range want.events {
			if !slices.Contains(indices, i) {
				got.events = append(got.events, event)
			}
		}
		return got
	}
	extra := without(1, 2)
	extra.events = append(extra.events, "Pod web-1: Normal Disrupted: c")
	injected, disrupted := lostEvent{Object: "Disruption SHOP/it", Reason: "Injected", Message: "b"}, lostEvent{Object: "Pod SHOP/web-0", Reason: "Disrupted", Message: "c"}
	ofAnother := lostEvent{Object: "Disruption SHOP/another", Reason: "Injected", Message: "b"}
	left := account{rest: "Left: [record]", events: without(1).events}
	const fails, passes, repeats, again = "fails", "passes", "is repeated", "is made again"
	for name, c := range map[string]struct {
		end    ending
		before bool
		want   string
	}{
		"as the reference":                            {ending{reached: true, got: want}, false, passes},
		"as the reference, point not reached":         {ending{got: want}, false, again},
		"it did not end":                              {ending{err: errors.New("no end"), reached: true, lost: []lostEvent{injected}}, false, fails},
		"one event is missing, which was lost":        {ending{reached: true, got: without(1), lost: []lostEvent{injected}}, false, repeats},
		"the same for the second time":                {ending{reached: true, got: without(1), lost: []lostEvent{injected}}, true, fails},
		"the same, point not reached":                 {ending{got: without(1), lost: []lostEvent{injected}}, false, repeats},
		"one event is missing, none was lost":         {ending{reached: true, got: without(1)}, false, fails},
		"another event was lost":                      {ending{reached: true, got: without(1), lost: []lostEvent{disrupted}}, false, fails},
		"that of another object was lost":             {ending{reached: true, got: without(1), lost: []lostEvent{ofAnother}}, false, fails},
		"two are missing, one was lost":               {ending{reached: true, got: without(2, 3), lost: []lostEvent{disrupted}}, false, fails},
		"two are missing, two were lost":              {ending{reached: true, got: without(2, 3), lost: []lostEvent{disrupted, disrupted}}, false, repeats},
		"something is left, and an event is missing":  {ending{reached: true, got: left, lost: []lostEvent{injected}}, false, fails},
		"something is left, all events are there":     {ending{reached: true, got: account{"Left: [record]", want.events}, lost: []lostEvent{injected}}, false, fails},
		"two are missing that were lost, one is new":  {ending{reached: true, got: extra, lost: []lostEvent{injected, disrupted}}, false, fails},
		"none is missing, but one is there too often": {ending{reached: true, got: account{want.rest, append(slices.Clone(want.events), want.events[3])}, lost: []lostEvent{disrupted}}, false, fails},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.end, want, c.before)
			got := passes
			switch {
			case d.excused && d.again && d.wrong != "":
				got = repeats
			case d.again && d.wrong == "":
				got = again
			case d.wrong != "" && !d.again && !d.excused:
				got = fails
			}
			if got != c.want {
				t.Errorf("decide = %+v: it %s, want: it %s", d, got, c.want)
			}
		})
	}
}

func TestRepeatedTooOften(t *testing.T) {
	for _, c := range []struct {
		repeated, runs int
		want           bool
	}{{0, 0, false}, {1, 60, false}, {2, 60, true}, {2, 200, false}, {28, 2880, false}, {29, 2880, true}} {
		if got := repeatedTooOften(c.repeated, c.runs) != ""; got != c.want {
			t.Errorf("%d of %d repeated: too often is %t, want %t", c.repeated, c.runs, got, c.want)
		}
	}
}

func TestLostIn(t *testing.T) {
	log := `{"level":"warn","msg":"event not recorded","reason":"Injected","message":"all 2 targets are injected","object":"Disruption shop/it","error":"Post: context deadline exceeded"}
no JSON: event not recorded
{"level":"warn","msg":"event not recorded","reason":"Created","message":"x","error":"events is forbidden"}
{"level":"warn","msg":"another","reason":"Created","message":"x","error":"context deadline exceeded"}
`
	want := []lostEvent{{"event not recorded", "Injected", "all 2 targets are injected", "Disruption shop/it", "Post: context deadline exceeded"}}
	if got := lostIn(log); !slices.Equal(got, want) {
		t.Errorf("lostIn = %+v, want %+v", got, want)
	}
}
