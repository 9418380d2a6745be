package matrix

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
)

// outcome is all that must be the same however a run was disturbed, in a form that does
// not depend on the run.
type outcome struct {
	// Left is what carries our marks in the API: chaos pods, records, finalizers.
	Left []string
	// Disruptions are all that there were, in the order in which they began.
	Disruptions []end
	// Parent is the last status of what has them begun, of the stop that ended them, or of
	// the sweep that found what they had left, and Workflows are its own.
	Parent    any
	Workflows []string
	Events    []string
	// Played is what the kubelets ran, and how it ended.
	Played []string
}

// end is that of one disruption.
type end struct {
	Name string
	// Status is its last one, and Gone whether it was deleted.
	Gone   bool
	Status v1beta1.DisruptionStatus
	// Workflow is the number of executions for the UID, and the result.
	Workflow string
}

// witness sees what the API does not keep: the last state of Disruptions that
// are gone, and what kubelets ran.
type witness struct {
	mu     sync.Mutex
	order  []types.UID // as they were seen first
	last   map[types.UID]*v1beta1.Disruption
	gone   map[types.UID]bool
	played map[types.UID]map[types.UID]string // by disruption and chaos pod
	fails  map[string]bool                    // chaos namespaces
	marks  map[string][]v1beta1.Mark          // what bignode carries, by chaos namespace
}

func newWitness(w *world.World) *witness {
	w.Helper()
	see := &witness{
		last: map[types.UID]*v1beta1.Disruption{}, gone: map[types.UID]bool{},
		played: map[types.UID]map[types.UID]string{}, fails: map[string]bool{}, marks: map[string][]v1beta1.Mark{},
	}
	w.Kubelets.Exits(see.exit)
	scheme := runtime.NewScheme()
	w.Must(v1beta1.AddToScheme(scheme))
	watch, err := cache.New(w.API, cache.Options{Scheme: scheme})
	w.Must(err)
	informer, err := watch.GetInformer(w.Context(), &v1beta1.Disruption{}, cache.BlockUntilSynced(false))
	w.Must(err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see.note(o, false) },
		UpdateFunc: func(_, o any) { see.note(o, false) },
		DeleteFunc: func(o any) { see.note(o, true) },
	})
	w.Must(err)
	go func() { _ = watch.Start(w.Context()) }()
	return see
}

func (w *witness) note(object any, gone bool) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	d, ok := object.(*v1beta1.Disruption)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last[d.UID] == nil {
		w.order = append(w.order, d.UID)
	}
	w.last[d.UID], w.gone[d.UID] = d.DeepCopy(), gone
}

// failing decides whether the pods of a chaos namespace fail to clean.
func (w *witness) failing(chaos string, fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails[chaos] = fails
}

// exit records that a pod was run, and returns how it ends.
func (w *witness) exit(pod *corev1.Pod) (e world.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod.Labels[v1beta1.LabelSweep] != "" {
		e, w.marks[pod.Namespace] = world.Swept(pod, w.marks[pod.Namespace])
		return e
	}
	uid := types.UID(pod.Labels[v1beta1.LabelDisruptionUID])
	if uid == "" {
		return world.Exit{}
	}
	e = world.Clean(pod)
	if w.fails[pod.Namespace] {
		e = world.Exit{Code: 1, Message: `{"injected":true,"cleaned":false,"error":"the disk is read-only"}`}
	}
	if w.played[uid] == nil {
		w.played[uid] = map[types.UID]string{}
	}
	container := pod.Spec.Containers[0]
	ran := fmt.Sprintf("%s on %s: %s", pod.Name, pod.Spec.NodeName, strings.Join(container.Args, " "))
	for _, variable := range container.Env {
		ran += "\n" + variable.Name + "=" + variable.Value
	}
	if hosts := pod.Annotations[v1beta1.AnnotationResolvedHosts]; hosts != "" {
		ran += "\nresolved hosts " + hosts
	}
	switch cleaner := pod.Labels[v1beta1.LabelCleaner] != ""; {
	case e.Code == 0:
		ran += "\ncleaned"
	case cleaner:
		ran += "\na cleaner that failed"
	default:
		ran += "\nfailed to clean"
	}
	w.played[uid][pod.UID] = ran
	return e
}

// seen are the disruptions that there were in a namespace beside those that were known
// before, and what kubelets ran for them.
func (w *witness) seen(namespace string, before map[types.UID]bool) (ends []end, uids []types.UID, played []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range w.order {
		last := w.last[uid]
		if last.Namespace != namespace || before[uid] {
			continue
		}
		uids = append(uids, uid)
		ends = append(ends, end{Name: last.Name, Gone: w.gone[uid], Status: *last.Status.DeepCopy()})
		for _, ran := range w.played[uid] {
			played = append(played, ran)
		}
	}
	return ends, uids, played
}

// known are the disruptions that there were in a namespace up to now.
func (w *witness) known(namespace string) map[types.UID]bool {
	_, uids, _ := w.seen(namespace, nil)
	known := map[types.UID]bool{}
	for _, uid := range uids {
		known[uid] = true
	}
	return known
}

// outcome looks at the end of a run.
func (r *run) outcome() (account, error) {
	ends, uids, played := r.saw.seen(r.shop, r.before)
	if len(ends) == 0 {
		return account{}, fmt.Errorf("nobody saw the disruption %s", r.d.UID)
	}
	o := outcome{Disruptions: ends, Parent: r.parentStatus, Played: played}
	var err error
	if o.Left, err = r.left(); err != nil {
		return account{}, err
	}
	if o.Events, err = r.events(); err != nil {
		return account{}, err
	}
	if o.Workflows, err = r.parentWorkflows(); err != nil {
		return account{}, err
	}
	for i := range ends {
		if ends[i].Workflow, err = r.workflows(ends[i].Name, uids[i]); err != nil {
			return account{}, err
		}
		r.settle(&ends[i].Status)
	}
	return r.canonical(o)
}

// settle removes from a status the parts that may differ.
func (r *run) settle(s *v1beta1.DisruptionStatus) {
	if r.expires {
		s.SpecHash = "" // of a spec whose duration is not always the same
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool {
		// Temporal may be slow for a moment in any run, and a target may or may not be in
		// service again when its disruption is deleted.
		return c.Type == v1beta1.ConditionOrchestrated && c.Reason != "WorkflowEnded" || c.Type == v1beta1.ConditionOperating && r.served
	})
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// left lists what carries our marks.
func (r *run) left() (found []string, err error) {
	found, err = promise.Cluster{Kube: r.world.Kube, Chaos: r.chaos, Shop: r.shop}.Left(r.ctx)
	if err != nil {
		return nil, err
	}
	targets, err := r.world.Kube.CoreV1().Pods(r.shop).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, pod := range targets.Items {
		found = append(found, traces(&pod))
	}
	more, err := r.leftByReplacement()
	if err != nil {
		return nil, err
	}
	found = append(found, more...)
	for _, mark := range r.saw.marked(r.chaos) {
		found = append(found, "on the node: "+mark.Object)
	}
	return found, nil
}

// events are the recorded events, with each that is recorded twice.
func (r *run) events() (recorded []string, err error) {
	events, err := r.world.Kube.CoreV1().Events(r.shop).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range events.Items {
		switch e.Reason {
		case "Chosen": // recorded if nothing is injected for two seconds: a long recovery has it
			continue
		case "NotInService": // no program waits for it when the disruption is deleted: a race
			if r.served {
				continue
			}
		case "ProbeFailed": // each worker process records its own, and its watch may be late
			continue
		case "Stopping": // the bridge and the worker both end the runs of a deleted scenario
			continue
		}
		if e.Reason == "Replaced" { // the order in which the targets were chosen, which is random
			e.Message = strings.Replace(e.Message, "web-1, web-0", "web-0, web-1", 1)
		}
		recorded = append(recorded, fmt.Sprintf("%s %s: %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason, e.Message))
	}
	return recorded, nil
}

// workflows is the number of executions and the result of the last one. Runs that went
// on in another one count once.
func (r *run) workflows(name string, uid types.UID) (string, error) {
	id := contract.WorkflowID(v1beta1.DisruptionRef{Namespace: r.shop, Name: name, UID: uid})
	chains, goesOn := 0, false
	err := r.until("Temporal lists the workflow", func() bool { // which it does a moment later
		answer, err := r.temporal.ListWorkflow(r.ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = %q", id),
		})
		chains, goesOn = 0, false
		for _, execution := range answer.GetExecutions() {
			switch execution.GetStatus() {
			case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
				goesOn = true
			case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
			default:
				chains++
			}
		}
		return err == nil && chains > 0 && !goesOn
	})
	if err != nil {
		return "", err
	}
	var result disruption.Result
	if err := r.temporal.GetWorkflow(r.ctx, id, "").Get(r.ctx, &result); err != nil {
		return "", err
	}
	if r.served {
		result.Summary, _, _ = strings.Cut(result.Summary, ". Not in service: ")
	}
	text, err := json.Marshal(result)
	return fmt.Sprintf("%d in all, the last ended with %s", chains, text), err
}

var (
	// The time that remains to a deadline follows from when a chaos pod was made.
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|"remaining":"[^"]+"`)
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// canonical is an outcome without what differs from run to run.
func (r *run) canonical(o outcome) (account, error) {
	for _, list := range [][]string{o.Left, o.Events, o.Workflows, o.Played} {
		for i := range list {
			list[i] = r.stable(list[i])
		}
		slices.Sort(list)
	}
	// A stuck disruption records an event at each retry, and a cleaner that failed may be
	// retried any number of times.
	o.Events = slices.CompactFunc(o.Events, func(a, b string) bool { return a == b && strings.Contains(a, "StuckOnRemoval") })
	o.Played = slices.CompactFunc(o.Played, func(a, b string) bool { return a == b && strings.HasSuffix(a, "a cleaner that failed") })
	if r.node {
		// Where an injector's report was lost with the worker that read it, its node is
		// audited, if there is one.
		o.Played = slices.DeleteFunc(o.Played, func(played string) bool { return strings.Contains(played, ": audit --disruption ") })
	}
	if r.lost {
		o.Played = nil // a kubelet may see a pod that is deleted by force end, or not any more
	}
	events := o.Events
	o.Events = nil
	text, err := yaml.Marshal(o)
	return account{r.stable(string(text)), events}, err
}

// stable is a text without times, and with the names of every run.
func (r *run) stable(text string) string {
	text = r.current.names.replace(text)
	text = strings.NewReplacer(r.shop, "SHOP", r.chaos, "CHAOS").Replace(text)
	return uuids.ReplaceAllString(times.ReplaceAllString(text, "TIME"), "UUID")
}
