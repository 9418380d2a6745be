package steadystate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/probe"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// serveOnly in the environment turns the test binary into the server that is asked.
const serveOnly = "STEADYSTATE_TEST_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(serveOnly) == "" {
		os.Exit(m.Run())
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
}

// served starts a server in a process of its own, and returns its address.
func served(b *testing.B) *url.URL {
	b.Helper()
	process := exec.CommandContext(b.Context(), os.Args[0])
	process.Env = append(os.Environ(), serveOnly+"=1")
	stdin, err := process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stdin.Close(); _ = process.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		b.Fatal(err)
	}
	return at
}

// BenchmarkHundredTargets asks a hundred targets by httpGet each second, for ten
// seconds, and reports how much of one processor that takes:
//
//	go test ./activities/steadystate -run XXX -bench Hundred -benchtime 1x
func BenchmarkHundredTargets(b *testing.B) {
	const lasts = 10 * time.Second
	at := served(b)
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		b.Fatal(err)
	}
	pods, targets := map[types.UID]*corev1.Pod{}, []Target(nil)
	for i := range 100 {
		name := fmt.Sprintf("pod-%03d", i)
		targets = append(targets, Target{UID: types.UID(name), Name: name})
		pods[types.UID(name)] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
			Status: corev1.PodStatus{PodIP: at.Hostname(), ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", ContainerID: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			}}},
		}
	}
	p := v1beta1.Probe{Name: "a", Scope: v1beta1.ProbePerTarget, PeriodSeconds: 1,
		ProbeHandler: v1beta1.ProbeHandler{HTTPGet: &v1beta1.HTTPGetProbe{Port: intstr.FromInt(port)}}}.WithDefaults()
	asks := &probe.Prober{Allow: func(string, netip.Addr, *probe.Target) error { return nil }}
	for b.Loop() {
		answers := make(chan struct{}, 1<<16)
		session := &Session{
			Input: Input{Phase: v1beta1.ProbeDuring, Session: 1, Began: time.Now()}, Probes: []v1beta1.Probe{p}, Ask: asks.Ask,
			Targets:   func(context.Context) ([]Target, error) { return targets, nil },
			Pod:       func(uid types.UID) *corev1.Pod { return pods[uid] },
			Signal:    func(context.Context, contract.ProbeTransition) error { return nil },
			Heartbeat: func(Snapshot) {}, OnAnswer: func(probe.Tick) { answers <- struct{}{} },
		}
		ctx, cancel := context.WithTimeout(b.Context(), lasts)
		before := used(b)
		result, err := session.Run(ctx)
		cancel()
		if err != nil || result.Probes[0].State != v1beta1.ProbeSuccess {
			b.Fatalf("Run = %+v, %v", result.Probes, err)
		}
		b.ReportMetric(100*(used(b)-before).Seconds()/lasts.Seconds(), "%cpu")
		b.ReportMetric(float64(len(answers))/lasts.Seconds(), "answers/s")
	}
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
