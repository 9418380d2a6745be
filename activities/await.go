package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Times of AwaitInjection.
const (
	// The least time between two writes of progress is gapOfPod for each chaos pod,
	// within these bounds. The end is written at once.
	gapOfPod    = time.Millisecond
	shortestGap = 50 * time.Millisecond
	longestGap  = 500 * time.Millisecond
	// reasonGap is how often a chaos pod that runs and is not ready is asked
	// for the reason.
	reasonGap = 2 * time.Second
	// gatherGap lets changes gather before anybody looks.
	gatherGap = 20 * time.Millisecond
	// calmGap without any news of the chaos pods means that none is on its way.
	calmGap = 2 * time.Second
	// stillGap without any news means that what is not injected by now may stay
	// so, and is told. A busy cluster does not pause as long.
	stillGap = 10 * time.Second
)

// AwaitInput says what AwaitInjection is to watch and to tell.
type AwaitInput struct {
	Disruption Ref `json:"disruption"`
	// Announce are the shards whose targets were not told yet that they are disrupted.
	Announce []int `json:"announce,omitempty"`
	// AnnounceRun is the first choice of which they were not told: targets of earlier
	// ones in these shards were.
	AnnounceRun int `json:"announceRun,omitempty"`
	// Versions are those of the records of all shards there are, from the first, if
	// the workflow was told all of them.
	Versions []string `json:"versions,omitempty"`
	// Chosen is the first choice of targets, if status does not tell of it yet.
	Chosen *Selection `json:"chosen,omitempty"`
	// Linger is how long the watch goes on once all is injected, for targets that are
	// chosen meanwhile. Each starts that time again. 0 means not at all.
	Linger time.Duration `json:"linger,omitempty"`
}

// InjectionProgress says how far an injection has come.
type InjectionProgress struct {
	Injected int `json:"injected"`
	Total    int `json:"total"`
	// Unproven counts the injections that are known not to act yet.
	Unproven int `json:"unproven,omitempty"`
	// Run is the newest choice of which the watch has seen targets.
	Run int `json:"run,omitempty"`
}

// AwaitInjection watches the chaos pods of all the disruption's targets,
// writes what it sees into status as it comes (rules 28-31, 33), and
// returns when everything is injected. It waits as long as it takes: a failed
// injection is no error, it is told in status. Once all is injected, or nothing
// moves any more, it records on each target what became of it (rule 21).
func (a *Activities) AwaitInjection(ctx context.Context, in AwaitInput) (InjectionProgress, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whoever still reads logs
	w, err := a.newInjectionWatch(ctx, in)
	if err != nil {
		return InjectionProgress{}, err
	}
	changes, stop := a.ChaosPods.Changes(in.Disruption)
	defer stop()
	n := newsOf(changes)
	defer n.stop()
	for {
		p := w.measure()
		if p.Done() {
			p = w.withEffects(ctx, p)
		}
		if err := w.write(ctx, p); err != nil {
			return InjectionProgress{}, err
		}
		if n.calmed || p.Done() {
			w.announceTargets(ctx, p, n.stands)
		}
		if p.Done() {
			more, err := w.linger(ctx, in.Linger, p)
			if err != nil {
				return InjectionProgress{}, err
			}
			if !more {
				return InjectionProgress{Injected: p.Injected, Total: p.Total, Unproven: w.unproven(p), Run: w.run}, nil
			}
			n.restart()
			continue
		}
		if err := w.await(ctx, n); err != nil {
			return InjectionProgress{}, err
		}
	}
}

// news is what is waited for between two looks at the chaos pods.
type news struct {
	changes <-chan struct{}
	// answers come when logs are being read; nil while none are.
	answers <-chan logAnswers
	ask     *time.Ticker
	// calm and still fire when there was no change for calmGap and for stillGap:
	// then calmed and stands are true, until there is one.
	calm, still    *time.Timer
	calmed, stands bool
}

func newsOf(changes <-chan struct{}) *news {
	return &news{changes: changes, ask: time.NewTicker(reasonGap), calm: time.NewTimer(calmGap), still: time.NewTimer(stillGap)}
}

// restart begins all pauses again, as each change does.
func (n *news) restart() {
	n.calm.Reset(calmGap)
	n.still.Reset(stillGap)
	n.calmed, n.stands = false, false
}

func (n *news) stop() {
	n.ask.Stop()
	n.calm.Stop()
	n.still.Stop()
}

// await waits until the next look is due.
func (w *injectionWatch) await(ctx context.Context, n *news) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return fmt.Errorf("worker stops; another one goes on")
		case <-n.changes:
			n.restart()
			if err := pause(ctx, gatherGap-time.Since(w.counted)); err != nil {
				return err
			}
			if w.pending = !w.needsLook(); !w.pending {
				return nil
			}
		case <-n.calm.C:
			if n.calmed = noneCame(n.changes); n.calmed {
				return nil
			}
		case <-n.still.C:
			if n.stands = noneCame(n.changes); n.stands {
				return nil
			}
		case <-w.wait():
			return nil
		case <-n.ask.C:
			if n.answers == nil {
				n.answers = w.ask(ctx)
			}
		case said := <-n.answers:
			n.answers = nil
			maps.Copy(w.reasons, said.reasons)
			maps.Copy(w.effects, said.effects)
			return nil
		}
	}
}

// noneCame is true when no change waits to be received. Events for a thousand
// targets may take longer than a timer: what changed meanwhile counts first, and
// sets the timers anew as soon as it is received.
func noneCame(changes <-chan struct{}) bool { return len(changes) == 0 }

// injectionWatch is the state of one AwaitInjection. All of it can be lost.
type injectionWatch struct {
	a *Activities
	d *v1beta1.Disruption
	// began is when the workflow began the watch.
	began   time.Time
	targets []v1beta1.InjectionTarget
	// shards are their records, and run the newest choice of which some are.
	shards []targets.Shard
	run    int
	// unannounced are those of the targets that have no event of their injection
	// yet, chosen those of them with an event that they were chosen, failed those
	// with an event that the injection failed.
	unannounced    []v1beta1.InjectionTarget
	chosen, failed map[types.UID]bool
	// showChoice tells of the choice of targets in status; nil once that was done.
	showChoice func(*v1beta1.Disruption)
	reasons    map[string]string
	// effects are by chaos pod name.
	effects map[string]*v1beta1.Effect
	written chaospod.Progress
	// shown is true once something was written.
	shown bool
	// pending is true when there was news that nobody has looked at.
	pending bool
	// looked and counted are when all chaos pods were looked at, or only counted.
	looked, counted time.Time
	// expected is how many chaos pods are ready in the end.
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
		w.showChoice = showSelection(ctx, d, *in.Chosen, shards, 0)
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
			return false, fmt.Errorf("worker stops; another one goes on")
		}
	}
}

// needsLook limits full scans, whose time grows with the number of targets: at
// once when the last chaos pod is ready, else once in each gap.
func (w *injectionWatch) needsLook() bool {
	ready := w.a.ChaosPods.Ready(w.d.Ref())
	w.counted = time.Now()
	return ready >= w.expected || time.Since(w.looked) >= w.gap()
}

// gap is the least time between two looks that find the injection on its way.
func (w *injectionWatch) gap() time.Duration {
	return min(max(time.Duration(w.expected)*gapOfPod, shortestGap), longestGap)
}

func (w *injectionWatch) measure() chaospod.Progress {
	ref := w.d.Ref()
	w.looked, w.pending = time.Now(), false
	return chaospod.Measure(ref, w.targets, w.d.Spec.Requested(), w.a.ChaosPods.Of(ref), w.reasons).WithEffects(w.effects)
}

// write puts progress into status, unless it says nothing new.
func (w *injectionWatch) write(ctx context.Context, p chaospod.Progress) error {
	nothing := !w.shown && p.ReadyPods == 0 && !p.Done() && p.FirstReason() == "" // the choice of targets tells as much
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

// wait fires when a look that was put off is due.
func (w *injectionWatch) wait() <-chan time.Time {
	if !w.pending {
		return nil
	}
	return time.After(w.gap() - time.Since(w.looked))
}

// announceTargets records on every target that has no such event yet that it is
// disrupted, or why it is not (rule 21). One that is injected later is announced
// then. Nobody waits for it, and others may still create chaos pods: it does a
// few at once.
func (w *injectionWatch) announceTargets(ctx context.Context, p chaospod.Progress, stands bool) {
	var waiting []v1beta1.InjectionTarget
	var group errgroup.Group
	group.SetLimit(4)
	record := func(f func()) { group.Go(func() error { f(); return nil }) }
	for _, target := range w.unannounced {
		injected, why := p.Of(target)
		switch {
		case injected:
			record(func() { w.a.events().Disrupted(ctx, w.d, target) })
			continue
		case why != "" && !w.failed[target.UID]:
			if len(w.failed) == 0 { // one event for the disruption, and one for each target
				record(func() { w.a.events().Warn(ctx, w.d, "InjectionFailed", target.Name+": "+why, "first") })
			}
			w.failed[target.UID], w.chosen[target.UID] = true, true
			record(func() { w.a.events().InjectionFailed(ctx, w.d, target, why) })
		case stands && !w.chosen[target.UID]:
			w.chosen[target.UID] = true
			record(func() { w.a.events().Chosen(ctx, w.d, target) })
		}
		waiting = append(waiting, target)
	}
	if p.Done() && p.Total > 0 {
		record(func() {
			w.a.events().Record(ctx, w.d, "Injected", fmt.Sprintf("all %d targets are injected", p.Total), fmt.Sprint(p.Total))
		})
	}
	_ = group.Wait() // nothing in it fails
	w.unannounced = waiting
}

// withEffects is the progress with what the chaos pods that are ready say of their
// effects. Those that have said that theirs is not proven are asked again by AwaitEffects.
func (w *injectionWatch) withEffects(ctx context.Context, p chaospod.Progress) chaospod.Progress {
	pods := slices.DeleteFunc(w.doubtful(), func(pod *corev1.Pod) bool {
		effect := w.effects[pod.Name]
		return effect != nil && effect.State != v1beta1.EffectProven
	})
	turned, _ := w.a.readEffects(ctx, w.d, pods)
	maps.Copy(w.effects, turned)
	return p.WithEffects(w.effects)
}

// doubtful are the chaos pods whose effects have to be asked for. Of a dry run, and of
// many targets, nobody is asked.
func (w *injectionWatch) doubtful() (pods []*corev1.Pod) {
	if w.d.Spec.DryRun || len(w.targets) > status.MaxEffects {
		return nil
	}
	for _, pod := range w.a.ChaosPods.Of(w.d.Ref()) {
		effect := w.effects[pod.Name]
		ready, _ := chaospod.Ready(pod)
		if (ready || effect != nil) && !certain(pod, effect) {
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

// logAnswers is what chaos pods say in their logs, by their names.
type logAnswers struct {
	reasons map[string]string
	effects map[string]*v1beta1.Effect
}

// ask reads logs beside everything else: why chaos pods that run are not ready (rule
// 33), and what those that are say of their effects. A kubelet that does not answer
// holds up nobody but those who ask.
func (w *injectionWatch) ask(ctx context.Context) <-chan logAnswers {
	silent, doubtful := w.silent(), w.doubtful()
	answers := make(chan logAnswers, 1)
	go func() {
		reasons := w.a.failuresInLogs(ctx, silent)
		effects, _ := w.a.readEffects(ctx, w.d, doubtful)
		answers <- logAnswers{reasons, effects}
	}()
	return answers
}

// silent are a few of the chaos pods that run, are not ready, and have not said why.
func (w *injectionWatch) silent() (pods []*corev1.Pod) {
	for _, pod := range w.a.ChaosPods.Of(w.d.Ref()) {
		ready, _ := chaospod.Ready(pod)
		if !ready && chaospod.InjectorState(pod).Running != nil && w.reasons[pod.Name] == "" && len(pods) < 20 {
			pods = append(pods, pod)
		}
	}
	return pods
}

// failuresInLogs are the reasons that injectors tell in their logs, by chaos pod
// name. They are evidence for status only, so a pod that cannot be asked is passed over.
func (a *Activities) failuresInLogs(ctx context.Context, pods []*corev1.Pod) map[string]string {
	reasons := map[string]string{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(a.Parallel)
	for _, pod := range pods {
		group.Go(func() error {
			if reason := a.failureInLog(ctx, pod); reason != "" {
				mu.Lock()
				defer mu.Unlock()
				reasons[pod.Name] = reason
			}
			return nil
		})
	}
	_ = group.Wait() // nothing in it fails
	return reasons
}

func (a *Activities) failureInLog(ctx context.Context, pod *corev1.Pod) string {
	log, err := a.tailOfLog(ctx, pod)
	if err != nil {
		return ""
	}
	for _, line := range slices.Backward(strings.Split(log, "\n")) {
		said := struct{ Msg, Error string }{}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == v1beta1.MessageInjectionFailed {
			return said.Error
		}
	}
	return ""
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
