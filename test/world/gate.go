package world

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Gate stands between a program and the API server and can hold the program's
// calls. A program whose calls are held is in the middle of its work for as long
// as a test needs, however slow the machine is.
type Gate struct {
	setting string
	server  *httputil.ReverseProxy

	mu      sync.Mutex
	changed *sync.Cond
	// matches selects the calls that are counted; nil: none.
	matches func(*http.Request) bool
	// most is how many of them may succeed, passed how many did, pending how many
	// are at the API server, and held how many wait.
	most, passed, pending, held int
	// round counts the calls of HoldAfter: an answer to an earlier one is not
	// counted. The calls that were held in dropped are not made.
	round, dropped int
}

// Gate starts one for the programs that get its Setting.
func (w *World) Gate() *Gate {
	w.Helper()
	server, err := url.Parse(w.API.Host)
	w.Must(err)
	transport, err := rest.TransportFor(w.programs)
	w.Must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.Must(err)
	g := &Gate{setting: "KUBECONFIG=" + w.Kubeconfig("http://"+l.Addr().String())}
	g.changed = sync.NewCond(&g.mu)
	g.server = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // the program or the server is gone
	}
	listening := &http.Server{Handler: g}
	go func() { _ = listening.Serve(l) }()
	w.Cleanup(func() { _ = listening.Close() })
	return g
}

// Setting leads a program through the gate.
func (g *Gate) Setting() string { return g.setting }

// HoldAfter lets n of the calls that match succeed, and holds the others until
// Open or Drop.
func (g *Gate) HoldAfter(n int, matches func(*http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.matches, g.most, g.passed, g.pending = matches, n, 0, 0
	g.round++
	g.changed.Broadcast()
}

// Open lets all calls through, those that are held first.
func (g *Gate) Open() { g.HoldAfter(0, nil) }

// Drop is Open after a program was killed: its calls that are held are not made.
func (g *Gate) Drop() {
	g.mu.Lock()
	g.dropped = g.round
	g.mu.Unlock()
	g.Open()
}

// Passed is how many calls succeeded since HoldAfter.
func (g *Gate) Passed() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed
}

// Held is how many calls are held.
func (g *Gate) Held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	round, alive := g.enter(r)
	if !alive {
		panic(http.ErrAbortHandler)
	}
	answer := &statusWriter{ResponseWriter: w}
	defer func() { g.leave(round, answer.status) }()
	g.server.ServeHTTP(answer, r)
}

// enter waits until a call may be made. round is 0 for a call that is not
// counted; alive is false when its program is gone.
func (g *Gate) enter(r *http.Request) (round int, alive bool) {
	stop := context.AfterFunc(r.Context(), g.changed.Broadcast)
	defer stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.matches != nil && g.matches(r) && g.passed+g.pending >= g.most && r.Context().Err() == nil {
		held := g.round
		g.held++
		g.changed.Wait()
		g.held--
		if held <= g.dropped {
			return 0, false
		}
	}
	if r.Context().Err() != nil {
		return 0, false
	}
	if g.matches == nil || !g.matches(r) {
		return 0, true
	}
	g.pending++
	return g.round, true
}

// leave counts the answer to a call that enter counted.
func (g *Gate) leave(round, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if round == 0 || round != g.round {
		return
	}
	g.pending--
	if status >= http.StatusOK && status < http.StatusMultipleChoices {
		g.passed++
	}
	g.changed.Broadcast()
}

// statusWriter remembers how a call was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets a watch flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// CreatesChaosPod matches the calls by which chaos pods are created.
func (w *World) CreatesChaosPod(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces/"+w.Chaos+"/pods"
}

// ReleasesChaosPod matches the calls that remove the finalizer of a chaos pod.
func (w *World) ReleasesChaosPod(r *http.Request) bool {
	writes := r.Method == http.MethodPut || r.Method == http.MethodPatch
	return writes && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"+w.Chaos+"/pods/")
}
