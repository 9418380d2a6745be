package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// asked is a manager whose questions a test answers.
type asked struct {
	*Manager
	t       *testing.T
	targets chan []TargetContainer
	stop    func()

	mu     sync.Mutex
	times  map[Key][]time.Time
	answer func(Key) Answer
	pods   map[types.UID]*corev1.Pod
}

// newAsked returns the manager of a phase; every answer is a success until the test
// calls answers.
func newAsked(t *testing.T, phase v1beta1.ProbePhase, states []State, probes ...v1beta1.Probe) *asked {
	a := &asked{t: t, times: map[Key][]time.Time{}, pods: map[types.UID]*corev1.Pod{}, targets: make(chan []TargetContainer)}
	a.answers(Answer{Result: Success})
	for i := range probes {
		probes[i] = probes[i].WithDefaults()
	}
	a.Manager = &Manager{Phase: phase, Began: time.Now(), Probes: probes, Results: NewResults(states...),
		Pod: func(uid types.UID) *corev1.Pod { a.mu.Lock(); defer a.mu.Unlock(); return a.pods[uid] },
		Ask: func(_ context.Context, probe v1beta1.Probe, target *Target) Answer {
			key := Key{Probe: probe.Name}
			if target != nil {
				key.Target, key.Container = target.Pod.UID, target.Container
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.times[key] = append(a.times[key], time.Now())
			return a.answer(key)
		}}
	return a
}

// start runs the manager until the end of the test or stop.
func (a *asked) start() *asked {
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Run(ctx, a.targets) }()
	a.stop = func() { cancel(); <-done }
	a.t.Cleanup(a.stop)
	return a
}

func (a *asked) answers(answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = func(Key) Answer { return answer }
}

// asks returns how often a key was asked until now.
func (a *asked) asks(key Key) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times[key])
}

// set makes a target known, in a container of this ID that has just started.
func (a *asked) set(uid types.UID, containerID string) {
	pod := onePod("10.0.0.1").Pod
	pod.UID, pod.Status.Phase = uid, corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: containerID,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods[uid] = pod
}

func (a *asked) end(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.pods[uid].DeepCopy()
	pod.Status.Phase = corev1.PodFailed
	a.pods[uid] = pod
}

// updates returns the updates until now, as "probe target: result".
func (a *asked) updates() []string {
	var all []string
	for {
		select {
		case u := <-a.Results.Updates():
			all = append(all, fmt.Sprintf("%s %s: %s", u.Probe, u.Target, u.Result))
		default:
			return all
		}
	}
}

// pass lets a time pass, and waits for everything that happens in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var once = v1beta1.Probe{Name: "web", PeriodSeconds: 10}

// rule P4
func TestTheFirstQuestionIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 200
		probe := v1beta1.Probe{Name: "web", PeriodSeconds: 10, Scope: v1beta1.ProbePerTarget}
		a := newAsked(t, v1beta1.ProbeDuring, nil, probe)
		var targets []TargetContainer
		for i := range workers {
			uid := types.UID(fmt.Sprint(i))
			a.set(uid, "c1")
			targets = append(targets, TargetContainer{Pod: uid})
		}
		began := time.Now()
		a.start()
		go func() {
			for range a.Results.Updates() {
			}
		}()
		pass(slot / 2)
		a.targets <- targets
		pass(10 * time.Second)
		var waits []time.Duration
		for key, times := range a.times {
			wait := times[0].Sub(began)
			waits = append(waits, wait)
			if wait%slot != 0 {
				t.Errorf("%v was asked after %s, want a multiple of %s: each that is asked alone wakes the process", key, wait, slot)
			}
			if len(times) != 1 {
				t.Errorf("%v was asked %d times within a period, want 1", key, len(times))
			}
		}
		if len(waits) != workers {
			t.Fatalf("%d of %d were asked within a period", len(waits), workers)
		}
		// That all 200 lie in one half of the period is practically impossible.
		if slices.Min(waits) > 5*time.Second || slices.Max(waits) < 5*time.Second {
			t.Errorf("first questions from %s to %s, want them all over the period", slices.Min(waits), slices.Max(waits))
		}
		a.stop()
		close(a.Results.updates)
	})
}

// rule P4: the questions after the first come as from a ticker.
func TestNextDue(t *testing.T) {
	const due, period = 300 * time.Millisecond, time.Second
	for _, c := range []struct {
		name      string
		now, want time.Duration
	}{
		{"answered at once", due + time.Millisecond, due + period},
		{"answered after almost a period", due + period - 1, due + period},
		{"answered after a period: asked at once", due + period, due + period},
		{"answered after three and a half: asked at once, and once", due + 3*period + period/2, due + 3*period},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := nextDue(due, c.now, period); got != c.want {
				t.Errorf("nextDue(%s, %s, %s) = %s, want %s", due, c.now, period, got, c.want)
			}
		})
	}
}

// rule P5
func TestNothingIsAskedBeforeTheInitialDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, perTarget := once, once
		slow.InitialDelaySeconds, slow.PeriodSeconds = 60, 1
		perTarget = slow
		perTarget.Name, perTarget.Scope = "pod", v1beta1.ProbePerTarget
		a := newAsked(t, v1beta1.ProbeDuring, nil, slow, perTarget)
		a.set("1", "c1")
		began := time.Now()
		a.start()
		a.targets <- []TargetContainer{{Pod: "1"}}
		pass(40 * time.Second)
		a.set("1", "c2") // its own delay begins here
		restarted := time.Now()
		pass(100 * time.Second)
		first := func(key Key, since time.Time) {
			if a.asks(key) == 0 {
				t.Fatalf("%v was never asked", key)
			}
			if wait := a.times[key][0].Sub(since); wait < 60*time.Second || wait > 62*time.Second {
				t.Errorf("%v was asked first after %s, want 60 s and at most two periods", key, wait)
			}
		}
		first(Key{Probe: "web"}, began)
		first(Key{Probe: "pod", Target: "1"}, restarted)
	})
}

// rule P6
func TestALostProbeRestsUntilTheNextPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, v1beta1.ProbeDuring, nil, once)
		a.answers(Answer{Result: Failure})
		a.start()
		pass(time.Hour)
		if n := a.asks(Key{Probe: "web"}); n != 3 {
			t.Errorf("asked %d times in an hour, want 3 and no more", n)
		}
		if diff := cmp.Diff([]string{"web : Success", "web : Failure"}, a.updates()); diff != "" {
			t.Errorf("updates (-want +got):\n%s", diff)
		}
		a.stop()
		next := newAsked(t, v1beta1.ProbeAfter, a.Results.States(), once).start()
		pass(time.Minute)
		if diff := cmp.Diff([]string{"web : Unknown", "web : Success"}, next.updates()); diff != "" {
			t.Errorf("updates After (-want +got):\n%s", diff)
		}
	})
}

// One failure in five is no run, and more than the budget: after the first full window
// the budget is burned. A process that is killed meanwhile begins no new window.
func TestABurnedBudgetIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probe := v1beta1.Probe{Name: "web", PeriodSeconds: 1, Budget: &v1beta1.ProbeBudget{Percent: 10, Window: v1beta1.Duration{Duration: time.Minute}}}
		fails := func(a *asked) *asked {
			n := 0
			a.answer = func(Key) Answer {
				if n++; n%5 == 0 {
					return Answer{Result: Failure}
				}
				return Answer{Result: Success}
			}
			return a
		}
		a := fails(newAsked(t, v1beta1.ProbeDuring, nil, probe)).start()
		pass(40 * time.Second)
		a.stop()
		if diff := cmp.Diff([]string{"web : Success"}, a.updates()); diff != "" {
			t.Errorf("before the first full window (-want +got):\n%s", diff)
		}
		next := fails(newAsked(t, v1beta1.ProbeDuring, a.Results.States(), probe)).start()
		pass(30 * time.Second)
		if diff := cmp.Diff([]string{"web : Success", "web : Failure"}, next.updates()); diff != "" {
			t.Errorf("after it (-want +got):\n%s", diff)
		}
		if states := next.Results.States(); len(states) != 1 || !states[0].OnHold {
			t.Errorf("states %+v, want it on hold", states)
		}
	})
}

// rule P7
func TestARunBeginsAgain(t *testing.T) {
	perTarget := v1beta1.Probe{Name: "web", PeriodSeconds: 10, Scope: v1beta1.ProbePerTarget}
	key := Key{Probe: "web", Target: "1"}
	t.Run("with another container", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAsked(t, v1beta1.ProbeDuring, nil, perTarget)
			a.answers(Answer{Result: Failure})
			a.set("1", "c1")
			a.start()
			a.targets <- []TargetContainer{{Pod: "1"}}
			pass(20 * time.Second)
			if n := a.asks(key); n != 2 {
				t.Fatalf("asked %d times, want 2", n)
			}
			a.set("1", "c2")
			pass(20 * time.Second)
			if diff := cmp.Diff([]string{"web 1: Success"}, a.updates()); diff != "" {
				t.Errorf("after four failures, two of each container (-want +got):\n%s", diff)
			}
			pass(10 * time.Second)
			if diff := cmp.Diff([]string{"web 1: Failure"}, a.updates()); diff != "" {
				t.Errorf("after the third of the second container (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("with another phase", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAsked(t, v1beta1.ProbeBefore, nil, once)
			a.answers(Answer{Result: Failure})
			a.start()
			pass(20 * time.Second)
			a.stop()
			states := a.Results.States()
			if len(states) != 1 || states[0].Run != 2 {
				t.Fatalf("states %+v, want a run of 2", states)
			}
			next := newAsked(t, v1beta1.ProbeDuring, states, once)
			next.answers(Answer{Result: Failure})
			next.start()
			pass(20 * time.Second)
			if diff := cmp.Diff([]string{"web : Success"}, next.updates()); diff != "" {
				t.Errorf("after two failures in each phase (-want +got):\n%s", diff)
			}
		})
	})
}

// rule P10, as far as this package: a process that gets the states of a killed one
// resumes them, and reports each result once more.
func TestAnotherProcessGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, v1beta1.ProbeDuring, nil, once, v1beta1.Probe{Name: "lost"})
		a.answer = func(key Key) Answer {
			if key.Probe == "lost" || a.times[key][0] != a.times[key][len(a.times[key])-1] {
				return Answer{Result: Failure}
			}
			return Answer{Result: Success}
		}
		a.start()
		pass(30 * time.Second) // web: a success, then two failures
		a.stop()
		heartbeat, err := json.Marshal(a.Results.States())
		if err != nil {
			t.Fatal(err)
		}
		var states []State
		if err := json.Unmarshal(heartbeat, &states); err != nil {
			t.Fatal(err)
		}
		next := newAsked(t, v1beta1.ProbeDuring, states, once, v1beta1.Probe{Name: "lost"})
		next.answers(Answer{Result: Failure})
		next.start()
		synctest.Wait()
		got := next.updates()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"lost : Failure", "web : Success"}, got); diff != "" {
			t.Errorf("told at once (-want +got):\n%s", diff)
		}
		pass(10 * time.Second)
		if diff := cmp.Diff([]string{"web : Failure"}, next.updates()); diff != "" {
			t.Errorf("after the third failure (-want +got):\n%s", diff)
		}
		if n := next.asks(Key{Probe: "lost"}); n != 0 {
			t.Errorf("what was lost was asked %d times, want none", n)
		}
	})
}

func TestOnlyChangesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, v1beta1.ProbeBefore, nil, once, v1beta1.Probe{Name: "after", Phases: []v1beta1.ProbePhase{v1beta1.ProbeAfter}})
		var ticks []Tick
		a.OnAnswer = func(tick Tick) { ticks = append(ticks, tick) }
		a.start()
		pass(100 * time.Second)
		a.answers(Answer{Result: Unknown, Err: errors.New("nobody could be asked")})
		pass(100 * time.Second)
		a.answers(Answer{Result: Failure})
		pass(100 * time.Second)
		if diff := cmp.Diff([]string{"web : Failure", "web : Success", "web : Failure"}, a.updates()); diff != "" {
			t.Errorf("updates (-want +got):\n%s", diff)
		}
		var runs []int32
		for _, tick := range ticks {
			runs = append(runs, tick.Run)
		}
		want := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
		if diff := cmp.Diff(want, runs, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("runs that each answer was told with (-want +got):\n%s", diff)
		}
		if n := a.asks(Key{Probe: "after"}); n != 0 {
			t.Errorf("a probe of another phase was asked %d times", n)
		}
	})
}

// rule P22
func TestTargetsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perTarget := v1beta1.Probe{Name: "web", PeriodSeconds: 10, Scope: v1beta1.ProbePerTarget}
		a := newAsked(t, v1beta1.ProbeDuring, nil, perTarget).start()
		one, two, three := TargetContainer{Pod: "1"}, TargetContainer{Pod: "2"}, TargetContainer{Pod: "3"}
		keys := func() (all []types.UID) {
			for _, state := range a.Results.States() {
				all = append(all, state.Target)
			}
			return all
		}
		a.targets <- []TargetContainer{one, two, three}
		pass(time.Minute)
		if got := keys(); got != nil {
			t.Errorf("results of targets of which nothing is known: %v", got)
		}
		a.set("1", "c1")
		a.set("2", "")
		a.set("3", "c1")
		pass(time.Minute)
		if diff := cmp.Diff([]types.UID{"1", "3"}, keys()); diff != "" {
			t.Errorf("results once containers run (-want +got):\n%s", diff)
		}
		a.end("1")
		a.targets <- []TargetContainer{one, two}
		pass(time.Minute)
		if diff := cmp.Diff([]types.UID(nil), keys()); diff != "" {
			t.Errorf("results after one ended and another left (-want +got):\n%s", diff)
		}
		asked := a.asks(Key{Probe: "web", Target: "1"}) + a.asks(Key{Probe: "web", Target: "3"})
		pass(time.Hour)
		if again := a.asks(Key{Probe: "web", Target: "1"}) + a.asks(Key{Probe: "web", Target: "3"}); again != asked {
			t.Errorf("asked %d times more after they were gone", again-asked)
		}
		a.set("2", "c1")
		pass(time.Minute)
		if diff := cmp.Diff([]types.UID{"2"}, keys()); diff != "" {
			t.Errorf("results after the last one started (-want +got):\n%s", diff)
		}
	})
}

// rule P19: neither a question under way nor unread updates delay it, and a cancelled
// question is no answer.
func TestAStopEndsAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t, v1beta1.ProbeDuring, nil, v1beta1.Probe{Name: "web", PeriodSeconds: 1, FailureThreshold: 1, Scope: v1beta1.ProbePerTarget})
		var targets []TargetContainer
		for i := range 100 {
			uid := types.UID(fmt.Sprint(i))
			a.set(uid, "c1")
			targets = append(targets, TargetContainer{Pod: uid})
		}
		var underWay atomic.Int32
		a.Ask = func(ctx context.Context, _ v1beta1.Probe, _ *Target) Answer {
			underWay.Add(1)
			<-ctx.Done()
			return Answer{Result: Failure}
		}
		a.OnAnswer = func(tick Tick) { t.Errorf("answer %+v", tick) }
		a.start()
		a.targets <- targets
		pass(time.Hour)
		if n := underWay.Load(); n != mostUpdates {
			t.Errorf("%d questions are under way, want those %d whose first result found room", n, mostUpdates)
		}
		stopped := time.Now()
		a.stop()
		if took := time.Since(stopped); took != 0 {
			t.Errorf("it took %s, want no time at all", took)
		}
		states := a.Results.States()
		for _, state := range states {
			if state.Result != Success || state.Run != 0 {
				t.Errorf("state %+v, want none of its questions to count", state)
			}
		}
		if len(states) != len(targets) {
			t.Errorf("%d states are left, want %d", len(states), len(targets))
		}
	})
}

// rule P16. Real servers on addresses of their own play the targets.
func TestPerTargetAsksEachTarget(t *testing.T) {
	var hits [3]atomic.Int32
	probe := v1beta1.Probe{Name: "web", PeriodSeconds: 1, TimeoutSeconds: 60, Scope: v1beta1.ProbePerTarget}
	a := newAsked(t, v1beta1.ProbeBefore, nil, probe)
	var targets []TargetContainer
	port := intstr.FromInt32(0)
	for i := range hits {
		uid, address := types.UID(fmt.Sprint(i)), fmt.Sprintf("127.0.0.%d", i+1)
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port.IntVal))
		if err != nil {
			t.Fatal(err)
		}
		_, port = hostPort(t, listener.Addr().String())
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits[i].Add(1) })}}
		server.Start()
		t.Cleanup(server.Close)
		a.set(uid, "c1")
		a.pods[uid].Status.PodIP = address
		targets = append(targets, TargetContainer{Pod: uid})
	}
	a.Probes[0].HTTPGet = &v1beta1.HTTPGetProbe{Port: port}
	a.Ask = anyProber().Ask
	a.start()
	a.targets <- targets
	eventually(t, "each target was asked and is steady", func() bool {
		states := a.Results.States()
		return len(states) == 3 && !slices.ContainsFunc(states, func(s State) bool { return s.Result != Success }) &&
			hits[0].Load() > 0 && hits[1].Load() > 0 && hits[2].Load() > 0
	})
}
