// Package operate asks the driver of PodOpsLifecycle for a Disruption's targets and gives
// them back: the activities OperateTargets and EndOperations. It promises that no label of
// an operation stays on a pod without a report.
package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// Activities has the activities OperateTargets and EndOperations.
type Activities struct{ *cluster.Cluster }

// Input selects the targets that OperateTargets asks a driver for.
type Input struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	// Shards have targets that the driver has not granted yet.
	Shards []int `json:"shards"`
	// Over are the shards whose time is over: OperateTargets gives up the targets in them
	// that are not granted now.
	Over []int `json:"over,omitempty"`
}

// Result describes these targets after OperateTargets.
type Result struct {
	// Given are the shards with granted targets, if some of these have no chaos pod yet or
	// no target of the shard waits any more.
	Given []int `json:"given,omitempty"`
	// Waiting are the shards with targets that are not granted yet.
	Waiting []int `json:"waiting,omitempty"`
	// Lost counts targets that were given up.
	Lost int `json:"lost,omitempty"`
	// Again is why a request for a pod failed. The workflow retries it soon.
	Again string `json:"again,omitempty"`
	// Stopped is why the disruption may ask for no more targets. Then it asked for none.
	Stopped string `json:"stopped,omitempty"`
}

// OperateTargets takes every step of the disruption's operation that is possible now on
// each target (rules L3-L6). It begins operations, finds the pods that are granted and out
// of service, and undoes operations that take too long. A pod that is being deleted counts
// as lost. Temporal may run it again at any time.
func (a *Activities) OperateTargets(ctx context.Context, in Input) (Result, error) {
	d, err := a.Targets.LoadSpec(ctx, in.Disruption)
	if err != nil {
		return Result{}, err
	}
	if why, err := cluster.Stopped(ctx, a.Cluster, in.Disruption); why != "" || err != nil {
		return Result{Waiting: in.Shards, Stopped: why}, err
	}
	o := &operating{a: a, d: d, operation: podops.OfDisruption(d.UID), awaited: map[string]string{}}
	var done Result
	for _, number := range in.Shards {
		shard, err := a.Targets.Shard(ctx, in.Disruption, number)
		if err != nil {
			return Result{}, err
		}
		lost, err := o.shard(ctx, &shard, slices.Contains(in.Over, number))
		if err != nil {
			return Result{}, err
		}
		done.Lost += lost
		if !slices.ContainsFunc(shard.Targets, waited) {
			// An earlier worker may have created some of its chaos pods and died before its
			// result arrived. The shard counts as given again: CreateChaosPods finds the
			// existing pods.
			if slices.ContainsFunc(shard.Targets, targets.Target.MayBeDisrupted) {
				done.Given = append(done.Given, number)
			}
			continue
		}
		done.Waiting = append(done.Waiting, number)
		lacks, err := a.lackChaosPods(ctx, in.Disruption, shard)
		if err != nil {
			return Result{}, err
		}
		if lacks {
			done.Given = append(done.Given, number)
		}
	}
	done.Again = o.again
	return done, o.writeStatus(ctx)
}

func waited(t targets.Target) bool {
	return t.Active() && (t.Operation == "" || t.Operation == targets.OperationAsked)
}

// operating is one OperateTargets.
type operating struct {
	a         *Activities
	d         *v1beta1.Disruption
	operation podops.Operation
	mu        sync.Mutex
	// awaited has, by pod name, the reason why a target is not granted yet.
	awaited map[string]string
	// again is why a request for a pod failed; empty if none did.
	again string
}

// The reasons why a target is given up that was never granted.
const (
	targetNotGiven = "the pod was not given to the disruption in time: "
	notAskedFor    = "it could not be asked for: "
)

// shard takes the possible steps on the targets of one shard and writes the results into
// the shard's record. It records an event on the targets that it gives up.
func (o *operating) shard(ctx context.Context, shard *targets.Shard, over bool) (lost int, err error) {
	info := activity.GetInfo(ctx)
	self := info.WorkflowExecution.RunID + "/" + info.ActivityID
	after := slices.Clone(shard.Targets)
	errs := kube.Each(len(after), o.a.Parallel, func(i int) error {
		if !waited(after[i]) {
			return nil
		}
		return o.target(ctx, &after[i], over)
	})
	changed := false
	var ended []targets.Target
	for i := range after {
		was := shard.Targets[i]
		if after[i].Ended != was.Ended {
			after[i].EndedBy = self
		}
		if after[i].EndedBy == self {
			ended = append(ended, after[i]) // the record may have it from an earlier attempt
		}
		changed = changed || after[i].Ended != was.Ended || after[i].Operation != was.Operation
	}
	shard.Targets = after
	if changed {
		if err := o.a.Targets.Write(ctx, shard); err != nil {
			return 0, err
		}
	}
	cluster.RecordEnded(ctx, o.a.Cluster, o.d, "TargetLost", "deleted, ended or about to end", targets.Gone, ended)
	cluster.RecordEnded(ctx, o.a.Cluster, o.d, "TargetReleased", "cleaned up because another operation uses them", cluster.TargetInUse, ended)
	cluster.RecordEnded(ctx, o.a.Cluster, o.d, "TargetReleased", "cleaned up because the driver took them back", cluster.TargetTaken, ended)
	o.a.warnNotGiven(ctx, o.d, ended)
	return len(ended), cluster.FirstOf(errs, "targets could not be read")
}

// target takes the possible steps on one target. If the API server refuses a patch, the
// workflow retries: the driver's webhook may be unavailable. An error is a failed read.
func (o *operating) target(ctx context.Context, target *targets.Target, over bool) error {
	var next operationStep
	var err error
	for range 3 { // a driver may write between the read and the patch
		pod, failed := cluster.ReadPod(ctx, o.a.Cluster, o.d, *target)
		if failed != nil {
			return failed
		}
		next, err = o.decide(*target, pod, over), nil
		if next.patch != nil {
			_, err = o.a.patchTarget(ctx, o.d.Namespace, target.Name, next.patch)
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case apierrors.IsNotFound(err), AnotherPod(err):
		next = operationStep{end: targets.Gone}
	case err != nil && next.end == targets.Gone: // its labels end with it
	case err != nil && over:
		next.end = targetNotGiven + notAskedFor + err.Error()
	case err != nil:
		o.note(target.Name, notAskedFor+err.Error(), err.Error())
		return nil
	}
	if next.end != "" {
		target.End(targets.Ending{Why: next.end, Lost: next.end == targets.Gone, NeverInjected: next.again}, "")
		return nil
	}
	if next.waits != "" {
		o.note(target.Name, next.waits, "")
	}
	target.Operation = next.state
	return nil
}

func (o *operating) note(name, awaits, again string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited[name] = awaits
	if again != "" {
		o.again = "pod " + name + ": " + again
	}
}

// operationStep is the next step on one target: the new state in its record, and the patch
// for its pod.
type operationStep struct {
	state targets.OperationState
	// end is why the target is given up; waits is why it is not granted yet.
	end, waits string
	patch      []byte
	// again is true for a target that is given up and may be chosen again.
	again bool
}

// decide chooses the next step on a target. pod is nil when it is gone.
func (o *operating) decide(target targets.Target, pod *corev1.Pod, over bool) operationStep {
	if pod == nil {
		return operationStep{end: targets.Gone}
	}
	if pod.DeletionTimestamp != nil {
		return operationStep{end: targets.Gone, patch: o.operation.End(pod)}
	}
	if why := o.operation.Busy(pod); why != "" && o.d.Spec.ReleasesOnOperation() {
		return operationStep{end: cluster.TargetInUse + why, patch: o.operation.End(pod)}
	}
	asked := target.Operation == targets.OperationAsked
	if label := o.operation.Missing(pod); label != "" && asked && podops.Managed(pod) {
		return operationStep{end: cluster.TargetTaken + "its label " + label + " is gone", patch: o.operation.End(pod)}
	}
	switch o.operation.Next(pod) {
	case podops.StepOperate:
		return operationStep{state: targets.OperationGiven, patch: o.protection(pod)}
	case podops.StepUnmanaged:
		if asked {
			return operationStep{end: cluster.TargetTaken + "no driver manages it any more", patch: o.operation.End(pod)}
		}
		return operationStep{state: targets.OperationUnmanaged}
	case podops.StepBegin:
		if !over {
			return operationStep{state: targets.OperationAsked, patch: o.operation.Begin(pod.UID, time.Now()), waits: "it was asked for just now"}
		}
		// The driver's webhook was unavailable, which does not use up the target.
		return operationStep{end: targetNotGiven + notAskedFor + "each write to it failed", again: true}
	}
	if over {
		return operationStep{end: targetNotGiven + o.operation.Awaits(pod), patch: o.operation.End(pod)}
	}
	return operationStep{state: targets.OperationAsked, waits: o.operation.Awaits(pod)}
}

// protection is the patch that protects a granted pod from others. It is nil when the spec
// does not ask for that, or the pod has it. The protection ends after the disruption, which
// cleans up before.
func (o *operating) protection(pod *corev1.Pod) []byte {
	if !o.d.Spec.ProtectsTargets() {
		return nil
	}
	limit := o.d.Spec.ProtectionTimeout()
	return o.operation.Protect(pod, o.d.Spec.Expiry(o.d.CreationTimestamp.Time).Add(limit), limit)
}

// writeStatus writes into status how many targets are granted, and why the others are not.
func (o *operating) writeStatus(ctx context.Context) error {
	shards, err := o.a.Targets.Shards(ctx, o.d.Ref())
	if err != nil {
		return err
	}
	given, active := 0, targets.Active(shards)
	for _, target := range active {
		if target.MayBeDisrupted() {
			given++
		}
	}
	shown := status.Operation{Given: given == len(active) && given > 0, Reason: "Given", Message: fmt.Sprintf("%d of %d targets are granted", given, len(active))}
	if !shown.Given {
		shown.Reason = "Waiting"
		var waits []string
		for name, why := range o.awaited {
			waits = append(waits, name+": "+why)
		}
		slices.Sort(waits)
		if len(waits) > 0 {
			shown.Message += "; waiting for " + strings.Join(waits[:min(len(waits), 5)], "; ")
		}
	}
	if len(active) == 0 {
		shown.Reason, shown.Message = "NotGiven", "no target may be disrupted any more; see the event TargetNotGiven or TargetReleased"
	}
	return o.a.Disruptions.UpdateStatus(ctx, o.d.Ref(), cluster.Planned(ctx, o.d, func(live *v1beta1.Disruption) { status.ShowOperation(live, shown) }))
}

// warnNotGiven records a warning with the targets that were not granted in time.
func (a *Activities) warnNotGiven(ctx context.Context, d *v1beta1.Disruption, ended []targets.Target) {
	var names []string
	for _, target := range ended {
		if why, found := strings.CutPrefix(target.Ended, targetNotGiven); found {
			names = append(names, target.Name+": "+why)
		}
	}
	if len(names) > 0 {
		cluster.Events(a.Kube).Warn(ctx, d, "TargetNotGiven", fmt.Sprintf("cleaned up targets that were not granted within %s (podOpsLifecycle.operatingTimeoutSeconds): %d (%s)",
			d.Spec.OperatingTimeout(), len(names), cluster.ShortList(names)), strings.Join(names, ",")+ended[0].EndedBy)
	}
}

func (a *Activities) patchTarget(ctx context.Context, namespace, name string, patch []byte) (*corev1.Pod, error) {
	return a.Kube.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// AnotherPod is true if a patch failed because the name now has another pod: a UID cannot
// change.
func AnotherPod(err error) bool {
	var refused apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &refused) || refused.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(refused.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// lackChaosPods is true when a target of the shard may be disrupted and has no chaos pod.
func (a *Activities) lackChaosPods(ctx context.Context, ref v1beta1.DisruptionRef, shard targets.Shard) (bool, error) {
	if !slices.ContainsFunc(shard.Targets, targets.Target.MayBeDisrupted) {
		return false, nil
	}
	pods, err := cluster.ListChaosPods(ctx, a.Cluster, chaospod.Shard{Disruption: ref, Number: shard.Number})
	if err != nil {
		return false, err
	}
	has := map[types.UID]bool{}
	for i := range pods {
		has[chaospod.TargetUID(&pods[i])] = true
	}
	return slices.ContainsFunc(shard.Targets, func(t targets.Target) bool { return t.MayBeDisrupted() && !has[t.UID] }), nil
}
