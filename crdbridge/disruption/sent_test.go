package disruption

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// rule T7
func TestPausesGrowWhileChangesGoOn(t *testing.T) {
	var m sentState
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if wait := m.wait(now); wait > 0 {
		t.Errorf("the first look waits %s", wait)
	}
	var pauses []time.Duration
	for range 8 { // something changes all the time
		m.sent("a hash", now, longestGap)
		pauses = append(pauses, m.wait(now))
		now = now.Add(m.wait(now))
	}
	s := time.Second
	want := []time.Duration{s / 4, s / 2, s, 2 * s, 4 * s, 4 * s, 4 * s, 4 * s}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	now = now.Add(time.Minute)
	if wait := m.wait(now); wait > 0 {
		t.Errorf("a change after a quiet minute waits %s", wait)
	}
	m.sent("another", now, longestGap)
	if m.pause != gap {
		t.Errorf("after a quiet minute the pause is %s, want %s", m.pause, gap)
	}
}

// Pods that come and go one by one all day are observed together after a while. The history
// of their disruption grows by at most ten events for each.
func TestADayOfChurnIsObservedRarely(t *testing.T) {
	const (
		pods                 = 10_000
		eventsPerObservation = 14
	)
	var m sentState
	began := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	sent, longest := 0, time.Duration(0)
	for change := range 2 * pods { // one goes, one comes
		now := began.Add(time.Duration(change) * 24 * time.Hour / (2 * pods))
		if m.wait(now) > 0 {
			longest = max(longest, m.wait(now))
			continue // it is observed with a later one
		}
		m.sent("a hash", now, longestGap)
		if sent++; sent <= burst && m.wait(now) > longestGap {
			t.Fatalf("observation %d is followed by a pause of %s, want %s at most", sent, m.wait(now), longestGap)
		}
	}
	if events := sent * eventsPerObservation; events > 10*pods {
		t.Errorf("%d observations of %d pods cost %d events, want at most 10 for each pod", sent, pods, events)
	}
	if longest > spareGap {
		t.Errorf("a change waits %s, want %s at most", longest, spareGap)
	}
	if wait := m.wait(began.Add(24*time.Hour + spareGap)); wait > 0 {
		t.Errorf("after a quiet time a change waits %s", wait)
	}
}

// While targets come and go, changes gather for a moment. The first is sent at once, and so
// is a change after a quiet time.
func TestChangesGatherWhileTargetsComeAndGo(t *testing.T) {
	var m sentState
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if wait := m.gather(now); wait > 0 {
		t.Errorf("the first change waits %s", wait)
	}
	m.sent("lost", now, longestGap)
	m.lostAt = now
	now = now.Add(10 * time.Second)
	if wait := m.gather(now); wait != gatherGap {
		t.Errorf("a change 10 s after a target was lost waits %s, want %s", wait, gatherGap)
	}
	now = now.Add(gatherGap / 2)
	if wait := m.gather(now); wait != gatherGap/2 {
		t.Errorf("a second change waits %s, want %s: the time counts from the first", wait, gatherGap/2)
	}
	now = now.Add(gatherGap / 2)
	if wait := m.gather(now); wait > 0 {
		t.Errorf("both wait %s once their time is over", wait)
	}
	m.sent("both", now, longestGap)
	now = now.Add(churnMemory)
	if wait := m.gather(now); wait > 0 {
		t.Errorf("a change after a quiet minute waits %s", wait)
	}
}

// Reading the caches of a disruption, again and again while its pods change,
// takes at most a twentieth of a processor.
func TestReadsThatTakeLongAreRare(t *testing.T) {
	now := time.Now()
	for _, test := range []struct{ took, wait time.Duration }{
		{0, readGap}, {time.Millisecond, readGap}, {50 * time.Millisecond, time.Second}, {time.Minute, longestReadGap},
	} {
		s := sentState{readAt: now, readTook: test.took}
		if got := s.wait(now); got != test.wait {
			t.Errorf("after a read of %s it waits %s, want %s", test.took, got, test.wait)
		}
	}
}

func TestAShortageIsSureOnceStatusHadItsTime(t *testing.T) {
	now := time.Now()
	var t1 sentState
	steps := []struct {
		after   time.Duration
		missing int
		sure    bool
		wait    time.Duration
	}{
		{0, 0, false, recheck},
		{time.Second, 3, false, statusLate},
		{2 * time.Second, 5, false, statusLate - time.Second},
		{3 * time.Second, 0, false, recheck}, // it was only late
		{4 * time.Second, 2, false, statusLate},
		{4*time.Second + statusLate, 1, true, 0},
	}
	for _, step := range steps {
		sure, wait := t1.misses(step.missing, now.Add(step.after))
		if sure != step.sure || wait != step.wait {
			t.Errorf("after %s with %d missing: %t, %s; want %t, %s", step.after, step.missing, sure, wait, step.sure, step.wait)
		}
	}
}

// A workflow that chose while targets were away is sent the same observation once more, and
// the next such state once more as well.
func TestAnObservationThatStatusContradictsIsSentAgainOnce(t *testing.T) {
	now := time.Now()
	var state sentState
	for _, step := range []struct {
		after   time.Duration
		differs bool
		due     bool
		wait    time.Duration
	}{
		{0, false, false, recheck},
		{time.Second, true, false, repeatAfter},
		{2 * time.Second, false, false, recheck}, // status was only late
		{3 * time.Second, true, false, repeatAfter},
		{5 * time.Second, true, false, repeatAfter - 2*time.Second},
		{3*time.Second + repeatAfter, true, true, 0},
		{time.Minute, true, false, recheck},
		{2 * time.Minute, false, false, recheck},
		{3 * time.Minute, true, false, repeatAfter},
	} {
		due, wait := state.repeats(step.differs, now.Add(step.after))
		if due {
			state.sent(state.hash, now.Add(step.after), longestGap)
		}
		if due != step.due || wait != step.wait {
			t.Errorf("after %s, differing %t: %t, %s; want %t, %s", step.after, step.differs, due, wait, step.due, step.wait)
		}
	}
}

// A reconcile that is too early to read the caches, or that finds no change, must not
// report that Temporal is reached while it is away.
func TestAfterAFailedCallTheNextLookAsksTemporal(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kept bool
		fail bool
	}{
		"Temporal is away":            {serviceerror.NewUnavailable("connection refused"), true, true},
		"the workflow runs no longer": {fmt.Errorf("signal: %w", start.ErrNotRunning), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := sentState{uid: "1", checked: time.Now(), hash: "sent", readAt: time.Now(), readTook: time.Second}
			_, err := state.lost(c.err)
			if (err != nil) != c.fail || (state.hash == "sent") != c.kept {
				t.Errorf("error %v, hash %q; want an error %t, the hash kept %t", err, state.hash, c.fail, c.kept)
			}
			if since := time.Since(state.checked); since < recheck {
				t.Errorf("the workflow is believed to run for another %s", recheck-since)
			}
		})
	}
}

// A bridge that begins informs the workflow of a stuck disruption: status still counts
// targets, and there are no candidates any more.
func TestABridgeThatBeginsInformsAStuckDisruption(t *testing.T) {
	d := &v1beta1.Disruption{Status: v1beta1.DisruptionStatus{Phase: v1beta1.PhaseStuck, DesiredTargetsCount: 2, SelectedTargetsCount: 2}}
	if none := (contract.Observation{}); alreadyInStatus(d, none) || chosenBetween(d, none) {
		t.Errorf("in status already %t, chosen between %t; want neither", alreadyInStatus(d, none), chosenBetween(d, none))
	}
}
