package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/patience"
)

// TestMain sets a proxy for everything that obeys the environment, which a process
// reads once. The proxy answers every request.
func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		if err := os.Setenv(name, proxy.URL); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(apiserver.Run(m))
}

// elsewhere is an address that no machine has (RFC 5737).
const elsewhere = "192.0.2.1"

// anyProber may ask every address but elsewhere, which would only time out.
func anyProber() *Prober {
	return &Prober{Version: "v1.2.3", Allow: func(host string, address netip.Addr, _ *Target) error {
		if address.String() == elsewhere {
			return &DeniedError{host, address, "it is elsewhere"}
		}
		return nil
	}}
}

// outcome is the expectation of a row of a handler's table.
type outcome struct {
	result   Result
	warning  bool
	attempts int
}

var (
	succeeds = outcome{Success, false, 1}
	warns    = outcome{Success, true, 1}
	fails    = outcome{Failure, false, 1}
	errs     = outcome{Unknown, false, 3}
)

// timeLimit of a row with this text, in seconds: 1 if the row waits for the timeout,
// otherwise more than a busy machine needs.
func timeLimit(text string) int32 {
	if strings.HasSuffix(text, "in time") {
		return 1
	}
	return 60
}

// wantOutcome asks, and returns the answer.
func wantOutcome(t *testing.T, p *Prober, probe v1beta1.Probe, target *Target, want outcome) Answer {
	t.Helper()
	answer := p.Ask(t.Context(), probe.WithDefaults(), target)
	if got := (outcome{answer.Result, answer.Warning, answer.Attempts}); got != want {
		t.Errorf("Ask = %+v (%s, %v), want %+v", got, answer.Text, answer.Err, want)
	}
	if (answer.Err != nil) != (want.result == Unknown) {
		t.Errorf("Ask: result %s with error %v", answer.Result, answer.Err)
	}
	if answer.Text == "" || len(answer.Text) > maxText {
		t.Errorf("Ask: text %q, want up to %d bytes", answer.Text, maxText)
	}
	return answer
}

// hostPort splits the address of a test's server.
func hostPort(t *testing.T, address string) (host string, port intstr.IntOrString) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return host, intstr.FromInt(number)
}

// unusedPort is a port of this machine on which nothing listens.
func unusedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// silent is a server that accepts and counts connections, and never answers.
func silent(t *testing.T) (address string, connections *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			connections.Add(1)
			all = append(all, conn)
		}
		for _, conn := range all {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String(), connections
}

// overrun is a server whose queue of connections is full, so that the kernel accepts no
// more.
func overrun(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
	for range 4 {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the queue never became full")
	return ""
}

// onePod is a target with one container, at an address.
func onePod(address string, ports ...corev1.ContainerPort) *Target {
	return &Target{Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "checkout-1", Namespace: "shop", UID: "1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Ports: ports}}},
		Status:     corev1.PodStatus{PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}},
	}}
}

// rule P19. The timeout of each question is an hour, so that only the stop can end it.
// The bound is generous for a busy machine; the log has the time that it took.
func TestAStopEndsWhatIsUnderWay(t *testing.T) {
	const most = time.Minute
	address, connections := silent(t)
	host, port := hostPort(t, address)
	fullHost, fullPort := hostPort(t, overrun(t))
	connected := func() bool { return connections.Swap(0) > 0 }
	for _, c := range []struct {
		name     string
		probe    v1beta1.ProbeHandler
		underWay func() bool
	}{
		{"httpGet", v1beta1.ProbeHandler{HTTPGet: &v1beta1.HTTPGetProbe{Host: host, Port: port}}, connected},
		{"httpGet over TLS", v1beta1.ProbeHandler{HTTPGet: &v1beta1.HTTPGetProbe{Scheme: "HTTPS", Host: host, Port: port}}, connected},
		{"tcpSocket", v1beta1.ProbeHandler{TCPSocket: &v1beta1.TCPSocketProbe{Host: fullHost, Port: fullPort}}, nil},
		{"grpc", v1beta1.ProbeHandler{GRPC: &v1beta1.GRPCProbe{Host: host, Port: port.IntVal}}, connected},
		{"exec", v1beta1.ProbeHandler{Exec: &v1beta1.ExecProbe{Command: []string{"sleep"}}}, connected},
		{"prometheus", v1beta1.ProbeHandler{Prometheus: &v1beta1.PrometheusProbe{Query: "up", Comparison: "> 0"}}, connected},
	} {
		t.Run(c.name, func(t *testing.T) {
			var begun atomic.Bool
			p := anyProber()
			p.Allow = func(string, netip.Addr, *Target) error { begun.Store(true); return nil }
			p.Exec = execAt(t, "http://"+address)
			p.Prometheus = &Prometheus{URL: "http://" + address}
			probe := v1beta1.Probe{Name: "a", TimeoutSeconds: 3600, ProbeHandler: c.probe}.WithDefaults()
			ctx, cancel := context.WithCancel(t.Context())
			answers := make(chan Answer, 1)
			go func() { answers <- p.Ask(ctx, probe, onePod(host)) }()
			if c.underWay == nil {
				c.underWay = begun.Load
			}
			eventually(t, "the question is under way", c.underWay)
			stopped := time.Now()
			cancel()
			select {
			case answer := <-answers:
				t.Logf("ended %s after the stop", time.Since(stopped).Round(10*time.Microsecond))
				if answer.Result != Unknown || answer.Err == nil {
					t.Errorf("a question called off = %s, want no result", answer.Result)
				}
			case <-time.After(most):
				t.Errorf("it had not ended %s after the stop", most)
			}
		})
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	patience.Within(t, 30*time.Second, what, holds)
}
