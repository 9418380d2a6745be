package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/objects"
	"github.com/squall-chaos/squall/test/poll"
	"github.com/squall-chaos/squall/test/world"
)

// work is one workload: a disruption and what a person does meanwhile.
type work struct {
	name    string
	targets int
	faults  v1beta1.Faults
	// node is a disruption of the node bignode, its only target.
	node bool
	// expires is a disruption that ends by itself.
	expires bool
	// fails is a node on which nothing can be cleaned until a person repairs it.
	fails bool
	// operates is one that is an operation on its targets, which the bridge's driver
	// moves, and keeps others from them; served are targets that are never given.
	operates, served bool
	// replaces is pod replacement: the targets have nodes and an owner that replaces them.
	replaces bool
	// starts is a disruption of pods before they start, by onInit.
	starts bool
	// makesNodes is a disruption of nodes that its begins creates.
	makesNodes bool
	// twoBridges is one with so many, of which points are those of the one that acts.
	twoBridges bool
	// guarded is one with a probe, which asks whether the pod called guard is ready.
	guarded bool
	// long is one of those of which a sample has one, chosen by the seed.
	long bool
	// many is one of many targets, of whose points some of each class are tried, and whose
	// workflow goes on in a new run as soon as it may.
	many bool
	// rested is one whose points before it rests are those of other workloads.
	rested bool
	// about has parts of the names of the points that count; nil: all points do.
	about []string
	// lost is one that a sweep ends, while no bridge runs: points are those of the worker.
	lost bool
	// begins is the part before that of a person; nil: the disruption is created, and
	// all targets are injected.
	begins func(*run) error
	// play is a person's part.
	play func(*run) error
}

// How long a disruption lasts that expires: one that is disturbed before all is
// injected, longer than any recovery, so that it is injected all the same.
const (
	shortly    = 20 * time.Second
	longEnough = 90 * time.Second
)

var workloads = []work{
	{name: "container-failure", targets: 1, faults: v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}}, play: (*run).deleted},
	{name: "cpu-pressure", targets: 2, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, play: (*run).deleted},
	{name: "disk-pressure", targets: 1, faults: v1beta1.Faults{DiskPressure: &v1beta1.DiskPressure{Path: "/"}}, expires: true, play: (*run).over},
	{name: "network", targets: 1, faults: v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 30}}, play: (*run).deleted},
	{name: "a node", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, node: true, play: (*run).deleted},
	{name: "a target dies", targets: 3, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}, Network: &v1beta1.NetworkDisruption{Drop: 30}}, play: (*run).targetDies},
	{name: "stuck", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, fails: true, play: (*run).stuckAndResumed},
	{name: "an operation", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, operates: true, play: (*run).ended},
	{name: "an operation undone", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, operates: true, served: true, begins: (*run).prepared, play: (*run).deleted},
	{name: "two bridges", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, twoBridges: true, long: true, play: (*run).deleted},
	{name: "a cron", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, begins: (*run).cronRuns, long: true, play: (*run).runDeleted},
	{name: "a release", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, begins: (*run).releaseRuns, long: true, play: (*run).releaseDeleted},
	{name: "a scenario", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, begins: (*run).firstStepRuns, long: true, play: (*run).secondStepRuns},
	{name: "an emergency stop", targets: 2, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, rested: true, play: (*run).stopped},
	{name: "a sweep", targets: 1, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, node: true, lost: true, rested: true, long: true, play: (*run).allLost},
	{name: "many targets", targets: large, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, many: true, long: true, play: (*run).oneDiesOfMany},
	{name: "a replacement", targets: 2, faults: replacement, replaces: true, long: true, begins: (*run).replaced, play: (*run).deleted},
	{name: "a service", targets: 1, faults: network, long: true, begins: (*run).serviceDisrupted, play: (*run).serviceChanges},
	{name: "a start", targets: 1, faults: v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 30}}, starts: true, long: true, begins: (*run).startDisrupted, play: (*run).started},
	{name: "limits", targets: 3, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, long: true, about: []string{person, "poddisruptionbudgets", "disruptionpolicies"}, begins: (*run).limited, play: (*run).limitsEnd},
	{name: "a node comes", targets: 2, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, makesNodes: true, long: true, about: []string{person, " nodes"}, begins: (*run).firstNodeDisrupted, play: (*run).secondNodeComes},
	{name: "a probe aborts", targets: 2, faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, guarded: true, long: true, play: (*run).probeAborts},
}

// run is a workload under way in a slot.
type run struct {
	*slot
	work
	saw *witness
	ctx context.Context
	// fault is what disturbs it; nil: nothing.
	fault *fault
	// before are the disruptions of runs before this one.
	before map[types.UID]bool
	// lasts is the disruption's duration.
	lasts time.Duration
	// logged is the length of the worker's log before it.
	logged int
	// d is the disruption, or that of all which began last.
	d   *v1beta1.Disruption
	all []*v1beta1.Disruption
	// parent has d begun; nil: the person does. parentStatus is its last one, that of
	// the stop that ended d, or how the sweep after it ended.
	parent       client.Object
	parentStatus any
	// stopPlaying ends the controllers that the run plays; nil: none.
	stopPlaying func()
}

// patience is how long one step of a run may take. It is more than two of the
// longest time-outs of the workflow's activities, which are a minute.
const patience = 150 * time.Second

// until waits for a condition; if it does not come to hold, the error names it.
func (r *run) until(what string, holds func() bool) error {
	return r.untilWithin(patience, what, holds)
}

func (r *run) untilWithin(patience time.Duration, what string, holds func() bool) error {
	if err := poll.Until(r.ctx, patience, holds); err != nil {
		return fmt.Errorf("%w: %s; status %+v, steady state %+v", err, what, r.d.Status, r.d.Status.SteadyState)
	}
	return nil
}

// whole is the life of the workload from the first target to the last trace.
func (r *run) whole() error {
	defer func() {
		if r.stopPlaying != nil {
			r.stopPlaying()
		}
	}()
	if err := r.makeTargets(); err != nil {
		return err
	}
	begins := r.begins
	if begins == nil {
		begins = (*run).disrupted
	}
	if err := begins(r); err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	r.current.rest()
	if err := r.play(r); err != nil {
		return err
	}
	if err := r.completed(); err != nil {
		return err
	}
	if r.operates {
		if err := r.inService(); err != nil {
			return err
		}
	}
	return r.quiet()
}

// disrupted is a disruption of which all targets are injected and have an event.
func (r *run) disrupted() error {
	if err := r.create(); err != nil {
		return err
	}
	return r.allDisrupted()
}

// allDisrupted waits until all events of the beginning are recorded. One activity creates
// chaos pods and another one watches them, so either may record the last event.
func (r *run) allDisrupted() error {
	if err := r.injected(r.targets); err != nil {
		return err
	}
	err := r.untilRecorded(1, "the event that its chaos pods are created", func(event string) bool {
		return strings.HasPrefix(event, "Disruption "+r.d.Name+": Normal ChaosPodCreated: ")
	})
	if err != nil {
		return err
	}
	return r.targetsRecorded()
}

// create makes the disruption, and stores its names.
func (r *run) create() error {
	d := r.disruption()
	if err := r.world.Disruptions.Create(r.ctx, d); err != nil {
		return err
	}
	r.knows(d)
	return nil
}

// knows goes on with a disruption that has begun.
func (r *run) knows(d *v1beta1.Disruption) {
	r.current.names.made(d)
	r.d, r.all = d, append(r.all, d)
}

func (r *run) disruption() *v1beta1.Disruption {
	d := objects.Disruption(r.shop, "it", intstr.FromString("100%"))
	d.Spec.Duration.Duration, d.Spec.Faults, d.Spec.UnsafeMode = r.lasts, r.faults, &v1beta1.UnsafeMode{DisableAll: true}
	if r.guarded {
		d.Spec.SteadyState = steadyState()
	}
	if r.operates {
		d.Spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsJoined, ProtectTargets: true}
	}
	d.Spec.OnInit = r.starts
	if r.node {
		d.Spec.Level, d.Spec.Selector = v1beta1.LevelNode, map[string]string{corev1.LabelHostname: bigNode}
	}
	return d
}

// guard is the pod, and the label of it, whose readiness is the steady state.
const guard = "guard"

// steadyState has one probe in all phases. Two failures end the disruption. A probe that
// gets no answer ends it only after a minute and more, which is longer than any recovery:
// its time-out counts for that, and its handler needs none.
func steadyState() *v1beta1.SteadyState {
	return &v1beta1.SteadyState{
		GateTimeoutSeconds: int32(patience.Seconds()), RecoveryTimeoutSeconds: int32(patience.Seconds()),
		Probes: []v1beta1.Probe{{
			Name: "shop", PeriodSeconds: 1, FailureThreshold: 2, TimeoutSeconds: 50,
			ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": guard}}},
		}},
	}
}

// makeTargets makes pods of fixed names, so that what is about them is named
// alike in every run.
func (r *run) makeTargets() error {
	switch {
	case r.node:
		return r.nameNode()
	case r.replaces:
		return r.makeReplicas()
	case r.starts, r.makesNodes:
		return nil // the pods and nodes come while the disruption waits for them
	}
	for i := range r.targets {
		if err := r.makePod(fmt.Sprintf("web-%d", i), "web", fmt.Sprintf("node-%d", i)); err != nil {
			return err
		}
	}
	if r.guarded {
		if err := r.makePod(guard, guard, "node-0"); err != nil {
			return err
		}
	}
	if r.operates {
		return r.inService()
	}
	return r.until("the targets run", func() bool { return r.world.Kubelets.Ready(r.shop) == r.pods() })
}

// bigNode is the one node of which there is an object. All slots share it, and their
// programs see it from the beginning.
const bigNode = "bignode"

func makeNode(w *world.World) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: bigNode, Labels: map[string]string{corev1.LabelHostname: bigNode, labelSlot: allSlots}}}
	made, err := w.Kube.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	w.Must(err)
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = w.Kube.CoreV1().Nodes().UpdateStatus(w.Context(), made, metav1.UpdateOptions{})
	w.Must(err)
}

// nameNode stores the node's UID, which differs in each run of the test.
func (r *run) nameNode() error {
	node, err := r.world.Kube.CoreV1().Nodes().Get(r.ctx, bigNode, metav1.GetOptions{})
	if err == nil {
		r.current.names.know(string(node.UID), bigNode)
	}
	return err
}

func (r *run) makePod(name, app, node string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
	if r.operates {
		r.optIn(pod)
	}
	made, err := r.world.Kube.CoreV1().Pods(r.shop).Create(r.ctx, pod, metav1.CreateOptions{})
	if err == nil {
		r.current.names.know(string(made.UID), made.Name)
	}
	return err
}

// pods is how many there are of the run in its namespace.
func (r *run) pods() int {
	if r.guarded {
		return r.targets + 1
	}
	return r.targets
}

// see brings d up to date; false when it is gone. The last that was seen stays.
func (r *run) see() bool { return r.world.See(r.d) }

// injected waits until the status and an event show it. The end of a disruption must not
// come before all events of its beginning, or the events would depend on how long a recovery
// takes.
func (r *run) injected(n int) error {
	if err := r.statusInjected(n); err != nil {
		return err
	}
	want := fmt.Sprintf("%d/%[1]d", n)
	injected := fmt.Sprintf("Disruption %s: Normal Injected: all %d targets are injected", r.d.Name, n)
	return r.untilRecorded(1, "the event that it is injected, "+want, func(event string) bool { return event == injected })
}

func (r *run) statusInjected(n int) error {
	return r.until(fmt.Sprintf("injected, %d/%[1]d", n), func() bool {
		return r.see() && r.d.Status.InjectionStatus == v1beta1.Injected && r.d.Status.InjectedTargetsCount == n && r.d.Status.SelectedTargetsCount == n
	})
}

// targetsRecorded waits until every target has the event that it is disrupted, as injected does.
func (r *run) targetsRecorded() error {
	if r.node || r.makesNodes {
		return nil // events on nodes are in a namespace that all slots share
	}
	return r.untilRecorded(r.targets*len(r.all), "every target has the event that it is disrupted", func(event string) bool {
		return strings.HasPrefix(event, "Pod ") && strings.Contains(event, ": Normal Disrupted: ")
	})
}

// completed waits for the ends of all workflows, which follow those of what they are of.
func (r *run) completed() error {
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	for _, d := range r.all {
		if err := r.temporal.GetWorkflow(ctx, world.WorkflowOf(d), "").Get(ctx, nil); err != nil {
			return fmt.Errorf("the workflow of %s did not complete: %w", d.Name, err)
		}
	}
	_, err := r.parentWorkflows()
	return err
}

// quiet waits until the programs make no calls any more.
func (r *run) quiet() error {
	last, since := -1, time.Now()
	return r.until("the programs are quiet", func() bool {
		if now := r.current.total(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// leave deletes what the run made, so that the next run finds the slot empty.
func (r *run) leave() error {
	if err := r.leaveParent(); err != nil {
		return err
	}
	for _, d := range r.all {
		if err := client.IgnoreNotFound(r.world.Disruptions.Delete(r.ctx, d)); err != nil {
			return err
		}
	}
	pods, err := r.world.Kube.CoreV1().Pods(r.shop).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		err := r.world.Kube.CoreV1().Pods(r.shop).Delete(r.ctx, pod.Name, metav1.DeleteOptions{})
		if err == nil && r.served {
			err = r.removeTraffic(pod.Name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if err := errors.Join(r.leaveNodes(), r.leaveClaims(), r.leaveService(), r.leaveLimits()); err != nil {
		return err
	}
	if err := r.world.Kube.CoreV1().Events(r.shop).DeleteCollection(r.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return r.until("the slot is empty", func() bool { return r.world.Kubelets.There(r.shop) == 0 && !r.see() })
}
