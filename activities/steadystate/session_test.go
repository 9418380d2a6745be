package steadystate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// asking is a session whose questions a test answers, in a bubble of its own time.
type asking struct {
	*Session
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error

	mu       sync.Mutex
	answer   func(name string, target types.UID) probe.Answer
	asked    int
	pods     map[types.UID]*corev1.Pod
	sent     []contract.ProbeTransition
	snapshot Snapshot
	result   Result
	deaf     error
	control  func(types.UID) bool
	stop     chan struct{}
}

var (
	good  = probe.Answer{Result: probe.Success, Text: "fine"}
	bad   = probe.Answer{Result: probe.Failure, Text: "status 500"}
	erred = probe.Answer{Result: probe.Unknown, Text: "nobody to ask", Err: errors.New("nobody to ask")}
)

func everySecond(name string, scope v1beta1.ProbeScope) v1beta1.Probe {
	return v1beta1.Probe{Name: name, Scope: scope, PeriodSeconds: 1}.WithDefaults()
}

// later is a probe whose first question is 5 s after the beginning, so that one signal
// never has both.
func later(p v1beta1.Probe) v1beta1.Probe {
	p.InitialDelaySeconds = 5
	return p
}

// ask starts a session of a phase, with so many targets; every answer is a success at
// first.
func ask(t *testing.T, in Input, targets int, probes ...v1beta1.Probe) *asking {
	return askBeside(t, nil, in, targets, probes...)
}

// askBeside is ask with some of the targets as the control group.
func askBeside(t *testing.T, control func(types.UID) bool, in Input, targets int, probes ...v1beta1.Probe) *asking {
	a := &asking{t: t, control: control, ended: make(chan error, 1), pods: map[types.UID]*corev1.Pod{}, stop: make(chan struct{})}
	a.answers(func(string, types.UID) probe.Answer { return good })
	for i := range targets {
		uid := types.UID(fmt.Sprintf("uid-%04d", i))
		a.pods[uid] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%04d", i), UID: uid},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", ContainerID: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			}}},
		}
	}
	if in.Session == 0 {
		in.Session = 1
	}
	if in.Began.IsZero() {
		in.Began = time.Now()
	}
	a.Session = &Session{
		Input: in, Probes: probes, Stop: a.stop,
		Ask: func(_ context.Context, p v1beta1.Probe, target *probe.Target) probe.Answer {
			uid := types.UID("")
			if target != nil {
				uid = target.Pod.UID
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.asked++
			return a.answer(p.Name, uid)
		},
		Pod: func(uid types.UID) *corev1.Pod { a.mu.Lock(); defer a.mu.Unlock(); return a.pods[uid] },
		Targets: func(context.Context) ([]Target, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			var all []Target
			for uid, pod := range a.pods {
				all = append(all, Target{UID: uid, Name: pod.Name, Control: a.control != nil && a.control(uid)})
			}
			slices.SortFunc(all, func(a, b Target) int { return compare(a.Name, b.Name) })
			return all, nil
		},
		Signal: func(_ context.Context, t contract.ProbeTransition) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.deaf == nil {
				a.sent = append(a.sent, t)
			}
			return a.deaf
		},
		Heartbeat: func(s Snapshot) { a.mu.Lock(); defer a.mu.Unlock(); a.snapshot = s },
	}
	ctx, cancel := context.WithCancel(t.Context())
	a.cancel = cancel
	go func() {
		var err error
		a.result, err = a.Run(ctx)
		a.ended <- err
	}()
	return a
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func (a *asking) answers(answer func(name string, target types.UID) probe.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// all makes every answer the same.
func (a *asking) all(answer probe.Answer) {
	a.answers(func(string, types.UID) probe.Answer { return answer })
}

// after lets time pass and returns the signals since the session began.
func (a *asking) after(d time.Duration) []contract.ProbeTransition {
	time.Sleep(d)
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sent)
}

// last is the latest report of a probe.
func (a *asking) last(name string) contract.ProbeReport {
	a.t.Helper()
	for _, sent := range slices.Backward(a.after(0)) {
		for _, report := range sent.Probes {
			if report.Name == name {
				return report
			}
		}
	}
	a.t.Fatalf("nothing was sent of probe %s", name)
	return contract.ProbeReport{}
}

// wantEnd waits for the session's end.
func (a *asking) wantEnd(want error) Result {
	a.t.Helper()
	select {
	case err := <-a.ended:
		if !errors.Is(err, want) {
			a.t.Errorf("Run = %v, want %v", err, want)
		}
	case <-time.After(time.Hour):
		a.cancel()
		<-a.ended
		a.t.Fatalf("it had not ended after an hour: %+v", a.result)
	}
	return a.result
}

func during() Input { return Input{Phase: v1beta1.ProbeDuring} }

// rule P12. An hour of answers each second that change nothing causes two signals: that
// the session asks, and that there was an answer.
func TestAnHourWithoutAChangeIsSignalledTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask(t, during(), 0, later(everySecond("a", v1beta1.ProbeOnce)))
		sent := a.after(time.Hour)
		a.cancel()
		result := a.wantEnd(nil)
		if len(sent) != 2 || sent[0].Probes[0].Answered || !sent[1].Probes[0].Answered {
			t.Errorf("sent %d times: %+v, want the beginning and the first answer", len(sent), sent)
		}
		if a.asked < 3500 {
			t.Errorf("asked %d times in an hour", a.asked)
		}
		points := result.Courses[0].Points
		sum := int32(0)
		for _, point := range points {
			sum += point[0]
		}
		if len(points) > mostPoints || int(sum) != a.asked {
			t.Errorf("the course has %d points and %d answers, want at most %d and %d", len(points), sum, mostPoints, a.asked)
		}
	})
}

// A probe that is lost in During is signalled at once and stays lost.
func TestALossIsSignalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask(t, during(), 0, later(everySecond("a", v1beta1.ProbeOnce)))
		a.after(10 * time.Second)
		a.all(bad)
		a.after(5 * time.Second)
		if got := a.last("a"); got.State != v1beta1.ProbeFailure || got.Text != "status 500" || !got.Answered {
			t.Errorf("after three failures: %+v, want Failure with its text", got)
		}
		a.all(good)
		if sent := a.after(time.Minute); len(sent) != 3 {
			t.Errorf("sent %d times, want the beginning, the first answer and the loss", len(sent))
		}
		a.cancel()
		if got := a.wantEnd(nil).Probes[0]; got.State != v1beta1.ProbeFailure {
			t.Errorf("the result says %+v, want that it was lost", got)
		}
	})
}

// rule P16. Many targets cause few signals, each with at most ten names.
func TestManyTargetsNeedFewSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const targets = 400
		a := ask(t, during(), targets, everySecond("a", v1beta1.ProbePerTarget))
		a.after(10 * time.Second)
		failing := 0
		a.answers(func(_ string, uid types.UID) probe.Answer {
			var number int
			_, _ = fmt.Sscanf(string(uid), "uid-%d", &number)
			if number < failing {
				return bad
			}
			return good
		})
		for range targets / 10 {
			a.mu.Lock()
			failing += 10
			a.mu.Unlock()
			a.after(time.Second)
		}
		sent := a.after(10 * time.Second)
		got := a.last("a")
		if got.State != v1beta1.ProbeFailure || got.Targets != targets || len(got.FailingTargets) != mostNames || got.Failing < targets/2 {
			t.Errorf("sent %+v, want a failure of more than half of %d targets with %d names", got, targets, mostNames)
		}
		if len(sent) > 16 {
			t.Errorf("sent %d times of %d failing targets, want a few", len(sent), targets)
		}
		a.cancel()
		if got := a.wantEnd(nil).Probes[0]; got.Failing != targets {
			t.Errorf("the result says that %d fail, want all %d", got.Failing, targets)
		}
	})
}

// A target that was lost stays lost after its pod is gone. A pod that ends without a
// failure is not lost.
func TestALostTargetStaysLostWhenItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask(t, during(), 2, everySecond("a", v1beta1.ProbePerTarget))
		a.after(5 * time.Second)
		a.answers(func(_ string, uid types.UID) probe.Answer {
			if uid == "uid-0000" {
				return bad
			}
			return good
		})
		a.after(10 * time.Second)
		a.mu.Lock()
		clear(a.pods)
		a.mu.Unlock()
		a.after(5 * time.Second)
		a.cancel()
		got := a.wantEnd(nil).Probes[0]
		if got.State != v1beta1.ProbeFailure || !slices.Equal(got.FailingTargets, []string{"pod-0000"}) {
			t.Errorf("after its end: %+v, want that pod-0000 was lost", got)
		}
	})
}

// Before and After end once all probes are steady. The result has the last reports, so
// no signal repeats them.
func TestBeforeAndAfterEndOnceAllSucceeds(t *testing.T) {
	for _, phase := range []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeAfter} {
		t.Run(string(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := ask(t, Input{Phase: phase}, 3, everySecond("once", v1beta1.ProbeOnce), everySecond("each", v1beta1.ProbePerTarget))
				a.answers(func(name string, uid types.UID) probe.Answer {
					if uid == "uid-0002" {
						return bad
					}
					return good
				})
				a.after(20 * time.Second)
				if got := a.last("each"); got.State != v1beta1.ProbeFailure || got.Failing != 1 && phase == v1beta1.ProbeAfter {
					t.Errorf("while one target fails: %+v", got)
				}
				select {
				case err := <-a.ended:
					t.Fatalf("ended while a target fails: %v", err)
				default:
				}
				a.all(good)
				result := a.wantEnd(nil)
				for _, report := range result.Probes {
					if report.State != v1beta1.ProbeSuccess || !report.Answered {
						t.Errorf("the result says %+v, want success", report)
					}
				}
			})
		})
	}
}

// In After, no target is left to ask when all targets are gone.
func TestAfterEndsWithoutTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask(t, Input{Phase: v1beta1.ProbeAfter}, 0, everySecond("each", v1beta1.ProbePerTarget))
		if got := a.wantEnd(nil).Probes[0]; got.State != v1beta1.ProbeUnknown || got.Answered {
			t.Errorf("without targets: %+v, want Unknown and nothing heard", got)
		}
	})
}

// rule P10. A session that resumes a snapshot continues the run of failures, and lost
// probes stay lost.
func TestAnotherSessionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := v1beta1.Probe{Name: "a", PeriodSeconds: 10, FailureThreshold: 5}.WithDefaults()
		a := ask(t, during(), 0, slow)
		a.all(bad)
		a.after(35 * time.Second) // three or four of five
		close(a.stop)
		a.wantEnd(ErrStopped)
		left := a.snapshot
		if len(left.States) != 1 || left.States[0].Run < 3 {
			t.Fatalf("left %+v, want a run of 3 failures or more", left.States)
		}
		b := ask(t, Input{Phase: v1beta1.ProbeDuring, Session: 2, Began: a.Began, Resume: &left}, 0, slow)
		b.all(bad)
		sent := b.after(21 * time.Second)
		if sent[0].Session != 2 || sent[0].Seq != 1 || !sent[0].Probes[0].Answered {
			t.Errorf("the second session begins with %+v, want its number and that there was an answer", sent[0])
		}
		if got := b.last("a"); got.State != v1beta1.ProbeFailure {
			t.Errorf("after five failures in two sessions: %+v, want Failure", got)
		}
		b.cancel()
		b.wantEnd(nil)
		c := ask(t, Input{Phase: v1beta1.ProbeDuring, Session: 3, Began: a.Began, Resume: &b.snapshot}, 0, slow)
		c.after(time.Minute)
		if got := c.last("a"); got.State != v1beta1.ProbeFailure {
			t.Errorf("the third session says %+v, want that it was lost", got)
		}
		c.cancel()
		c.wantEnd(nil)
	})
}

// The next session reports an earlier result though it does not ask again. rule P10: it
// gets a failure with its text, even before the signal.
func TestAFailureIsHandedOnWithWhy(t *testing.T) {
	p := everySecond("shop", v1beta1.ProbeOnce)
	failed := []probe.State{{Key: probe.Key{Probe: "shop"}, Phase: v1beta1.ProbeDuring, Result: probe.Failure, Text: "no pod is ready"}}
	b, now := newBook(during(), []v1beta1.Probe{p}, time.Now()), time.Now()
	left := b.snapshot(failed, b.reports(failed, now), now)

	in := during()
	in.Resume, failed[0].Text = &left, "" // which no heartbeat has
	if report := newBook(in, []v1beta1.Probe{p}, now).reports(failed, now)[0]; report.State != v1beta1.ProbeFailure || report.Text != "no pod is ready" {
		t.Errorf("the next session says %s: %q", report.State, report.Text)
	}
}

func TestAnAnswerIsKeptByTheNextSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, slow := everySecond("back", v1beta1.ProbeOnce), everySecond("slow", v1beta1.ProbeOnce)
		a := ask(t, Input{Phase: v1beta1.ProbeAfter}, 0, back, slow)
		a.answers(func(name string, _ types.UID) probe.Answer {
			if name == "slow" {
				return bad
			}
			return good
		})
		a.after(10 * time.Second)
		close(a.stop)
		a.wantEnd(ErrStopped)
		b := ask(t, Input{Phase: v1beta1.ProbeAfter, Session: 2, Began: a.Began, Resume: &a.snapshot}, 0, back, slow)
		for _, report := range b.wantEnd(nil).Probes {
			if report.State != v1beta1.ProbeSuccess || report.Text != good.Text {
				t.Errorf("the result says %+v, want %q", report, good.Text)
			}
		}
	})
}

// A probe that cannot be asked becomes unknown once the limit is over, also over
// several sessions. An answer ends that.
func TestBlindness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := everySecond("a", v1beta1.ProbeOnce)
		limit := contract.BlindLimit(p)
		a := ask(t, during(), 0, p)
		a.after(10 * time.Second)
		a.all(erred)
		a.after(limit - 5*time.Second)
		if got := a.last("a"); got.State != v1beta1.ProbeSuccess {
			t.Errorf("before the limit: %+v, want Success", got)
		}
		close(a.stop)
		a.wantEnd(ErrStopped)
		b := ask(t, Input{Phase: v1beta1.ProbeDuring, Session: 2, Began: a.Began, Lasted: time.Since(a.Began), Resume: &a.snapshot}, 0, p)
		b.all(erred)
		b.after(10 * time.Second)
		if got := b.last("a"); got.State != v1beta1.ProbeUnknown || got.Text == "" {
			t.Errorf("after the limit: %+v, want Unknown and why", got)
		}
		b.all(good)
		b.after(3 * time.Second)
		if got := b.last("a"); got.State != v1beta1.ProbeSuccess {
			t.Errorf("with an answer again: %+v, want Success", got)
		}
		b.cancel()
		b.wantEnd(nil)
	})
}

// Silence is measured correctly if a session resumes on a machine with another clock.
func TestBlindnessOnMachinesWithOtherClocks(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := everySecond("a", v1beta1.ProbeOnce)
				limit := contract.BlindLimit(p)
				theirs := time.Now().Add(ahead)
				left := Snapshot{At: theirs, Blind: map[string]time.Time{"a": theirs.Add(-10 * time.Second)}}
				a := ask(t, Input{Phase: v1beta1.ProbeDuring, Session: 2, Began: theirs.Add(-time.Minute), Lasted: time.Minute, Idle: 5 * time.Second, Resume: &left}, 0, p)
				a.all(erred)
				a.after(limit - 17*time.Second)
				if got := a.last("a"); got.State != v1beta1.ProbeSuccess {
					t.Errorf("before the limit: %+v, want Success", got)
				}
				a.after(5 * time.Second)
				if got := a.last("a"); got.State != v1beta1.ProbeUnknown {
					t.Errorf("after the limit: %+v, want Unknown", got)
				}
				a.cancel()
				a.wantEnd(nil)
			})
			synctest.Test(t, func(t *testing.T) {
				p := everySecond("a", v1beta1.ProbeOnce)
				a := ask(t, Input{Phase: v1beta1.ProbeDuring, Began: time.Now().Add(ahead)}, 0, p)
				a.all(erred)
				a.after(contract.BlindLimit(p) - time.Second)
				if got := a.last("a"); got.State != v1beta1.ProbeSuccess {
					t.Errorf("in the first session, before the limit: %+v, want Success", got)
				}
				a.after(3 * time.Second)
				if got := a.last("a"); got.State != v1beta1.ProbeUnknown {
					t.Errorf("in the first session, after the limit: %+v, want Unknown", got)
				}
				a.cancel()
				a.wantEnd(nil)
			})
		})
	}
}

// A signal that failed is sent later, with the state at that time.
func TestASignalThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ask(t, during(), 0, everySecond("a", v1beta1.ProbeOnce))
		a.mu.Lock()
		a.deaf = errors.New("temporal is away")
		a.mu.Unlock()
		a.all(bad)
		a.after(30 * time.Second)
		a.mu.Lock()
		a.deaf, a.sent = nil, nil
		a.mu.Unlock()
		a.after(5 * time.Second)
		if got := a.last("a"); got.State != v1beta1.ProbeFailure {
			t.Errorf("once Temporal is back: %+v, want Failure", got)
		}
		a.mu.Lock()
		a.deaf = ErrWorkflowEnded
		a.mu.Unlock()
		a.cancel()
		a.wantEnd(nil)
	})
}

// The control group is asked beside the targets. It decides nothing. Each report
// compares the answers of both, also in the next session.
func TestTheControlGroupIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := during()
		control := func(uid types.UID) bool { return uid == "uid-0002" || uid == "uid-0003" }
		a := askBeside(t, control, in, 4, everySecond("web", v1beta1.ProbePerTarget))
		a.answers(func(_ string, uid types.UID) probe.Answer {
			if uid == "uid-0003" && time.Now().Second()%2 == 0 { // never three in a row, which would put it on hold
				return bad
			}
			return good
		})
		sent := a.after(10 * time.Minute)
		if got := a.last("web"); got.State != v1beta1.ProbeSuccess || got.Targets != 2 || got.Failing != 0 {
			t.Errorf("the control group's failures count for the targets: %+v", got)
		}
		if len(sent) < 3 || len(sent) > 12 {
			t.Errorf("sent %d times in ten minutes, want each time that there are twice as many answers", len(sent))
		}
		close(a.stop)
		a.wantEnd(ErrStopped)
		b := askBeside(t, control, Input{Phase: v1beta1.ProbeDuring, Session: 2, Began: a.Began, Lasted: time.Since(a.Began), Resume: &a.snapshot}, 4, everySecond("web", v1beta1.ProbePerTarget))
		b.after(time.Minute)
		b.cancel()
		result := b.wantEnd(nil)
		got := result.Probes[0].Comparison
		if got == nil || got.Pods != 2 || got.Targets.Failures != 0 || got.Targets.Successes < 1200 || got.Control.Failures < 280 || got.Control.Failures > 310 || got.Control.Successes < 900 {
			t.Errorf("compared %+v, want 11 minutes of two targets that succeed and of two others, one of which failed every other time for ten", got)
		}
		if courses := result.Courses; len(courses) != 2 || courses[0].Group != "" || courses[1].Group != GroupControl || courses[1].answers() != got.Control {
			t.Errorf("courses %+v, want one for each group", courses)
		}
	})
}

// All courses together stay below 64 KiB, whatever was counted.
func TestCoursesFit(t *testing.T) {
	var courses []Course
	for i := range 20 {
		course := Course{Probe: fmt.Sprint("probe-", i), Group: GroupControl, Seconds: 1}
		for range mostPoints {
			course.Points = append(course.Points, [3]int32{123456, 123456, 123456})
		}
		courses = append(courses, course)
	}
	was, _ := json.Marshal(courses)
	courses = fit(courses, mostBytes)
	now, err := json.Marshal(courses)
	if err != nil || len(was) < mostBytes || len(now) > mostBytes || len(now) < mostBytes/4 {
		t.Errorf("%d bytes became %d, want less than %d and not much less", len(was), len(now), mostBytes)
	}
	for _, course := range courses {
		if got := course.answers(); got.Successes != mostPoints*123456 || got.Failures != got.Successes {
			t.Errorf("course %s lost answers: %+v", course.Probe, got)
		}
	}
}

func TestCourseHalvesItsPoints(t *testing.T) {
	var c Course
	for second := range 10_000 {
		result := probe.Success
		if second%10 == 0 {
			result = probe.Failure
		}
		c.add(time.Duration(second)*time.Second, result)
	}
	var sum [3]int32
	for _, point := range c.Points {
		for which, count := range point {
			sum[which] += count
		}
	}
	if sum != [3]int32{9000, 1000, 0} || len(c.Points) > mostPoints || c.Seconds != 64 {
		t.Errorf("10,000 answers: %v in %d points of %d s, want 9000 and 1000 in at most %d of 64 s", sum, len(c.Points), c.Seconds, mostPoints)
	}
}
