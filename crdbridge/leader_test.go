package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rules T1, I10
func TestOneOfTwoBridgesActsWhateverBecomesOfIt(t *testing.T) {
	b, server := newBridgeOfItsOwn(t), sharedTemporal(t)
	// The lease is short, so that the test is. A leader that renews too late ends and is
	// started again, as a kubelet would: the test must survive that as well.
	b.config.LeaderElection, b.config.LeaderElectionLease = true, 4*time.Second
	p := &pair{bridge: b, server: server}
	p.start()
	p.start()

	var all []*v1beta1.Disruption
	begin := func(name string) {
		d := b.Disrupt(strings.ReplaceAll(name, " ", "-"))
		all = append(all, d)
		p.eventually(name+": it has a workflow that was informed", func() bool {
			return server.runs(t, d) == 1 && server.signals(t, d)[contract.SignalObserved] > 0
		})
		t.Logf("%s: after %d bridges", name, len(p.replicas))
	}
	for _, blow := range []struct {
		name string
		deal func(leader *replica)
	}{
		{"nothing", func(*replica) {}},
		{"killed", func(leader *replica) { leader.ends(syscall.SIGKILL) }},
		{"asked to end", func(leader *replica) { leader.ends(syscall.SIGTERM) }},
		{"cut off", func(leader *replica) { leader.loses(t) }},
	} {
		leader := p.elected()
		all = append(all, b.Disrupt("as-"+strings.ReplaceAll(blow.name, " ", "-")))
		blow.deal(leader)
		begin(blow.name)
	}
	for _, s := range []strike{
		{"PATCH disruptions", false, syscall.SIGKILL, "killed before the finalizer"},
		{"PATCH disruptions", true, syscall.SIGKILL, "killed after the finalizer"},
		{"PATCH disruptions", false, syscall.SIGTERM, "asked to end at the finalizer"},
		{"StartWorkflowExecution", false, syscall.SIGKILL, "killed before the start"},
		{"StartWorkflowExecution", true, syscall.SIGKILL, "killed after the start"},
		{"StartWorkflowExecution", false, syscall.SIGTERM, "asked to end at the start"},
		{"SignalWorkflowExecution", false, syscall.SIGKILL, "killed before the signal"},
		{"SignalWorkflowExecution", true, syscall.SIGKILL, "killed after the signal"},
		{"SignalWorkflowExecution", false, syscall.SIGTERM, "asked to end at the signal"},
	} {
		p.elected()
		p.arm(&s)
		begin(s.name)
		p.eventually("somebody was "+s.name, func() bool { return !p.armed() })
	}
	for _, d := range all {
		p.eventually(d.Name+" has a workflow", func() bool { return server.runs(t, d) == 1 })
	}
	acted := []int{}
	for _, r := range p.replicas {
		r.ends(syscall.SIGKILL)
		at, tooEarly := r.seen()
		if !at.IsZero() {
			acted = append(acted, r.pid())
		}
		if len(tooEarly) > 0 {
			t.Errorf("bridge %d was not elected yet, and sent %v", r.pid(), tooEarly)
		}
	}
	for _, d := range all {
		if n := server.runs(t, d); n != 1 {
			t.Errorf("%s has %d runs, want 1", d.Name, n)
		}
		if pid := server.startedBy(t, d); !slices.Contains(acted, pid) {
			t.Errorf("%s was started by process %d, want one of those that were elected: %v", d.Name, pid, acted)
		}
	}
}

// pair is two bridges that elect a leader, and the earlier processes of both.
type pair struct {
	*bridge
	server   *temporalServer
	replicas []*replica

	mu   sync.Mutex
	next *strike // nil if none is armed
}

// strike is a signal to the bridge that makes a call, as it makes it or when it is
// answered.
type strike struct {
	call     string
	answered bool
	signal   syscall.Signal
	name     string
}

func (p *pair) arm(s *strike) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = s
}

// armed is true until the strike has hit.
func (p *pair) armed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next != nil
}

// take returns the strike for a call, once.
func (p *pair) take(call string, answered bool) *strike {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.next
	if s == nil || s.call != call || s.answered != answered {
		return nil
	}
	p.next = nil
	return s
}

// replica is one life of a bridge, behind a proxy of its own.
type replica struct {
	*process
	pair    *pair
	traffic bridgetest.Traffic
	// started is closed once process is known.
	started chan struct{}

	mu sync.Mutex
	// renewed is when it last wrote the lease; zero until it is elected.
	renewed time.Time
	cut     bool
	// tooEarly are its writes before that.
	tooEarly []string
}

func (p *pair) start() {
	p.T.Helper()
	r := &replica{pair: p, started: make(chan struct{})}
	r.traffic.Before, r.traffic.After = r.before, r.after
	kubeconfig := writeKubeconfig(p.T, clientcmdapi.Cluster{Server: p.Proxy(&r.traffic)}, clientcmdapi.AuthInfo{})
	r.process = p.programAt(kubeconfig, bridgetest.TemporalProxy(p.T, p.server.Address, r.meets))
	close(r.started)
	p.replicas = append(p.replicas, r)
}

// meets sends the strike for a call, if there is one.
func (r *replica) meets(call string, answered bool) error {
	s := r.pair.take(call, answered)
	if s == nil {
		return nil
	}
	<-r.started
	_ = r.command.Process.Signal(s.signal)
	if s.signal == syscall.SIGKILL {
		<-r.done
		return errors.New("killed")
	}
	return nil
}

func (r *replica) before(request *http.Request) (*http.Response, error) {
	what := bridgetest.Describe(request)
	if err := r.note(what); err != nil {
		return nil, err
	}
	return nil, r.meets(what, false)
}

func (r *replica) note(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return errors.New("no route to host")
	}
	if isWrite(what) && r.renewed.IsZero() {
		r.tooEarly = append(r.tooEarly, what)
	}
	return nil
}

// isWrite is true of a request that changes anything beside the lease.
func isWrite(what string) bool {
	verb, resource, _ := strings.Cut(what, " ")
	return resource != "leases" && verb != http.MethodGet && verb != "LIST" && verb != "WATCH"
}

func (r *replica) after(request *http.Request, response *http.Response) {
	what := bridgetest.Describe(request)
	_ = r.meets(what, true) // a killed process receives no answer
	if (what != "PUT leases" && what != "POST leases") || response.StatusCode >= http.StatusMultipleChoices {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewed = time.Now()
}

func (r *replica) seen() (renewed time.Time, tooEarly []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewed, slices.Clone(r.tooEarly)
}

func (r *replica) pid() int { return r.command.Process.Pid }

// over is true once the process has ended.
func (r *replica) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// ends signals the process and waits for its end, which may have come before.
func (r *replica) ends(signal syscall.Signal) {
	_ = r.command.Process.Signal(signal)
	<-r.done
}

// loses cuts the process off its API server until it has given up.
func (r *replica) loses(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	r.cut = true
	r.mu.Unlock()
	bridgetest.Eventually(t, 3*time.Minute, "it gives up", r.over)
	if !strings.Contains(r.out.String(), lost) {
		t.Errorf("it ended with %v, and does not say that it lost the lease", r.err)
	}
}

// lost is the message of a leader that could not renew its lease.
const lost = "leader election lost"

// eventually keeps two processes running meanwhile, as a Deployment would.
func (p *pair) eventually(what string, is func() bool) {
	p.T.Helper()
	bridgetest.Eventually(p.T, 5*time.Minute, what, func() bool {
		running := 0
		for _, r := range p.replicas {
			if !r.over() {
				running++
			}
		}
		for ; running < 2; running++ {
			p.start()
		}
		return is()
	})
}

// elected waits until a running process leads. It leads as long as it runs.
func (p *pair) elected() (leader *replica) {
	p.T.Helper()
	p.eventually("a bridge leads", func() bool {
		for _, r := range p.replicas {
			if at, _ := r.seen(); !r.over() && !at.IsZero() {
				leader = r
			}
		}
		return leader != nil
	})
	return leader
}

// startedBy is the process that started the workflow of d.
func (s *temporalServer) startedBy(t *testing.T, d *v1beta1.Disruption) (pid int) {
	t.Helper()
	events := s.client.GetWorkflowHistory(t.Context(), contract.WorkflowID(d.Ref()), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	event, err := events.Next()
	if err != nil {
		t.Fatal(err)
	}
	identity := event.GetWorkflowExecutionStartedEventAttributes().GetIdentity()
	before, _, _ := strings.Cut(identity, "@")
	if pid, err = strconv.Atoi(before); err != nil {
		t.Fatal(fmt.Errorf("the identity %q names no process: %w", identity, err))
	}
	return pid
}
