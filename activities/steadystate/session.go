// Package steadystate asks the probes of a disruption, or of a scenario, for one
// phase, and tells its workflow what changed. It promises that an answer which changes nothing
// costs no event of history, and that who goes on with what it left loses no
// result.
package steadystate

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Input says what is to be asked.
type Input struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	// Scenario is whose probes these are instead; nil for those of a disruption.
	Scenario *contract.ScenarioRef `json:"scenario,omitempty"`
	Phase    v1beta1.ProbePhase    `json:"phase"`
	// Session counts the prober's starts in the disruption's life, from 1.
	Session int `json:"session"`
	// Began is when the phase did, by the workflow's clock.
	Began time.Time `json:"began"`
	// Lasted is how long the phase had lasted when the session was wanted, and Idle
	// how long nobody had asked by then. No two clocks are compared by them.
	Lasted time.Duration `json:"lasted,omitempty"`
	Idle   time.Duration `json:"idle,omitempty"`
	// Resume is what the session before left of this phase; nil for nothing.
	Resume *Snapshot `json:"resume,omitempty"`
}

// Result is what the probes say in the end.
type Result struct {
	Probes []contract.ProbeReport `json:"probes"`
	// Courses are the answers of each probe over the phase, in the order of Probes, and
	// of each group: at most 240 points in each, and 64 KiB in all.
	Courses []Course `json:"courses,omitempty"`
}

// Snapshot is what a prober must not forget. Its times are by that prober's clock.
type Snapshot struct {
	At     time.Time     `json:"at"`
	States []probe.State `json:"states,omitempty"`
	// Reports of all probes; Blind since when those that err have no answer.
	Reports []contract.ProbeReport `json:"reports,omitempty"`
	Blind   map[string]time.Time   `json:"blind,omitempty"`
	Courses []Course               `json:"courses,omitempty"`
}

// Target is a target pod that can be asked.
type Target struct {
	UID  types.UID
	Name string
	// Container by name. Empty means the first.
	Container string
	// Control is true for a pod of the control group: it is asked as a target is, and
	// says nothing of whether these are steady.
	Control bool
}

// ErrStopped says that another worker has to go on.
var ErrStopped = errors.New("the worker stops; another one goes on")

// ErrNobodyListens says that the workflow is not there any more.
var ErrNobodyListens = errors.New("the workflow has ended")

const (
	// lookGap is how often targets, blindness and the heartbeat are looked at.
	lookGap = time.Second
	// gatherGap lets changes gather before they are told; tellGap is the least
	// time between two tellings in Before and After, where states go back and
	// forth. In During they do not.
	gatherGap = 20 * time.Millisecond
	tellGap   = time.Second
	// tellPatience bounds one telling.
	tellPatience = 5 * time.Second
)

// Session asks the probes of one phase. Its fields must not change while it runs.
type Session struct {
	Input
	// Probes that ask in the phase, with their defaults.
	Probes []v1beta1.Probe
	// Ask is that of a probe.Prober.
	Ask func(context.Context, v1beta1.Probe, *probe.Target) probe.Answer
	// Targets are those that can be asked now. An error leaves them as they were.
	Targets func(context.Context) ([]Target, error)
	// Pod is what is known of a target now.
	Pod func(types.UID) *corev1.Pod
	// Tell tells the workflow. ErrNobodyListens ends the session.
	Tell func(context.Context, contract.ProbeTransition) error
	// Heartbeat takes what another session needs.
	Heartbeat func(Snapshot)
	// Heard is called with each answer, if it is there. It must not wait.
	Heard func(probe.Tick)
	// Stop is closed when the worker stops.
	Stop <-chan struct{}

	mu      sync.Mutex
	results *probe.Results
	book    *book
}

// Run asks until ctx ends, which is no error, and in Before and After until every
// probe succeeds. ErrStopped means that the last heartbeat has to be gone on with.
func (s *Session) Run(ctx context.Context) (Result, error) {
	var states []probe.State
	if s.Resume != nil {
		states = s.Resume.States
	}
	s.results, s.book = probe.NewResults(states...), newBook(s.Input, s.Probes, time.Now())
	running, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop(nil)
	targets := make(chan []probe.TargetContainer)
	manager := &probe.Manager{
		Phase: s.Phase, Began: s.book.began, Probes: s.Probes, Ask: s.Ask, Pod: s.Pod, Results: s.results, Told: s.heard,
	}
	changed := make(chan struct{}, 1)
	all.Go(func() { manager.Run(running, targets) })
	all.Go(func() { s.listen(running, changed) })
	all.Go(func() { stop(s.tellChanges(running, changed)) })
	err := s.watch(running, targets, changed)
	stop(nil)
	all.Wait()
	s.Heartbeat(s.snapshot(time.Now()))
	if errors.Is(context.Cause(running), ErrNobodyListens) {
		err = nil
	}
	return s.result(), err
}

// listen notes results that changed.
func (s *Session) listen(ctx context.Context, changed chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case update := <-s.results.Updates():
			s.mu.Lock()
			s.book.update(update)
			s.mu.Unlock()
			notify(changed)
		}
	}
}

// heard notes an answer.
func (s *Session) heard(tick probe.Tick) {
	s.mu.Lock()
	s.book.answer(tick, time.Now())
	s.mu.Unlock()
	if s.Heard != nil {
		s.Heard(tick)
	}
}

// watch looks after the targets, the heartbeat and the end.
func (s *Session) watch(ctx context.Context, targets chan<- []probe.TargetContainer, changed chan struct{}) error {
	ticker := time.NewTicker(lookGap)
	defer ticker.Stop()
	for {
		if now, fresh := s.freshTargets(ctx); fresh {
			select {
			case targets <- now:
			case <-ctx.Done():
				return nil
			}
		}
		s.Heartbeat(s.snapshot(time.Now()))
		if s.complete() {
			return nil
		}
		notify(changed) // something may have become blind
		select {
		case <-ctx.Done():
			return nil
		case <-s.Stop:
			return ErrStopped
		case <-ticker.C:
		}
	}
}

func (s *Session) freshTargets(ctx context.Context) ([]probe.TargetContainer, bool) {
	now, err := s.Targets(ctx)
	if err != nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.book.setTargets(now) {
		return nil, false
	}
	var list []probe.TargetContainer
	for _, target := range now {
		list = append(list, probe.TargetContainer{Pod: target.UID, Container: target.Container})
	}
	return list, true
}

// reports are what the probes say now.
func (s *Session) reports(now time.Time) []contract.ProbeReport {
	states := s.results.States()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.reports(states, now)
}

// complete is true once nothing is left to ask.
func (s *Session) complete() bool {
	if s.Phase == v1beta1.ProbeDuring {
		return false
	}
	reports := s.reports(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.complete(reports)
}

// tellChanges tells the workflow what is worth it, until ctx ends or nobody
// listens.
func (s *Session) tellChanges(ctx context.Context, changed chan struct{}) error {
	told, seq := map[string]contract.ProbeReport{}, int64(0)
	if s.Phase != v1beta1.ProbeDuring && s.Resume == nil {
		for _, report := range s.reports(time.Now()) {
			told[report.Name] = report // how the phase begins is known
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		pause(ctx, gatherGap)
		now := time.Now()
		news := worthTelling(told, s.reports(now))
		if len(news) == 0 || s.complete() {
			continue // of the end the result tells
		}
		seq++
		err := s.tell(ctx, contract.ProbeTransition{Phase: s.Phase, Session: s.Session, Seq: seq, At: now, Probes: news})
		switch {
		case errors.Is(err, ErrNobodyListens):
			return err
		case err == nil:
			for _, report := range news {
				told[report.Name] = report
			}
		}
		if err != nil || s.Phase != v1beta1.ProbeDuring {
			pause(ctx, tellGap)
		}
		if err != nil {
			notify(changed)
		}
	}
}

func (s *Session) tell(ctx context.Context, transition contract.ProbeTransition) error {
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	return s.Tell(ctx, transition)
}

func (s *Session) snapshot(now time.Time) Snapshot {
	states := s.results.States()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.snapshot(states, s.book.reports(states, now), now)
}

func (s *Session) result() Result {
	reports := s.reports(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	return Result{reports, s.book.allCourses()}
}

func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
