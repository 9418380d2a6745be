package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/queue"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

// newBridgeOfItsOwn handles only its own namespace. So the test, which mostly waits, runs
// beside others that do the same.
func newBridgeOfItsOwn(t *testing.T) *bridge {
	t.Helper()
	t.Parallel()
	b := newBridge(t)
	b.Watched = []string{b.Namespace}
	return b
}

// asProgram makes the test binary the program itself, so that a test kills what is shipped.
const asProgram = "SQUALL_TEST_AS_PROGRAM"

// rules T1, I10
func TestTwoBridgesAndOneWorkflow(t *testing.T) {
	b, server := newBridgeOfItsOwn(t), sharedTemporal(t)
	b.config.LeaderElection = true
	first := b.program(server)
	b.waitForLeader("")
	second := b.program(server)
	b.oneWorkflow(server, b.Disrupt("under-the-first"))

	leader := b.leader()
	t.Run("the leader stops on SIGTERM and hands over", func(t *testing.T) {
		began := time.Now()
		first.end(t, syscall.SIGTERM)
		t.Logf("stopped after %s", time.Since(began))
		// The test would wait for a lease that was not freed.
		if b.leader() == leader {
			t.Error("it has ended and holds the lease")
		}
		b.waitForLeader(leader)
		t.Logf("handed over after %s", time.Since(began))
	})
	b.oneWorkflow(server, b.Disrupt("under-the-second"))

	leader = b.leader()
	third := b.program(server)
	t.Run("the leader is killed and the lease runs out", func(t *testing.T) {
		began := time.Now()
		second.end(t, syscall.SIGKILL)
		b.waitForLeader(leader)
		// The wait is the lease from its last renewal, and the pause between two attempts.
		t.Logf("taken over after %s", time.Since(began))
	})
	b.oneWorkflow(server, b.Disrupt("under-the-third"))
	third.end(t, syscall.SIGTERM)

	var list v1beta1.DisruptionList
	b.Must(b.Kube.List(t.Context(), &list, client.InNamespace(b.Namespace)))
	for i := range list.Items {
		if n := server.runs(t, &list.Items[i]); n != 1 {
			t.Errorf("%s has %d runs, want 1", list.Items[i].Name, n)
		}
	}
}

// rules T1, T8
func TestTemporalIsKilledAndComesBack(t *testing.T) {
	b, server := newBridgeOfItsOwn(t), startTemporal(t)
	server.work(t, idle)
	program := b.program(server)
	target := b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
	before := b.Disrupt("before")
	chaos := b.ChaosPod(before, "chaos", target)
	quiet := b.Disrupt("quiet")
	b.oneWorkflow(server, before)
	b.oneWorkflow(server, quiet)

	server.Kill()
	during := b.Disrupt("during")
	bridgetest.Eventually(t, bridgetest.Soon, "the disruption reports it", func() bool { return bridgetest.Condition(b.Get(during)).Reason == condition.ReasonUnreachable })
	b.SetPhase(chaos, corev1.PodFailed)
	b.Must(b.Kube.Delete(t.Context(), before))
	bridgetest.Eventually(t, bridgetest.Soon, "the one that runs reports it too", func() bool { return bridgetest.Condition(b.Get(before)).Reason == condition.ReasonUnreachable })

	bridgetest.Eventually(t, bridgetest.Soon, "one with nothing to send reports it too", func() bool { return bridgetest.Condition(b.Get(quiet)).Reason == condition.ReasonUnreachable })

	program.end(t, syscall.SIGKILL) // and the bridge loses its state
	program = b.program(server)
	server.Start()
	began := time.Now()
	bridgetest.Eventually(t, queue.LastRetry+bridgetest.Soon, "all say that it is back", func() bool {
		for _, d := range []*v1beta1.Disruption{before, during, quiet} {
			if bridgetest.Condition(b.Get(d)).Status != metav1.ConditionTrue {
				return false
			}
		}
		return true
	})
	t.Logf("noticed after %s", time.Since(began))
	b.oneWorkflow(server, during)
	bridgetest.Eventually(t, bridgetest.Soon, "the end is in the history of the first", func() bool {
		return server.signals(t, before)[contract.SignalEnd] == 1
	})
	for _, d := range []*v1beta1.Disruption{before, during, quiet} {
		if n := server.runs(t, d); n != 1 {
			t.Errorf("%s has %d runs, want 1", d.Name, n)
		}
	}

	t.Run("a workflow that was terminated is started again, though nothing changes", func(t *testing.T) {
		if err := server.client.TerminateWorkflow(t.Context(), contract.WorkflowID(during.Ref()), "", "by hand"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		bridgetest.Eventually(t, bridgetest.Soon, "it runs again", func() bool { return server.runs(t, during) == 2 })
		t.Logf("noticed after %s", time.Since(began))
	})
	program.end(t, syscall.SIGTERM)
	if n := server.runs(t, during); n != 2 {
		t.Errorf("%s has %d runs, want 2", during.Name, n)
	}
}

// A bridge whose Temporal lacks the namespace or the search attributes reports in every
// Disruption what is missing and how to add it.
func TestBridgeReportsWhatTemporalLacks(t *testing.T) {
	server := startTemporal(t)
	_, err := server.client.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: "bare", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string][]string{
		"nowhere": {"nowhere", "temporal operator namespace create --namespace nowhere"},
		"bare":    {"Squall", "deploy/temporal/namespace.sh"},
	} {
		t.Run(namespace, func(t *testing.T) {
			b := newBridge(t)
			b.config.Temporal.Namespace = namespace
			program := b.program(server)
			d := b.Disrupt("refused")
			var got metav1.Condition
			bridgetest.Eventually(t, bridgetest.Soon, "the condition has what to do", func() bool {
				got = bridgetest.Condition(b.Get(d))
				return got.Reason == "TemporalRefused" && strings.Contains(got.Message, want[len(want)-1])
			})
			if !strings.Contains(got.Message, want[0]) {
				t.Errorf("message = %q, want it to name %s", got.Message, want[0])
			}
			t.Log(got.Message)
			program.end(t, syscall.SIGTERM)
		})
	}
}

// Temporal shows that no worker polls, that a workflow is blocked, and that no program
// polls for probes. The last concerns only disruptions with probes.
func TestWorkThatDoesNotGoOnIsSeen(t *testing.T) {
	b, server := newBridgeOfItsOwn(t), startTemporal(t)
	b.program(server)
	d := b.Disrupt("still")
	waitsFor := func(d *v1beta1.Disruption, reason, message string) {
		t.Helper()
		began := time.Now()
		bridgetest.Eventually(t, 2*time.Minute, "the disruption has reason "+reason, func() bool {
			c := bridgetest.Condition(b.Get(d))
			return c.Reason == reason && strings.Contains(c.Message, message)
		})
		t.Logf("%s after %s", reason, time.Since(began))
	}
	waitsFor(d, "NoWorker", "squall-worker")
	stop := server.work(t, broken)
	waitsFor(d, "WorkflowTaskFailing", "WorkflowWorkerUnhandledFailure")
	stop()
	server.work(t, idle)
	waitsFor(d, "TemporalReached", "")

	probed := b.Disrupt("probed", func(d *v1beta1.Disruption) {
		ready := v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": "shop"}}}
		d.Spec.SteadyState = &v1beta1.SteadyState{Probes: []v1beta1.Probe{{Name: "shop", ProbeHandler: ready}}}
	})
	waitsFor(probed, "NoProber", "Deployment squall-probes")
	waitsFor(d, "TemporalReached", "")
	server.poll(t, contract.ProbeTaskQueue, func(w worker.Worker) {
		w.RegisterActivityWithOptions(func() error { return nil }, activity.RegisterOptions{Name: "AskProbes"})
	})
	waitsFor(probed, "TemporalReached", "")
}

// rule I8
func TestAHandlerThatChangesACachedObjectCrashes(t *testing.T) {
	if how := os.Getenv("SQUALL_TEST_MUTATE"); how != "" {
		mutate(t, how)
		return
	}
	for _, how := range []string{"a look changes what it listed", "a predicate changes what it was given"} {
		t.Run(how, func(t *testing.T) {
			b := newBridge(t)
			b.Pod(b.Namespace, "shop", map[string]string{"app": "shop"})
			child := exec.Command(executable(t), "-test.run=^TestAHandlerThatChangesACachedObjectCrashes$")
			child.Env = append(os.Environ(), "SQUALL_TEST_MUTATE="+how, "SQUALL_TEST_MUTATE_IN="+b.Namespace, "KUBECONFIG="+kubeconfigFile(t))
			out, err := child.CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("ALTERED")) {
				t.Errorf("the process ended with %v, want a crash with ALTERED:\n%s", err, out)
			}
		})
	}
}

// mutate is a bridge with a defect: it changes an object of the cache.
func mutate(t *testing.T, how string) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	c := defaults(t)
	c.HealthAddress, c.Metrics.MetricsAddress, c.LeaderElection = "0", "0", false
	m, err := newManager(c, config, bridgetest.NewRecorder(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if how == "a predicate changes what it was given" {
		alters := predicate.NewPredicateFuncs(func(o client.Object) bool {
			if o.GetNamespace() == os.Getenv("SQUALL_TEST_MUTATE_IN") {
				o.SetGenerateName("altered") // a map that others read meanwhile would itself end the process
			}
			return false
		})
		err := builder.ControllerManagedBy(m).Named("defect").For(&corev1.Pod{}, builder.WithPredicates(alters)).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		if err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = m.Start(t.Context()) }()
	bridgetest.Eventually(t, bridgetest.Soon, "the pod is in the cache", func() bool {
		var pods corev1.PodList
		err := m.GetCache().List(t.Context(), &pods, client.UnsafeDisableDeepCopy, client.InNamespace(os.Getenv("SQUALL_TEST_MUTATE_IN")))
		if err != nil || len(pods.Items) == 0 {
			return false
		}
		if how == "a look changes what it listed" {
			pods.Items[0].Labels["altered"] = "yes"
		}
		return true
	})
	<-time.After(bridgetest.Soon) // the detector looks every second
}

func TestHealthAndMetricsAreServed(t *testing.T) {
	b, address := newBridge(t), [2]string{temporalserver.FreeAddress(t), temporalserver.FreeAddress(t)}
	b.config.HealthAddress, b.config.Metrics.MetricsAddress = address[0], address[1]
	b.config.Metrics.MetricsTokenFile = filepath.Join(t.TempDir(), "token")
	b.Must(os.WriteFile(b.config.Metrics.MetricsTokenFile, []byte("s3cret"), 0o600))
	program := b.program(&temporalServer{Server: &temporalserver.Server{Address: temporalserver.FreeAddress(t)}})
	for url, want := range map[string]string{
		"http://" + address[0] + "/healthz": "ok",
		"http://" + address[0] + "/readyz":  "ok",
		"http://" + address[1] + "/metrics": "squall_workflow_starts_total",
	} {
		bridgetest.Eventually(t, bridgetest.Soon, url+" answers", func() bool {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			b.Must(err)
			request.Header.Set("Authorization", "Bearer s3cret")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			defer func() { _ = response.Body.Close() }()
			var body bytes.Buffer
			_, err = body.ReadFrom(response.Body)
			return err == nil && response.StatusCode == http.StatusOK && strings.Contains(body.String(), want)
		})
	}
	response, err := http.Get("http://" + address[1] + "/metrics")
	b.Must(err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token metrics answer %d, want 401", response.StatusCode)
	}
	program.end(t, syscall.SIGTERM)
}

// process is a bridge in a process of its own.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	// err and out are how it ended and its output, once done is closed.
	err error
	out bytes.Buffer
}

func (b *bridge) program(server *temporalServer) *process {
	b.T.Helper()
	return b.programAt(kubeconfigFile(b.T), server.Address)
}

// programAt starts a bridge with the kubeconfig, and Temporal at an address.
func (b *bridge) programAt(kubeconfig, temporal string) *process {
	b.T.Helper()
	p := &process{command: exec.Command(executable(b.T)), done: make(chan struct{})}
	p.command.Env = append(os.Environ(), asProgram+"=1",
		"KUBECONFIG="+kubeconfig,
		"SQUALL_TEMPORAL_ADDRESS="+temporal,
		"SQUALL_TEMPORAL_NAMESPACE="+b.config.Temporal.Namespace,
		"SQUALL_CHAOS_NAMESPACE="+b.ChaosNamespace,
		"SQUALL_HEALTH_ADDRESS="+b.config.HealthAddress,
		"SQUALL_METRICS_ADDRESS="+b.config.Metrics.MetricsAddress,
		"SQUALL_METRICS_TOKEN_FILE="+b.config.Metrics.MetricsTokenFile,
		"SQUALL_WATCH_NAMESPACES="+strings.Join(b.Watched, ","),
		"SQUALL_POLL_INTERVAL="+b.config.PollInterval.String(),
		fmt.Sprintf("SQUALL_LEADER_ELECTION=%t", b.config.LeaderElection),
		"SQUALL_LEADER_ELECTION_LEASE="+b.config.LeaderElectionLease.String(),
		"SQUALL_LEADER_ELECTION_NAMESPACE="+b.ChaosNamespace)
	p.command.Stdout, p.command.Stderr = &p.out, &p.out
	b.Must(p.command.Start())
	go func() { defer close(p.done); p.err = p.command.Wait() }()
	b.T.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.done
		if b.T.Failed() {
			b.T.Logf("bridge %d wrote:\n%s", p.command.Process.Pid, p.out.String())
		}
	})
	return p
}

// end signals the process and waits for it; after SIGTERM it must end without an error.
func (p *process) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if signal == syscall.SIGTERM && p.err != nil {
		t.Errorf("after SIGTERM the bridge ended with %v, want exit code 0", p.err)
	}
}

func (b *bridge) leader() string {
	lease := &coordinationv1.Lease{}
	err := b.Kube.Get(b.T.Context(), client.ObjectKey{Namespace: b.ChaosNamespace, Name: leaseName}, lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (b *bridge) waitForLeader(not string) {
	b.T.Helper()
	bridgetest.Eventually(b.T, 3*time.Minute, "another bridge leads", func() bool { l := b.leader(); return l != "" && l != not })
}

// oneWorkflow waits until d has its one workflow, with every search attribute.
func (b *bridge) oneWorkflow(server *temporalServer, d *v1beta1.Disruption) {
	b.T.Helper()
	bridgetest.Eventually(b.T, time.Minute, "one workflow runs", func() bool { return server.runs(b.T, d) == 1 })
	bridgetest.Eventually(b.T, bridgetest.Soon, "it was informed", func() bool { return server.signals(b.T, d)[contract.SignalObserved] > 0 })
	description, err := server.client.DescribeWorkflow(b.T.Context(), contract.WorkflowID(d.Ref()), "")
	b.Must(err)
	attributes := description.TypedSearchAttributes.GetUntypedValues()
	got := make(map[string]any)
	for key, value := range attributes {
		got[key.GetName()] = value
	}
	for _, name := range []string{contract.AttributePhase, contract.AttributeNamespace, contract.AttributeKinds, contract.AttributeStuck, contract.AttributeTargets} {
		if _, found := got[name]; !found {
			b.T.Errorf("the search attribute %s is missing: %v", name, got)
		}
	}
	if line, err := description.GetStaticSummary(); err != nil || !strings.Contains(line, "container-failure") {
		b.T.Errorf("static summary = %q, %v", line, err)
	}
}

// temporalServer is a real Temporal, and the queries of the tests.
type temporalServer struct {
	*temporalserver.Server
	client temporalclient.Client
}

// startTemporal starts a Temporal for one test. sharedTemporal is enough where no worker
// polls and the test does not kill it.
func startTemporal(t *testing.T) *temporalServer {
	t.Helper()
	return temporalOf(t, temporalserver.New(t).Start())
}

func sharedTemporal(t *testing.T) *temporalServer {
	t.Helper()
	return temporalOf(t, temporalserver.Shared(t))
}

func temporalOf(t *testing.T, server *temporalserver.Server) *temporalServer {
	t.Helper()
	return &temporalServer{server, server.Dial(temporalclient.DefaultNamespace)}
}

// work polls for the tasks of disruptions, as a worker does, and runs disruption for each,
// until stop is called.
func (s *temporalServer) work(t *testing.T, disruption any) (stop func()) {
	t.Helper()
	return s.poll(t, contract.TaskQueue, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
	})
}

// poll polls a queue until stop is called.
func (s *temporalServer) poll(t *testing.T, queue string, register func(worker.Worker)) (stop func()) {
	t.Helper()
	w := worker.New(s.client, queue, worker.Options{})
	register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	return stop
}

// idle is a workflow that waits for ever.
func idle(ctx workflow.Context, _ contract.Input) error {
	return workflow.Await(ctx, func() bool { return false })
}

// broken is a workflow whose code fails.
func broken(workflow.Context, contract.Input) error { panic("broken by the test") }

// runs is how many executions the workflow of d ever had.
func (s *temporalServer) runs(t *testing.T, d *v1beta1.Disruption) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	answer, err := s.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId = %q", contract.WorkflowID(d.Ref())),
	})
	if err != nil {
		return -1
	}
	return len(answer.GetExecutions())
}

// signals counts by name the signals in the history of d's workflow.
func (s *temporalServer) signals(t *testing.T, d *v1beta1.Disruption) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	counts := make(map[string]int)
	events := s.client.GetWorkflowHistory(ctx, contract.WorkflowID(d.Ref()), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return nil
		}
		if received := event.GetWorkflowExecutionSignaledEventAttributes(); received != nil {
			counts[received.GetSignalName()]++
		}
	}
	return counts
}

// kubeconfigFile is a kubeconfig of the test's API server, for another process.
func kubeconfigFile(t *testing.T) string {
	t.Helper()
	config := apiserver.Start(t)
	return writeKubeconfig(t,
		clientcmdapi.Cluster{Server: server(config.Host), CertificateAuthorityData: config.CAData, InsecureSkipTLSVerify: config.Insecure},
		clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken})
}

func writeKubeconfig(t *testing.T, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": &cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": &user},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func server(host string) string {
	if strings.Contains(host, "://") {
		return host
	}
	return "https://" + host
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
