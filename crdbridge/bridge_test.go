package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

const mutationDetector = "KUBE_CACHE_MUTATION_DETECTOR"

// TestMain runs the suite with client-go's mutation detector. client-go reads
// the variable while it is initialised, so setting it here is too late for this
// process: it becomes the same process with the variable (I8).
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	if os.Getenv(mutationDetector) == "" {
		environment := append(os.Environ(), mutationDetector+"=true")
		err := syscall.Exec("/proc/self/exe", os.Args, environment)
		fmt.Fprintln(os.Stderr, "start again with the mutation detector:", err)
		os.Exit(1)
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

// bridge is a running bridge, the API server it works on and a Temporal that
// records what it is told.
type bridge struct {
	t         *testing.T
	kube      client.Client // not the bridge's: an administrator's, without a cache
	namespace string
	config    Config
	temporal  *recorder
	traffic   *traffic
	manager   manager.Manager
	options   func(*manager.Options)
	stop      func() error
}

// newBridge makes a namespace of its own for t and a bridge that does not run yet.
func newBridge(t *testing.T) *bridge {
	t.Helper()
	config := apiserver.Start(t)
	b := &bridge{t: t, config: defaults(), temporal: newRecorder(), traffic: newTraffic(), options: func(*manager.Options) {}}
	b.kube = administrator(t, config)
	b.namespace = b.newNamespace("test-")
	b.config.ChaosNamespace = b.newNamespace("chaos-")
	b.config.HealthAddress, b.config.MetricsAddress, b.config.LeaderElection = "0", "0", false
	t.Cleanup(b.sweep)
	return b
}

func administrator(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// start runs the bridge until the test ends or stop is called.
func (b *bridge) start() *bridge {
	b.t.Helper()
	options, err := managerOptions(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	options.Logger = zapr.NewLogger(zaptest.NewLogger(b.t, zaptest.Level(zapcore.DPanicLevel)))
	b.options(&options)
	config := apiserver.Start(b.t)
	config.Wrap(b.traffic.wrap)
	b.manager, err = assemble(b.config, config, options, b.temporal, prometheus.NewRegistry())
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.manager.Start(ctx) }()
	var once sync.Once
	var result error
	b.stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	b.t.Cleanup(func() {
		if err := b.stop(); err != nil {
			b.t.Errorf("the bridge stopped with %v", err)
		}
	})
	return b
}

func (b *bridge) newNamespace(prefix string) string {
	b.t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	b.must(b.kube.Create(b.t.Context(), n))
	return n.Name
}

// sweep takes the finalizers off, so that later bridges find nothing of t's.
func (b *bridge) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var list v1beta1.DisruptionList
	if err := b.kube.List(ctx, &list, client.InNamespace(b.namespace)); err != nil {
		b.t.Errorf("sweep: %v", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		_ = b.kube.Delete(ctx, d)
		_ = b.kube.Patch(ctx, d, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	now := client.GracePeriodSeconds(0)
	_ = b.kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(b.namespace), now)
	_ = b.kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(b.config.ChaosNamespace), now)
}

func (b *bridge) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// disrupt creates a Disruption of the pods labelled app=shop, whose workflow
// found none of them to disrupt.
func (b *bridge) disrupt(name string, change ...func(*v1beta1.Disruption)) *v1beta1.Disruption {
	b.t.Helper()
	d := b.create(name, change...)
	b.chose(d, 0, 0)
	return d
}

// create is disrupt before the workflow has looked for targets.
func (b *bridge) create(name string, change ...func(*v1beta1.Disruption)) *v1beta1.Disruption {
	b.t.Helper()
	one := intstr.FromInt32(1)
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		Spec: v1beta1.DisruptionSpec{
			Faults:   v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}},
			Level:    v1beta1.LevelPod,
			Count:    &one,
			Selector: map[string]string{"app": "shop"},
			Duration: &v1beta1.Duration{Duration: time.Minute},
		},
	}
	for _, c := range change {
		c(d)
	}
	b.must(b.kube.Create(b.t.Context(), d))
	return d
}

// chose says in status, as the workflow does, how many targets it chose and
// how many more there were.
func (b *bridge) chose(d *v1beta1.Disruption, selected, ignored int) {
	b.t.Helper()
	patch := fmt.Sprintf(`{"status":{"desiredTargetsCount":%d,"selectedTargetsCount":%d,"ignoredTargetsCount":%d,
		"conditions":[{"type":"TargetsSelected","status":"True","reason":"Selected","message":"","lastTransitionTime":"2026-11-20T12:00:00Z"}]}}`, selected, selected, ignored)
	b.must(b.kube.Status().Patch(b.t.Context(), d.DeepCopy(), client.RawPatch(mergePatch, []byte(patch))))
}

// pod creates a pod in namespace and makes it run, as a kubelet would.
func (b *bridge) pod(namespace, name string, labels map[string]string) *corev1.Pod {
	b.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	b.must(b.kube.Create(b.t.Context(), p))
	b.setPhase(p, corev1.PodRunning)
	return p
}

// chaosPod is a running chaos pod of d, with the finalizer every one has.
func (b *bridge) chaosPod(d *v1beta1.Disruption, name string, target *corev1.Pod) *corev1.Pod {
	b.t.Helper()
	p := b.pod(b.config.ChaosNamespace, name, map[string]string{
		v1beta1.LabelDisruptionUID: string(d.UID), v1beta1.LabelTargetUID: string(target.UID),
		v1beta1.LabelDisruptionNamespace: d.Namespace, v1beta1.LabelDisruptionName: d.Name,
	})
	b.must(b.kube.Patch(b.t.Context(), p, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":["`+v1beta1.ChaosPodFinalizer+`"]}}`))))
	b.t.Cleanup(func() {
		_ = b.kube.Patch(context.Background(), p, client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return p
}

func (b *bridge) setPhase(p *corev1.Pod, phase corev1.PodPhase) {
	b.t.Helper()
	p.Status.Phase = phase
	b.must(b.kube.Status().Update(b.t.Context(), p))
}

func (b *bridge) get(d *v1beta1.Disruption) *v1beta1.Disruption {
	b.t.Helper()
	got := &v1beta1.Disruption{}
	b.must(b.kube.Get(b.t.Context(), client.ObjectKeyFromObject(d), got))
	return got
}

// told waits until the workflow of d was started and told what it must know.
func (b *bridge) told(d *v1beta1.Disruption) {
	b.t.Helper()
	eventually(b.t, soon, "the workflow is started and told", func() bool {
		return b.temporal.starts(d) > 0 && len(b.temporal.signals(d, contract.SignalObserved)) > 0
	})
}

// recorder is a Temporal that remembers what it was told.
type recorder struct {
	mu      sync.Mutex
	started map[string][]temporalclient.StartWorkflowOptions
	inputs  map[string]contract.Input
	sent    map[string][]signal
	calls   []time.Time
	busy    map[string]int
	// gone are the runs that somebody terminated, by workflow.
	gone   map[string]string
	listed int
	// overlap is true once two calls for one workflow ran at the same time.
	overlap bool
	// answer is asked before anything is recorded: nil means yes.
	answer func(ctx context.Context, call string) error
}

type signal struct {
	name string
	arg  any
	at   time.Time
}

func newRecorder() *recorder {
	return &recorder{
		started: map[string][]temporalclient.StartWorkflowOptions{},
		inputs:  map[string]contract.Input{},
		sent:    map[string][]signal{},
		busy:    map[string]int{},
		answer:  func(context.Context, string) error { return nil },
	}
}

func (r *recorder) ExecuteWorkflow(ctx context.Context, o temporalclient.StartWorkflowOptions, _ any, args ...any) (temporalclient.WorkflowRun, error) {
	return nil, r.call(ctx, o.ID, "start", func() {
		r.started[o.ID] = append(r.started[o.ID], o)
		r.inputs[o.ID], _ = args[0].(contract.Input)
	})
}

func (r *recorder) SignalWorkflow(ctx context.Context, id, _, name string, arg any) error {
	return r.call(ctx, id, name, func() { r.sent[id] = append(r.sent[id], signal{name, arg, time.Now()}) })
}

func (r *recorder) CheckHealth(ctx context.Context, _ *temporalclient.CheckHealthRequest) (*temporalclient.CheckHealthResponse, error) {
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	return &temporalclient.CheckHealthResponse{}, answer(ctx, "health")
}

// ListWorkflow knows of the workflows in gone and counts how often it is asked.
func (r *recorder) ListWorkflow(ctx context.Context, _ *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed++
	answer := &workflowservice.ListWorkflowExecutionsResponse{}
	for id, run := range r.gone {
		answer.Executions = append(answer.Executions, &workflow.WorkflowExecutionInfo{Execution: &common.WorkflowExecution{WorkflowId: id, RunId: run}})
	}
	return answer, r.answer(ctx, "list")
}

func (r *recorder) call(ctx context.Context, id, what string, record func()) error {
	r.mu.Lock()
	r.calls = append(r.calls, time.Now())
	r.busy[id]++
	r.overlap = r.overlap || r.busy[id] > 1
	answer := r.answer
	r.mu.Unlock()
	err := answer(ctx, what)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[id]--
	if err == nil {
		record()
	}
	return err
}

// answers sets what the calls from now on are answered.
func (r *recorder) answers(answer func(ctx context.Context, call string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *recorder) away() {
	r.answers(func(context.Context, string) error { return serviceerror.NewUnavailable("connection refused") })
}

func (r *recorder) back() { r.answers(func(context.Context, string) error { return nil }) }

func (r *recorder) starts(d *v1beta1.Disruption) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.started[contract.WorkflowID(d.Ref())])
}

func (r *recorder) signals(d *v1beta1.Disruption, name string) []signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []signal
	for _, s := range r.sent[contract.WorkflowID(d.Ref())] {
		if s.name == name {
			found = append(found, s)
		}
	}
	return found
}

func (r *recorder) lastObservation(d *v1beta1.Disruption) contract.Observation {
	all := r.signals(d, contract.SignalObserved)
	if len(all) == 0 {
		return contract.Observation{}
	}
	o, _ := all[len(all)-1].arg.(contract.Observation)
	return o
}

func (r *recorder) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// traffic counts a bridge's requests to the API server, and can get in their way.
type traffic struct {
	mu       sync.Mutex
	requests []string // "WATCH pods", "PATCH disruptions", ...
	// before may delay a request or answer it in the server's place.
	before func(*http.Request) (*http.Response, error)
	// after may wrap what the server answered.
	after func(*http.Request, *http.Response)
}

func newTraffic() *traffic { return &traffic{} }

func (f *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		f.mu.Lock()
		f.requests = append(f.requests, describe(request))
		before, after := f.before, f.after
		f.mu.Unlock()
		if before != nil {
			if response, err := before(request); response != nil || err != nil {
				return response, err
			}
		}
		response, err := next.RoundTrip(request)
		if err == nil && after != nil {
			after(request, response)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// describe is the verb and the resource, such as "WATCH pods" or "LIST nodes".
func describe(request *http.Request) string {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3 // apis/group/version
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	verb := request.Method
	switch {
	case request.URL.Query().Get("watch") != "":
		verb = "WATCH"
	case verb == http.MethodGet && len(parts) == 1:
		verb = "LIST"
	}
	if len(parts) == 3 {
		return verb + " " + parts[0] + "/" + parts[2]
	}
	if len(parts) == 0 {
		return verb
	}
	return verb + " " + parts[0]
}

// count is how many of the requests since the last reset begin with one of prefixes.
func (f *traffic) count(prefixes ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, request := range f.requests {
		for _, prefix := range prefixes {
			if strings.HasPrefix(request, prefix) {
				n++
			}
		}
	}
	return n
}

func (f *traffic) writes() int { return f.count("POST", "PUT", "PATCH", "DELETE") }

func (f *traffic) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

func (f *traffic) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}

// soon is how long a test waits for what takes milliseconds, on a machine that
// is busy with other tests.
const soon = 20 * time.Second

// eventually polls until true, and fails the test after the time given.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within %s: %s", within, what)
}

// never polls for the whole time given, and fails the test as soon as it is true.
func never(t *testing.T, during time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(during); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if is() {
			t.Fatalf("happened: %s", what)
		}
	}
}
