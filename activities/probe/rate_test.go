package probe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// flood asks for a namespace from so many goroutines, each as often as it may, until
// ctx ends. It returns how many questions were asked until now.
func flood(ctx context.Context, all *sync.WaitGroup, r *Rate, namespace string, goroutines int) *atomic.Int64 {
	asked := new(atomic.Int64)
	for range goroutines {
		all.Go(func() {
			for {
				if _, err := r.Wait(ctx, namespace); err != nil {
					return
				}
				asked.Add(1)
			}
		})
	}
	return asked
}

func TestRateIsSharedAmongNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, perSecond = 10, 100
		r := NewRate(perSecond)
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var all sync.WaitGroup
		many := flood(ctx, &all, r, "many", 1000)
		time.Sleep(time.Second)
		few := flood(ctx, &all, r, "few", 100)
		// One question each second beside these two.
		var longest time.Duration
		for range 5 {
			began := time.Now()
			if _, err := r.Wait(ctx, "one"); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(began))
			time.Sleep(time.Second)
		}
		all.Wait()
		total := many.Load() + few.Load() + 5
		if most := int64(seconds*perSecond + perSecond/10); total > most || total < most-perSecond/5 {
			t.Errorf("%d questions in %d s, want %d or a few less", total, seconds, most)
		}
		if few.Load() < (seconds-1)*perSecond/2-20 || few.Load() > (seconds-1)*perSecond/2+20 {
			t.Errorf("%d questions of one of two namespaces in %d s, want half of %d each second", few.Load(), seconds-1, perSecond)
		}
		if longest > 100*time.Millisecond {
			t.Errorf("the only question of a namespace waited %s, want less than 100 ms", longest)
		}
	})
}

func TestRateIsUsedByOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		asked := flood(ctx, &all, NewRate(7), "shop", 50)
		all.Wait()
		if got := asked.Load(); got < 65 || got > 71 {
			t.Errorf("%d questions in 10 s, want 7 each second", got)
		}
	})
}

// Cancelled questions take no turn.
func TestRateForgetsCancelledQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(10)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		flood(ctx, &all, r, "shop", 1000)
		synctest.Wait()
		cancel()
		all.Wait()
		began := time.Now()
		if waited, err := r.Wait(t.Context(), "shop"); !waited || err != nil {
			t.Fatalf("Wait = %t, %v, want that it waited", waited, err)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("it waited %s for questions that were called off", took)
		}
		if waited, err := r.Wait(ctx, "shop"); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %t, %v, want the error of its context", waited, err)
		}
	})
}

// A question that waits is asked later, and has all of its timeout.
func TestAQuestionThatWaitsIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := anyProber()
		p.Rate, p.Namespace = NewRate(1), "shop"
		probe := v1beta1.Probe{ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{}}}.WithDefaults()
		p.Pods = nil // so each question is an error, with three attempts
		began := time.Now()
		answer := p.Ask(t.Context(), probe, nil)
		if took := time.Since(began); took < 2*time.Second || took > 2100*time.Millisecond {
			t.Errorf("three attempts took %s, want 2 s at one each second", took)
		}
		if !answer.Waited || answer.Attempts != 3 || answer.Took != 0 || errors.Is(answer.Err, context.DeadlineExceeded) {
			t.Errorf("Ask = %+v, want three attempts that waited and took no time", answer)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if answer := p.Ask(ctx, probe, nil); answer.Result != Unknown || !errors.Is(answer.Err, context.Canceled) {
			t.Errorf("Ask of a context that has ended = %+v", answer)
		}
	})
}

// A target that changed while its question waited is not asked and gets no answer: its
// address may be another pod's.
func TestATargetThatChangedWhileItsQuestionWaited(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*asked)
		asked  int
	}{
		{"nothing changed", func(*asked) {}, 1},
		{"another container runs", func(a *asked) { a.set("1", "c2") }, 0},
		{"the pod has ended", func(a *asked) { a.end("1") }, 0},
		{"the pod is gone", func(a *asked) { a.mu.Lock(); defer a.mu.Unlock(); delete(a.pods, "1") }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				perTarget := v1beta1.Probe{Name: "web", PeriodSeconds: 10, FailureThreshold: 1, Scope: v1beta1.ProbePerTarget,
					ProbeHandler: v1beta1.ProbeHandler{Exec: &v1beta1.ExecProbe{Command: []string{"true"}}}}
				a := newAsked(t, v1beta1.ProbeDuring, nil, perTarget)
				a.set("1", "c1")
				p, attempts, answers := anyProber(), 0, 0
				p.Rate, p.Namespace = NewRate(1), "shop"
				a.OnAnswer = func(Tick) { answers++ }
				a.Ask = func(ctx context.Context, probe v1beta1.Probe, target *Target) Answer {
					for range 100 { // questions of other namespaces, which wait before this one
						go func() { _, _ = p.Rate.Wait(ctx, "shop") }()
					}
					synctest.Wait()
					time.AfterFunc(time.Second, func() { c.change(a) })
					answer := p.Ask(ctx, probe, target)
					attempts += min(answer.Attempts, 1)
					return answer
				}
				a.start()
				a.targets <- []TargetContainer{{Pod: "1"}}
				time.Sleep(150 * time.Second) // only the first question is asked by then
				a.stop()
				if attempts != c.asked || answers != c.asked {
					t.Errorf("it was asked %d times, and %d answers were reported, want %d", attempts, answers, c.asked)
				}
			})
		})
	}
}
