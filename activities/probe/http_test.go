package probe

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rules P1 and P2
func TestHTTPGet(t *testing.T) {
	plain, secure, hang := httpServers(t)
	host, port := hostPort(t, plain.Listener.Addr().String())
	_, tlsPort := hostPort(t, secure.Listener.Addr().String())
	_, closed := hostPort(t, unusedPort(t))
	get := func(path string) v1beta1.HTTPGetProbe {
		return v1beta1.HTTPGetProbe{Host: host, Port: port, Path: path}
	}
	for _, c := range []struct {
		name string
		get  v1beta1.HTTPGetProbe
		want outcome
		text string
	}{
		{"200", get("/status/200"), succeeds, "HTTP status 200"},
		{"no path is /", get(""), succeeds, "HTTP status 200"},
		{"a path keeps its query", get("/query?a=1&b=%20"), succeeds, ""},
		{"204", get("/status/204"), succeeds, "HTTP status 204"},
		{"299", get("/status/299"), succeeds, "HTTP status 299"},
		{"304, which leads nowhere, succeeds with a warning", get("/status/304"), warns, "HTTP status 304: a redirect that is not followed"},
		{"400", get("/status/400"), fails, "HTTP status 400"},
		{"404", get("/status/404"), fails, "HTTP status 404"},
		{"500", get("/status/500"), fails, "HTTP status 500"},
		{"503: one attempt", get("/status/503"), fails, "HTTP status 503"},
		{"a redirect on the same host is followed", get("/to/status/200"), succeeds, "HTTP status 200"},
		{"a redirect on the same host leads to a failure", get("/to/status/500"), fails, "HTTP status 500"},
		{"a redirect to another port and scheme of the host is followed", get("/secure"), succeeds, ""},
		{"a redirect to another host is not followed, and a warning", get("/away"), warns, "HTTP status 302: a redirect that is not followed"},
		{"nine redirects are followed", get("/again/9"), succeeds, ""},
		{"ten are a failure", get("/again/10"), fails, "more than 9 redirects"},
		{"an endless body", get("/endless"), succeeds, "HTTP status 200"},
		{"a body that breaks off after 10 KiB: more is not read", get("/stop/10240"), succeeds, "HTTP status 200"},
		{"a body that breaks off before: three attempts", get("/stop/10239"), errs, "the body broke off"},
		{"the body of a failure is nowhere in the text", get("/secret"), fails, "HTTP status 500"},
		{"a body that breaks off is an error: three attempts", get("/broken"), errs, "the body broke off"},
		{"no answer in time: one attempt", get("/hang"), fails, "no answer in time"},
		{"a refused connection: one attempt", v1beta1.HTTPGetProbe{Host: host, Port: closed}, fails,
			fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", closed.IntVal)},
		{"not HTTP, and not quoted", v1beta1.HTTPGetProbe{Host: host, Port: chatty(t)}, fails, "the answer cannot be understood"},
		{"a certificate is not verified", v1beta1.HTTPGetProbe{Scheme: "HTTPS", Host: host, Port: tlsPort, Path: "/status/200"}, succeeds, ""},
		{"HTTP/2 is spoken where TLS offers it", v1beta1.HTTPGetProbe{Scheme: "HTTPS", Host: host, Port: tlsPort, Path: "/http2"}, succeeds, ""},
		{"TLS where there is none", v1beta1.HTTPGetProbe{Scheme: "HTTPS", Host: host, Port: port}, fails, ""},
		{"a named port without a container is an error: three attempts", v1beta1.HTTPGetProbe{Host: host, Port: intstr.FromString("http")}, errs, ""},
		{"no proxy is asked: the place itself is denied", v1beta1.HTTPGetProbe{Host: elsewhere, Port: port}, errs,
			"192.0.2.1 must not be asked: it is elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := wantOutcome(t, anyProber(), v1beta1.Probe{TimeoutSeconds: timeLimit(c.text), ProbeHandler: v1beta1.ProbeHandler{HTTPGet: &c.get}}, nil, c.want)
			if c.text != "" && answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
		})
	}
	if n := len(hang); n > 1 { // none if this machine is too busy
		t.Errorf("the server that hangs was asked %d times, want 1", n)
	}
}

func TestHTTPGetOfATarget(t *testing.T) {
	plain, _, _ := httpServers(t)
	host, port := hostPort(t, plain.Listener.Addr().String())
	target := onePod(host, corev1.ContainerPort{Name: "metrics", ContainerPort: 1}, corev1.ContainerPort{Name: "http", ContainerPort: port.IntVal})
	for _, c := range []struct {
		name   string
		target *Target
		port   intstr.IntOrString
		want   outcome
		text   string
	}{
		{"a number", target, port, succeeds, "HTTP status 200"},
		{"the name of a container's port", target, intstr.FromString("http"), succeeds, "HTTP status 200"},
		{"a name that no port has", target, intstr.FromString("https"), errs, `container app of pod checkout-1 has no port of the name "https"`},
		{"a pod without an address", onePod(""), port, errs, "pod checkout-1 has no address yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := v1beta1.Probe{Scope: v1beta1.ProbePerTarget, TimeoutSeconds: timeLimit(c.text), ProbeHandler: v1beta1.ProbeHandler{HTTPGet: &v1beta1.HTTPGetProbe{Port: c.port}}}
			if answer := wantOutcome(t, anyProber(), probe, c.target, c.want); answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
		})
	}
}

// rule P1
func TestHTTPGetSends(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []v1beta1.HTTPHeader
		want    map[string][]string // Host is the request's
	}{
		{"by default", nil, map[string][]string{"User-Agent": {"squall-probe/v1.2.3"}, "Accept": {"*/*"}, "Connection": {"close"}}},
		{"others in their place", []v1beta1.HTTPHeader{{Name: "user-agent", Value: "me"}, {Name: "accept", Value: "text/plain"}},
			map[string][]string{"User-Agent": {"me"}, "Accept": {"text/plain"}, "Connection": {"close"}}},
		{"an empty Accept removes it", []v1beta1.HTTPHeader{{Name: "Accept", Value: ""}},
			map[string][]string{"User-Agent": {"squall-probe/v1.2.3"}, "Connection": {"close"}}},
		{"Host, and two of a name", []v1beta1.HTTPHeader{{Name: "Host", Value: "shop.example.com"}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}},
			map[string][]string{"Host": {"shop.example.com"}, "X-A": {"1", "2"}, "User-Agent": {"squall-probe/v1.2.3"}, "Accept": {"*/*"}, "Connection": {"close"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan map[string][]string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got := map[string][]string(r.Header.Clone())
				if _, port, err := net.SplitHostPort(r.Host); err != nil || port == "" {
					got["Host"] = []string{r.Host}
				}
				if r.Method != http.MethodGet {
					got["Method"] = []string{r.Method}
				}
				seen <- got
			}))
			defer server.Close()
			host, port := hostPort(t, server.Listener.Addr().String())
			probe := v1beta1.HTTPGetProbe{Host: host, Port: port, HTTPHeaders: c.headers}
			wantOutcome(t, anyProber(), v1beta1.Probe{TimeoutSeconds: timeLimit(""), ProbeHandler: v1beta1.ProbeHandler{HTTPGet: &probe}}, nil, succeeds)
			if diff := cmp.Diff(c.want, <-seen); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

// httpServers are a server, the same with TLS, and the requests that hang.
func httpServers(t *testing.T) (plain, secure *httptest.Server, hang chan struct{}) {
	hang = make(chan struct{}, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/query", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "a=1&b=%20" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscan(r.PathValue("code"), &code)
		w.WriteHeader(code)
	})
	mux.HandleFunc("/to/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.TrimPrefix(r.URL.Path, "/to"), http.StatusMovedPermanently)
	})
	mux.HandleFunc("/secure", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, secure.URL+"/status/200", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+elsewhere+"/", http.StatusFound)
	})
	mux.HandleFunc("/again/{n}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, _ = fmt.Sscan(r.PathValue("n"), &n); n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/again/%d", n-1), http.StatusFound)
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for line := []byte(strings.Repeat("x", 1024)); ; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/stop/{bytes}", func(w http.ResponseWriter, r *http.Request) {
		var bytes int
		_, _ = fmt.Sscan(r.PathValue("bytes"), &bytes)
		w.Header().Set("Content-Length", "10241")
		_, _ = w.Write([]byte(strings.Repeat("x", bytes)))
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the secret", http.StatusInternalServerError)
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("short"))
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		hang <- struct{}{}
		<-r.Context().Done()
	})
	mux.HandleFunc("/http2", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	})
	plain = httptest.NewServer(mux)
	t.Cleanup(plain.Close)
	secure = httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	return plain, secure, hang
}

// chatty is the port of a server that answers with something other than HTTP.
func chatty(t *testing.T) intstr.IntOrString {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			_, _ = conn.Write([]byte("220 the secret banner\r\n"))
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	_, port := hostPort(t, listener.Addr().String())
	return port
}
