// Package steadystate asks the probes of a disruption, or of a DisruptionScenario, for
// one phase, and signals changes to its workflow. It promises that an answer which
// changes nothing costs no event of history, and that a session which resumes its
// snapshot loses no result.
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

// Input defines the questions of a session.
type Input struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	// Scenario owns the probes instead of Disruption; nil for probes of a disruption.
	Scenario *contract.ScenarioRef `json:"scenario,omitempty"`
	Phase    v1beta1.ProbePhase    `json:"phase"`
	// Session counts the sessions in the disruption's life, from 1.
	Session int `json:"session"`
	// Began is when the phase did, by the workflow's clock.
	Began time.Time `json:"began"`
	// Lasted is the age of the phase when the workflow requested the session, and Idle the
	// time without a session before that. With these durations no two clocks are compared.
	Lasted time.Duration `json:"lasted,omitempty"`
	Idle   time.Duration `json:"idle,omitempty"`
	// Resume is the previous session's snapshot of this phase; nil without one.
	Resume *Snapshot `json:"resume,omitempty"`
}

// Result has the last reports of the probes.
type Result struct {
	Probes []contract.ProbeReport `json:"probes"`
	// Courses are the answers of each probe over the phase, in the order of Probes, and of
	// each group: at most 240 points in each, and 64 KiB in all.
	Courses []Course `json:"courses,omitempty"`
}

// Snapshot is what a session must not forget. Its times are by that session's clock.
type Snapshot struct {
	At     time.Time     `json:"at"`
	States []probe.State `json:"states,omitempty"`
	// Reports of all probes; Blind has, for each probe with errors, the time of its last
	// answer.
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
	// Control is true for a pod of the control group. It is asked as a target is, but does
	// not count for the state of the targets.
	Control bool
}

// ErrStopped means that another worker has to resume the session.
var ErrStopped = errors.New("the worker stops; another one goes on")

// ErrWorkflowEnded means that the workflow no longer exists.
var ErrWorkflowEnded = errors.New("the workflow has ended")

const (
	// lookGap is how often the session reads targets, checks for blindness and heartbeats.
	lookGap = time.Second
	// gatherGap lets changes gather before a signal. signalGap is the least time between
	// two signals in Before and After, where states may alternate. In During they do not.
	gatherGap = 20 * time.Millisecond
	signalGap = time.Second
	// signalPatience bounds one signal.
	signalPatience = 5 * time.Second
)

// Session asks the probes of one phase. Its fields must not change while it runs.
type Session struct {
	Input
	// Probes that ask in the phase, with their defaults.
	Probes []v1beta1.Probe
	// Ask is usually probe.Prober.Ask.
	Ask func(context.Context, v1beta1.Probe, *probe.Target) probe.Answer
	// Targets returns the targets that can be asked now. After an error they stay as they
	// were.
	Targets func(context.Context) ([]Target, error)
	// Pod returns a target's pod as it is now; nil if it is unknown.
	Pod func(types.UID) *corev1.Pod
	// Signal signals the workflow. ErrWorkflowEnded ends the session.
	Signal func(context.Context, contract.ProbeTransition) error
	// Heartbeat records what another session needs.
	Heartbeat func(Snapshot)
	// OnAnswer is called with each answer, unless it is nil. It must not block.
	OnAnswer func(probe.Tick)
	// Stop is closed when the worker stops.
	Stop <-chan struct{}

	mu      sync.Mutex
	results *probe.Results
	book    *book
}

// Run asks until ctx ends, which is no error; in Before and After it also ends when
// every probe succeeds. ErrStopped means that another session has to resume the last
// heartbeat.
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
		Phase: s.Phase, Began: s.book.began, Probes: s.Probes, Ask: s.Ask, Pod: s.Pod, Results: s.results, OnAnswer: s.recordAnswer,
	}
	changed := make(chan struct{}, 1)
	all.Go(func() { manager.Run(running, targets) })
	all.Go(func() { s.listen(running, changed) })
	all.Go(func() { stop(s.signalChanges(running, changed)) })
	err := s.watch(running, targets, changed)
	stop(nil)
	all.Wait()
	s.Heartbeat(s.snapshot(time.Now()))
	if errors.Is(context.Cause(running), ErrWorkflowEnded) {
		err = nil
	}
	return s.result(), err
}

// listen records results that changed.
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

// recordAnswer adds an answer to the book.
func (s *Session) recordAnswer(tick probe.Tick) {
	s.mu.Lock()
	s.book.answer(tick, time.Now())
	s.mu.Unlock()
	if s.OnAnswer != nil {
		s.OnAnswer(tick)
	}
}

// watch updates the targets, heartbeats, and detects the end.
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
		notify(changed) // a probe may have become blind
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

// reports are the current reports of the probes.
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

// signalChanges signals reports that are worth it, until ctx ends or the workflow has
// ended.
func (s *Session) signalChanges(ctx context.Context, changed chan struct{}) error {
	sent, seq := map[string]contract.ProbeReport{}, int64(0)
	if s.Phase != v1beta1.ProbeDuring && s.Resume == nil {
		for _, report := range s.reports(time.Now()) {
			sent[report.Name] = report // the workflow knows how the phase begins
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
		changes := worthSignalling(sent, s.reports(now))
		if len(changes) == 0 || s.complete() {
			continue // the result has the last reports
		}
		seq++
		err := s.signal(ctx, contract.ProbeTransition{Phase: s.Phase, Session: s.Session, Seq: seq, At: now, Probes: changes})
		switch {
		case errors.Is(err, ErrWorkflowEnded):
			return err
		case err == nil:
			for _, report := range changes {
				sent[report.Name] = report
			}
		}
		if err != nil || s.Phase != v1beta1.ProbeDuring {
			pause(ctx, signalGap)
		}
		if err != nil {
			notify(changed)
		}
	}
}

func (s *Session) signal(ctx context.Context, transition contract.ProbeTransition) error {
	ctx, cancel := context.WithTimeout(ctx, signalPatience)
	defer cancel()
	return s.Signal(ctx, transition)
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
