package inject

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Times of AwaitInjection.
const (
	// Progress is written at most once in this time: gapOfPod for each chaos pod, within
	// the other two bounds. The end is written at once.
	gapOfPod    = time.Millisecond
	shortestGap = 50 * time.Millisecond
	longestGap  = 500 * time.Millisecond
	// reasonGap is the time between two reads of the log of a chaos pod that runs and is
	// not ready.
	reasonGap = 2 * time.Second
	// gatherGap is the shortest time between two counts of the chaos pods: changes gather
	// meanwhile.
	gatherGap = 20 * time.Millisecond
	// calmGap without a change of the chaos pods means that no change is on its way.
	calmGap = 2 * time.Second
	// stillGap without a change means that the remaining targets may never be injected, so
	// events name them. A busy cluster does not pause as long.
	stillGap = 10 * time.Second
)

// AwaitInput selects what AwaitInjection watches and reports.
type AwaitInput struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	// Announce has the shards with targets that have no event of their disruption yet.
	Announce []int `json:"announce,omitempty"`
	// AnnounceRun is the first choice of targets without such events. Targets of earlier
	// choices in these shards have them.
	AnnounceRun int `json:"announceRun,omitempty"`
	// Versions are the versions of all shards' records, in order from the first. Empty if
	// the workflow does not know all of them.
	Versions []string `json:"versions,omitempty"`
	// Chosen is the first choice of targets, if status does not show it yet.
	Chosen *targets.Selection `json:"chosen,omitempty"`
	// Linger is how long the watch goes on once all is injected, for targets that are
	// chosen meanwhile. Each starts that time again. 0 means not at all.
	Linger time.Duration `json:"linger,omitempty"`
}

// InjectionProgress counts the targets that are injected.
type InjectionProgress struct {
	Injected int `json:"injected"`
	Total    int `json:"total"`
	// Unproven counts the injections that are known to have no effect yet.
	Unproven int `json:"unproven,omitempty"`
	// Run is the newest choice of which the watch has seen targets.
	Run int `json:"run,omitempty"`
}

// AwaitInjection watches the chaos pods of all the disruption's targets and writes each
// change into status (rules 28-31, 33). It returns when everything is injected, however
// long that takes: a failed injection is no error, status shows it. Once all is injected,
// or no chaos pod changes any more, it records an event on each target (rule 21).
func (a *Activities) AwaitInjection(ctx context.Context, in AwaitInput) (InjectionProgress, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the reads of logs
	w, err := a.newInjectionWatch(ctx, in)
	if err != nil {
		return InjectionProgress{}, err
	}
	changes, stop := a.ChaosPods.Changes(in.Disruption)
	defer stop()
	next := newTriggers(changes)
	defer next.stop()
	for {
		p := w.measure()
		if p.Done() {
			p = w.withEffects(ctx, p)
		}
		if err := w.write(ctx, p); err != nil {
			return InjectionProgress{}, err
		}
		if next.calm || p.Done() {
			w.announceTargets(ctx, p, next.still)
		}
		if p.Done() {
			more, err := w.linger(ctx, in.Linger, p)
			if err != nil {
				return InjectionProgress{}, err
			}
			if !more {
				return InjectionProgress{Injected: p.Injected, Total: p.Total, Unproven: w.unproven(p), Run: w.run}, nil
			}
			next.restart()
			continue
		}
		if err := w.await(ctx, next); err != nil {
			return InjectionProgress{}, err
		}
	}
}

// triggers start the next measurement of the chaos pods.
type triggers struct {
	changes <-chan struct{}
	// answers is nil while no logs are being read.
	answers <-chan logAnswers
	ask     *time.Ticker
	// calm and still are true while there was no change for calmGap and for stillGap. Their
	// timers set them.
	calm, still           bool
	calmTimer, stillTimer *time.Timer
}

func newTriggers(changes <-chan struct{}) *triggers {
	return &triggers{changes: changes, ask: time.NewTicker(reasonGap), calmTimer: time.NewTimer(calmGap), stillTimer: time.NewTimer(stillGap)}
}

// restart begins all pauses again, as each change does.
func (t *triggers) restart() {
	t.calmTimer.Reset(calmGap)
	t.stillTimer.Reset(stillGap)
	t.calm, t.still = false, false
}

func (t *triggers) stop() {
	t.ask.Stop()
	t.calmTimer.Stop()
	t.stillTimer.Stop()
}

// await waits until the next measurement is due.
func (w *injectionWatch) await(ctx context.Context, next *triggers) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return cluster.ErrWorkerStops
		case <-next.changes:
			next.restart()
			if err := cluster.Pause(ctx, gatherGap-time.Since(w.counted)); err != nil {
				return err
			}
			if w.pending = !w.needsMeasure(); !w.pending {
				return nil
			}
		case <-next.calmTimer.C:
			if next.calm = noChangeWaits(next.changes); next.calm {
				return nil
			}
		case <-next.stillTimer.C:
			if next.still = noChangeWaits(next.changes); next.still {
				return nil
			}
		case <-w.wait():
			return nil
		case <-next.ask.C:
			if next.answers == nil {
				next.answers = w.readLogs(ctx)
			}
		case answers := <-next.answers:
			next.answers = nil
			maps.Copy(w.reasons, answers.reasons)
			maps.Copy(w.effects, answers.effects)
			return nil
		}
	}
}

// noChangeWaits is true when no change waits to be received. The events of a thousand
// targets may take longer than a timer: then await receives the change first, which resets
// the timers.
func noChangeWaits(changes <-chan struct{}) bool { return len(changes) == 0 }

// injectionWatch is the state of one AwaitInjection. Another attempt can do without it.
type injectionWatch struct {
	a *Activities
	d *v1beta1.Disruption
	// began is when the workflow began the watch.
	began   time.Time
	targets []v1beta1.InjectionTarget
	// shards are the records of the targets, and run the newest choice of any of them.
	shards []targets.Shard
	run    int
	// unannounced are the targets that have no event of their injection yet.
	unannounced []v1beta1.InjectionTarget
	// chosen are the unannounced with an event of their choice, failed the unannounced with
	// an event of a failed injection.
	chosen, failed map[types.UID]bool
	// showChoice writes the choice of targets into status; nil once that is done.
	showChoice func(*v1beta1.Disruption)
	reasons    map[string]string
	// effects are by chaos pod name.
	effects map[string]*v1beta1.Effect
	written chaospod.Progress
	// shown is true once progress was written.
	shown bool
	// pending is true when a change came after the last measurement.
	pending bool
	// measured is when the chaos pods were last measured one by one, counted when the ready
	// ones were last counted.
	measured, counted time.Time
	// expected is the number of chaos pods that are ready in the end.
	expected int
}

func (a *Activities) newInjectionWatch(ctx context.Context, in AwaitInput) (*injectionWatch, error) {
	d, err := a.Targets.LoadSpec(ctx, in.Disruption)
	if err != nil {
		return nil, err
	}
	shards, err := a.Targets.ShardsAt(ctx, in.Disruption, in.Versions)
	if err != nil {
		return nil, err
	}
	w := &injectionWatch{a: a, d: d, shards: shards, began: activity.GetInfo(ctx).ScheduledTime, reasons: map[string]string{}, effects: map[string]*v1beta1.Effect{}, chosen: map[types.UID]bool{}, failed: map[types.UID]bool{}}
	w.take(shards, func(number int, t targets.Target) bool {
		return (in.Linger > 0 || slices.Contains(in.Announce, number)) && t.Run >= in.AnnounceRun
	})
	if in.Chosen != nil {
		w.showChoice = cluster.ShowSelection(ctx, d, *in.Chosen, shards, 0)
	}
	return w, nil
}

// take watches the active targets of these records. unannounced is asked of each that was
// not watched before.
func (w *injectionWatch) take(shards []targets.Shard, unannounced func(number int, t targets.Target) bool) {
	before, waiting := map[types.UID]bool{}, map[types.UID]bool{}
	for _, target := range w.targets {
		before[target.UID] = true
	}
	for _, target := range w.unannounced {
		waiting[target.UID] = true
	}
	w.shards, w.targets, w.unannounced = shards, nil, nil
	for _, s := range shards {
		for _, target := range s.Targets {
			if !target.Active() {
				continue
			}
			w.run = max(w.run, target.Run)
			w.targets = append(w.targets, target.InjectionTarget)
			if waiting[target.UID] || !before[target.UID] && unannounced(s.Number, target) {
				w.unannounced = append(w.unannounced, target.InjectionTarget)
			}
		}
	}
	w.expected = len(w.targets) * len(w.d.Spec.Requested())
}

// linger waits, once all is injected, until the records of targets change. It returns
// false when none changed for that long, or an effect is not proven, which another activity
// asks for.
func (w *injectionWatch) linger(ctx context.Context, patience time.Duration, p chaospod.Progress) (more bool, err error) {
	if patience == 0 || w.unproven(p) > 0 {
		return false, nil
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		shards, changed, err := w.a.Targets.ShardsAndChanges(ctx, w.d.Ref())
		if err != nil {
			return false, err
		}
		if changed == nil {
			return false, nil // nothing watches the records
		}
		if targets.Newer(w.shards, shards) {
			w.take(shards, func(int, targets.Target) bool { return true })
			return true, nil
		}
		select {
		case <-changed:
		case <-over.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return false, cluster.ErrWorkerStops
		}
	}
}

// needsMeasure limits full scans, whose time grows with the number of targets. A scan is
// due at once when the last chaos pod is ready, else once in each gap.
func (w *injectionWatch) needsMeasure() bool {
	ready := w.a.ChaosPods.Ready(w.d.Ref())
	w.counted = time.Now()
	return ready >= w.expected || time.Since(w.measured) >= w.gap()
}

// gap is the least time between two full scans before all chaos pods are ready.
func (w *injectionWatch) gap() time.Duration {
	return min(max(time.Duration(w.expected)*gapOfPod, shortestGap), longestGap)
}

func (w *injectionWatch) measure() chaospod.Progress {
	ref := w.d.Ref()
	w.measured, w.pending = time.Now(), false
	return chaospod.Measure(ref, w.targets, w.d.Spec.Requested(), w.a.ChaosPods.Of(ref), w.reasons).WithEffects(w.effects)
}

// write writes progress into status, unless nothing changed.
func (w *injectionWatch) write(ctx context.Context, p chaospod.Progress) error {
	// the choice of targets shows as much
	nothing := !w.shown && p.ReadyPods == 0 && !p.Done() && p.FirstReason() == ""
	if w.showChoice == nil && (nothing || w.shown && p.Equal(w.written)) {
		return nil
	}
	err := w.a.Disruptions.UpdateStatus(ctx, w.d.Ref(), func(d *v1beta1.Disruption) {
		if w.showChoice != nil && !d.Status.Phase.Ending() && !meta.IsStatusConditionTrue(d.Status.Conditions, v1beta1.ConditionTargetsSelected) {
			w.showChoice(d)
		}
		if !nothing {
			status.ShowProgress(d, p, w.began)
		}
	})
	if err != nil {
		return err
	}
	w.showChoice = nil
	w.written, w.shown = p, !nothing
	return nil
}

// wait fires when a postponed measurement is due.
func (w *injectionWatch) wait() <-chan time.Time {
	if !w.pending {
		return nil
	}
	return time.After(w.gap() - time.Since(w.measured))
}

// announceTargets records an event on every target that has none yet: the target is
// disrupted, or why it is not (rule 21). A target that is injected later gets its event
// then. Events are not urgent and other activities may still create chaos pods, so a few
// are recorded at once.
func (w *injectionWatch) announceTargets(ctx context.Context, p chaospod.Progress, still bool) {
	var waiting []v1beta1.InjectionTarget
	var group errgroup.Group
	group.SetLimit(4)
	record := func(f func()) { group.Go(func() error { f(); return nil }) }
	for _, target := range w.unannounced {
		injected, why := p.Of(target)
		switch {
		case injected:
			record(func() { cluster.Events(w.a.Kube).Disrupted(ctx, w.d, target) })
			continue
		case why != "" && !w.failed[target.UID]:
			if len(w.failed) == 0 { // one event for the disruption, and one for each target
				record(func() { cluster.Events(w.a.Kube).Warn(ctx, w.d, "InjectionFailed", target.Name+": "+why, "first") })
			}
			w.failed[target.UID], w.chosen[target.UID] = true, true
			record(func() { cluster.Events(w.a.Kube).InjectionFailed(ctx, w.d, target, why) })
		case still && !w.chosen[target.UID]:
			w.chosen[target.UID] = true
			record(func() { cluster.Events(w.a.Kube).Chosen(ctx, w.d, target) })
		}
		waiting = append(waiting, target)
	}
	if p.Done() && p.Total > 0 {
		record(func() {
			cluster.Events(w.a.Kube).Record(ctx, w.d, "Injected", fmt.Sprintf("all %d targets are injected", p.Total), fmt.Sprint(p.Total))
		})
	}
	_ = group.Wait() // nothing in it fails
	w.unannounced = waiting
}

// withEffects is the progress with the effects that ready chaos pods have logged.
// AwaitEffects reads the effects again that are known and not proven.
func (w *injectionWatch) withEffects(ctx context.Context, p chaospod.Progress) chaospod.Progress {
	pods := slices.DeleteFunc(w.needEffectRead(), func(pod *corev1.Pod) bool {
		effect := w.effects[pod.Name]
		return effect != nil && effect.State != v1beta1.EffectProven
	})
	turned, _ := w.a.readEffects(ctx, w.d, pods)
	maps.Copy(w.effects, turned)
	return p.WithEffects(w.effects)
}

// needEffectRead are the chaos pods whose effects have to be read from logs. There are none
// for a dry run, and for many targets.
func (w *injectionWatch) needEffectRead() (pods []*corev1.Pod) {
	if w.d.Spec.DryRun || len(w.targets) > status.MaxEffects {
		return nil
	}
	for _, pod := range w.a.ChaosPods.Of(w.d.Ref()) {
		effect := w.effects[pod.Name]
		ready, _ := chaospod.Ready(pod)
		if (ready || effect != nil) && !knownProven(pod, effect) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (w *injectionWatch) unproven(p chaospod.Progress) int {
	if w.d.Spec.DryRun || len(w.targets) > status.MaxEffects {
		return 0
	}
	return p.Unproven()
}

// logAnswers are the contents of chaos pods' logs, by chaos pod name.
type logAnswers struct {
	reasons map[string]string
	effects map[string]*v1beta1.Effect
}

// readLogs reads logs in the background: why running chaos pods are not ready (rule 33),
// and the effects that ready ones have logged. A kubelet that does not answer delays
// nothing else.
func (w *injectionWatch) readLogs(ctx context.Context) <-chan logAnswers {
	silent, ready := w.silent(), w.needEffectRead()
	answers := make(chan logAnswers, 1)
	go func() {
		reasons := w.a.failuresInLogs(ctx, silent)
		effects, _ := w.a.readEffects(ctx, w.d, ready)
		answers <- logAnswers{reasons, effects}
	}()
	return answers
}

// silent are up to 20 running chaos pods that are not ready, for an unknown reason.
func (w *injectionWatch) silent() (pods []*corev1.Pod) {
	for _, pod := range w.a.ChaosPods.Of(w.d.Ref()) {
		ready, _ := chaospod.Ready(pod)
		if !ready && chaospod.InjectorState(pod).Running != nil && w.reasons[pod.Name] == "" && len(pods) < 20 {
			pods = append(pods, pod)
		}
	}
	return pods
}

// failuresInLogs are the reasons of failures that injectors have logged, by chaos pod name.
// They only inform status, so it leaves out a log that cannot be read.
func (a *Activities) failuresInLogs(ctx context.Context, pods []*corev1.Pod) map[string]string {
	found := make([]string, len(pods))
	kube.Each(len(pods), a.Parallel, func(i int) error {
		found[i] = a.failureInLog(ctx, pods[i])
		return nil
	})
	reasons := map[string]string{}
	for i, pod := range pods {
		if found[i] != "" {
			reasons[pod.Name] = found[i]
		}
	}
	return reasons
}

func (a *Activities) failureInLog(ctx context.Context, pod *corev1.Pod) string {
	log, err := a.tailOfLog(ctx, pod)
	if err != nil {
		return ""
	}
	for _, line := range slices.Backward(strings.Split(log, "\n")) {
		entry := struct{ Msg, Error string }{}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == v1beta1.MessageInjectionFailed {
			return entry.Error
		}
	}
	return ""
}
