package operations

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/world"
)

// proxy stands between the programs and the API server, and lets calls fail.
type proxy struct {
	address string
	on      *httputil.ReverseProxy

	mu      sync.Mutex
	random  *rand.Rand
	harming bool
	tally   map[string]int
}

func newProxy(w *world.World, seed uint64) *proxy {
	w.Helper()
	server, err := url.Parse(w.API.Host)
	w.Must(err)
	transport, err := rest.TransportFor(rest.CopyConfig(w.API))
	w.Must(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.Must(err)
	p := &proxy{address: l.Addr().String(), random: rand.New(rand.NewPCG(seed, 1)), tally: map[string]int{}}
	p.on = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // one of both is gone
	}
	listening := &http.Server{Handler: p}
	go func() { _ = listening.Serve(l) }()
	w.Cleanup(func() { _ = listening.Close() })
	return p
}

// harm lets calls fail from now on, or go through.
func (p *proxy) harm(harming bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.harming = harming
}

// count returns how many calls failed since the last time, by sort.
func (p *proxy) count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counted := maps.Clone(p.tally)
	clear(p.tally)
	return counted
}

// The fates of a call that fails.
const (
	refused   = "calls answered with 500"
	conflicts = "calls answered with 409"
	cut       = "calls cut off before they arrived"
	denied    = "calls carried out, and answered with 500"
	unheard   = "calls carried out, and cut off before the answer"
)

// fate chooses the fate of a call: of 25 writes and of 200 reads one fails. Calls
// for leader election and for progress are left alone.
func (p *proxy) fate(r *http.Request) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	write := r.Method != http.MethodGet
	one := 200
	if write {
		one = 25
	}
	if !p.harming || r.URL.Query().Has("watch") || strings.Contains(r.URL.Path, "/leases/") || p.random.IntN(one) > 0 {
		return ""
	}
	fates := []string{refused, cut}
	if write {
		fates = append(fates, denied, unheard)
	}
	if r.Method == http.MethodPatch || r.Method == http.MethodPut {
		fates = append(fates, conflicts)
	}
	fate := fates[p.random.IntN(len(fates))]
	p.tally[fate]++
	return fate
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch fate := p.fate(r); fate {
	case "":
		p.on.ServeHTTP(w, r)
	case refused:
		answer(w, http.StatusInternalServerError, "InternalError")
	case conflicts:
		answer(w, http.StatusConflict, "Conflict")
	case denied, unheard:
		p.on.ServeHTTP(&lost{}, r)
		if fate == denied {
			answer(w, http.StatusInternalServerError, "InternalError")
			return
		}
		panic(http.ErrAbortHandler)
	default:
		panic(http.ErrAbortHandler)
	}
}

func answer(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the proxy says so","reason":%q,"code":%d}`, reason, code)
}

// lost takes an answer that does not arrive.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header {
	if l.header == nil {
		l.header = http.Header{}
	}
	return l.header
}
func (l *lost) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (l *lost) WriteHeader(int)             {}
