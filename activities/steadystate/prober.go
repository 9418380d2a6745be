package steadystate

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/probe"
)

// Prober asks the probes of all namespaces of a worker. Its exported fields must not
// change once it is used.
type Prober struct {
	Kube kubernetes.Interface
	// APIServer is the worker's own URL of the API server, such as https://10.0.0.1:6443.
	// Probes never ask it.
	APIServer string
	// Version of Squall, for the user agent.
	Version string
	// Hosts that probes may ask besides the disruption's namespace: names, addresses and
	// ranges.
	Hosts []string
	// Rate bounds the questions of all namespaces together; nil does not.
	Rate *probe.Rate
	// Exec runs commands in targets. nil refuses them.
	Exec *probe.Exec
	// Prometheus answers queries. It is called for each phase; nil for none.
	Prometheus func() (*probe.Prometheus, error)

	mu         sync.Mutex
	namespaces map[string]*watched
	apiServer  []netip.Addr
	resolved   time.Time
}

// watched is the watch on a namespace that all its sessions share.
type watched struct {
	users     int
	stop      context.CancelFunc
	done      chan struct{}
	namespace *probe.Namespace
	err       error
}

// resolveGap is how long the API server's addresses are cached.
const resolveGap = 10 * time.Minute

// In returns a prober for a namespace, and the watch on it. It waits for the first
// list, at most until ctx ends. The caller must call release after the last question.
func (p *Prober) In(ctx context.Context, name string) (asks *probe.Prober, namespace *probe.Namespace, release func(), err error) {
	apiServer, err := p.apiServerAddresses(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	namespace, release, err = p.watch(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	reach := probe.Reach{Hosts: p.Hosts, APIServer: apiServer, Belongs: namespace.Belongs}
	asks = &probe.Prober{Version: p.Version, Namespace: name, Rate: p.Rate, Allow: reach.Allow, Pods: namespace.Pods, Exec: p.Exec}
	if p.Prometheus != nil {
		if asks.Prometheus, err = p.Prometheus(); err != nil {
			release()
			return nil, nil, nil, err
		}
	}
	return asks, namespace, release, nil
}

func (p *Prober) apiServerAddresses(ctx context.Context) ([]netip.Addr, error) {
	p.mu.Lock()
	known, fresh := p.apiServer, time.Since(p.resolved) < resolveGap
	p.mu.Unlock()
	if fresh {
		return known, nil
	}
	found, err := probe.APIServerAddresses(ctx, p.Kube, p.APIServer)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apiServer, p.resolved = found, time.Now()
	return found, nil
}

// watch shares one watch for each namespace; it ends with its last user.
func (p *Prober) watch(ctx context.Context, name string) (*probe.Namespace, func(), error) {
	p.mu.Lock()
	if p.namespaces == nil {
		p.namespaces = map[string]*watched{}
	}
	w := p.namespaces[name]
	if w == nil {
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		w = &watched{stop: stop, done: make(chan struct{})}
		p.namespaces[name] = w
		go func() {
			defer close(w.done)
			w.namespace, w.err = probe.WatchNamespace(watching, p.Kube, name, p.Exec != nil)
		}()
	}
	w.users++
	p.mu.Unlock()
	release := sync.OnceFunc(func() { p.release(name, w) })
	select {
	case <-w.done:
	case <-ctx.Done():
		release()
		return nil, nil, fmt.Errorf("watch namespace %s for probes: %w", name, context.Cause(ctx))
	}
	if w.err != nil {
		release()
		return nil, nil, w.err
	}
	return w.namespace, release, nil
}

func (p *Prober) release(name string, w *watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.users--; w.users == 0 {
		w.stop()
		if p.namespaces[name] == w {
			delete(p.namespaces, name)
		}
	}
}
