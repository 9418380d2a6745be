package steadystate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/activities/scenarios"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Activities has the activities AskProbes and ReportSteadyState.
type Activities struct {
	*cluster.Cluster
	// Prober asks the probes of disruptions. nil means that this worker asks no probes.
	Prober *Prober
}

// errorProberStopped is the type of AskProbes's error when its worker stops.
const errorProberStopped = "ProberStopped"

// SnapshotOf is the state that an AskProbes with the error err left. It is in the last
// heartbeat if its worker died, and in the error if its worker stopped. nil means that it
// left none.
func SnapshotOf(err error) *Snapshot {
	var snapshot Snapshot
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		if timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&snapshot) == nil {
			return &snapshot
		}
		return nil
	}
	stopped, ok := errors.AsType[*temporal.ApplicationError](err)
	if ok && stopped.Type() == errorProberStopped && stopped.HasDetails() && stopped.Details(&snapshot) == nil {
		return &snapshot
	}
	return nil
}

// AskProbes asks the probes of a phase and signals changes to the workflow
// (contract.SignalProbe). In phases Before and After it returns once all probes succeed; in
// During it asks until it is cancelled. When cancelled it returns its result. It makes one
// attempt: the error type ProberStopped means that the worker stops, and another attempt
// continues with SnapshotOf the error.
func (a *Activities) AskProbes(ctx context.Context, in Input) (Result, error) {
	if a.Prober == nil {
		return Result{}, errors.New("this worker asks no probes")
	}
	stopBeating := a.beatUntilReady(ctx, in)
	asked, release, err := FindAsked(ctx, a, in)
	stopBeating()
	if err != nil {
		return Result{}, err
	}
	defer release()
	var last Snapshot
	received, stopRecording := recordAnswers(ctx, in.Phase, asked)
	defer stopRecording()
	session := &Session{
		Input: in, Probes: asked.Spec.WithDefaults().Of(in.Phase), Ask: asked.By.Ask,
		Targets: asked.Targets, Pod: asked.Pod, Stop: activity.GetWorkerStopChannel(ctx),
		Heartbeat: func(s Snapshot) { last = s; activity.RecordHeartbeat(ctx, s) },
		Signal:    signalWorkflow, OnAnswer: received,
	}
	result, err := session.Run(ctx)
	if err == nil && heartbeatLost(ctx) {
		err = ErrStopped
	}
	if errors.Is(err, ErrStopped) {
		return result, temporal.NewApplicationErrorWithOptions(err.Error(), errorProberStopped, temporal.ApplicationErrorOptions{Details: []any{last}})
	}
	return result, err
}

// Asked are the probes of one AskProbes, with the pods that they ask.
type Asked struct {
	Spec v1beta1.SteadyState
	By   *probe.Prober
	// Targets are the targets that can be asked now, with the control group.
	Targets func(context.Context) ([]Target, error)
	// Pod is the last known state of one of them; nil if unknown.
	Pod func(types.UID) *corev1.Pod
	// describe is the target of an answer, as a part of a sentence.
	describe func(probe.Key) string
	// warn records an event on the object whose probes these are.
	warn func(ctx context.Context, reason, message, key string)
}

// FindAsked finds the probes to ask. The caller has to call release once it asks no more.
func FindAsked(ctx context.Context, a *Activities, in Input) (_ Asked, release func(), err error) {
	if in.Scenario != nil {
		return a.askedOfScenario(ctx, *in.Scenario)
	}
	d, err := a.Targets.LoadSpec(ctx, in.Disruption)
	if err == nil && d.Spec.SteadyState == nil {
		err = fmt.Errorf("disruption %s/%s has no steady state", in.Disruption.Namespace, in.Disruption.Name)
	}
	if err != nil {
		return Asked{}, nil, err
	}
	by, namespace, release, err := a.Prober.In(ctx, in.Disruption.Namespace)
	if err != nil {
		return Asked{}, nil, err
	}
	followed := &followedTargets{records: a.Targets, namespace: namespace, in: in, spec: &d.Spec}
	if d.Spec.SteadyState.Compares() {
		if followed.control, err = a.Targets.LoadControl(ctx, in.Disruption); err != nil {
			release()
			return Asked{}, nil, err
		}
	}
	return Asked{
		Spec: *d.Spec.SteadyState, By: by, Targets: followed.now, Pod: followed.pod, describe: followed.describe,
		warn: func(ctx context.Context, reason, message, key string) {
			cluster.Events(a.Kube).Warn(ctx, status.Named(in.Disruption), reason, message, key)
		},
	}, release, nil
}

// askedOfScenario are the probes of a scenario as a whole, which has no targets. It reads
// the current spec: an edited scenario ends with its next step.
func (a *Activities) askedOfScenario(ctx context.Context, ref contract.ScenarioRef) (Asked, func(), error) {
	s, err := scenarios.Read(ctx, a.Disruptions.Client(), ref)
	if err == nil && s.Spec.SteadyState == nil {
		err = fmt.Errorf("DisruptionScenario %s has no steady state", ref)
	}
	if err != nil {
		return Asked{}, nil, err
	}
	by, _, release, err := a.Prober.In(ctx, ref.Namespace)
	if err != nil {
		return Asked{}, nil, err
	}
	return Asked{
		Spec: *s.Spec.SteadyState, By: by,
		Targets:  func(context.Context) ([]Target, error) { return nil, nil },
		Pod:      func(types.UID) *corev1.Pod { return nil },
		describe: func(probe.Key) string { return "" },
		warn: func(ctx context.Context, reason, message, key string) {
			cluster.Events(a.Kube).Of(ctx, v1beta1.KindDisruptionScenario, s, corev1.EventTypeWarning, reason, message, key)
		},
	}, release, nil
}

// heartbeatLost is true if the SDK cancelled the activity because no heartbeat got through,
// and not because its workflow cancelled it. Then AskProbes must fail: the workflow would
// take a result as the end of the phase.
func heartbeatLost(ctx context.Context) bool {
	cause := context.Cause(ctx)
	_, cancelled := errors.AsType[*temporal.CanceledError](cause)
	return cause != nil && !cancelled && !errors.Is(cause, context.Canceled)
}

// beatUntilReady sends heartbeats while the activity waits for the cluster. They keep the
// snapshot from which it continues.
func (a *Activities) beatUntilReady(ctx context.Context, in Input) (stop func()) {
	beating, cancel := context.WithCancel(ctx)
	beat := func() {
		if in.Resume != nil {
			activity.RecordHeartbeat(ctx, *in.Resume)
			return
		}
		activity.RecordHeartbeat(ctx)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			beat()
			select {
			case <-beating.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

// signalWorkflow signals the current run of the activity's own workflow.
func signalWorkflow(ctx context.Context, t contract.ProbeTransition) error {
	err := activity.GetClient(ctx).SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", contract.SignalProbe, t)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return ErrWorkflowEnded
	}
	return err
}

// followedTargets finds the targets that can be asked, by the watches on records and pods.
type followedTargets struct {
	records   *targets.Store
	namespace *probe.Namespace
	in        Input
	spec      *v1beta1.DisruptionSpec
	// control is the control group; nil without one.
	control *targets.ControlGroup

	mu    sync.Mutex
	names map[types.UID]string
	// kept are the pods of the control group.
	kept map[types.UID]bool
}

// now are the existing pods of the records: in Before and During those that are disrupted,
// in After also those that were. The control group's pods that no disruption disrupts are
// asked in all phases.
func (f *followedTargets) now(ctx context.Context) ([]Target, error) {
	shards, err := f.records.ShardsNow(ctx, f.in.Disruption)
	if err != nil {
		return nil, err
	}
	container := ""
	if len(f.spec.Containers) > 0 {
		container = f.spec.Containers[0]
	}
	found, names := []Target(nil), map[types.UID]string{}
	for _, shard := range shards {
		for _, target := range shard.Targets {
			if !target.Active() && f.in.Phase != v1beta1.ProbeAfter {
				continue
			}
			if f.exists(target.Name, target.UID) {
				names[target.UID] = target.Name
				found = append(found, Target{UID: target.UID, Name: target.Name, Container: container})
			}
		}
	}
	kept := map[types.UID]bool{}
	if f.control != nil {
		disrupted := f.records.DisturbedNow(f.control)
		for _, pod := range f.control.Pods {
			if !disrupted[pod.UID] && f.exists(pod.Name, pod.UID) {
				names[pod.UID], kept[pod.UID] = pod.Name, true
				found = append(found, Target{UID: pod.UID, Name: pod.Name, Container: container, Control: true})
			}
		}
	}
	slices.SortFunc(found, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names, f.kept = names, kept
	return found, nil
}

// exists is true for a pod that can be asked.
func (f *followedTargets) exists(name string, uid types.UID) bool {
	pod, err := f.namespace.Pods.Get(name)
	return err == nil && pod.UID == uid && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// describe names a target as a part of a sentence.
func (f *followedTargets) describe(key probe.Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept[key.Target] {
		return ", control group " + f.names[key.Target]
	}
	if name := f.names[key.Target]; name != "" {
		return ", target " + name
	}
	return ""
}

// pod is the last known state of a target; nil if unknown.
func (f *followedTargets) pod(uid types.UID) *corev1.Pod {
	f.mu.Lock()
	name := f.names[uid]
	f.mu.Unlock()
	pod, err := f.namespace.Pods.Get(name)
	if err != nil {
		return nil
	}
	return pod
}
