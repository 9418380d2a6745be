// Package probe asks repeatedly whether something is in its steady state, as the
// kubelet's probes ask containers; docs/probes.md lists the differences. A worker asks
// one probe of one target, a manager holds the workers of a phase, and a cache reports
// results that changed. Only the result of an answer leaves the package: no body, no
// header and no output of a command.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Result is a probe's result for the steady state.
type Result string

const (
	// Unknown is the result of a question that could not be asked, and of a probe that has
	// not decided yet.
	Unknown Result = "Unknown"
	Success Result = "Success"
	Failure Result = "Failure"
)

const (
	// maxAttempts bounds how often a question that could not be asked is retried.
	maxAttempts = 3
	// maxBody is how much of a body is read, in bytes.
	maxBody = 10 << 10
	// maxText is the longest text of an answer, in bytes.
	maxText = 256
)

// Answer is the outcome of one question.
type Answer struct {
	// Result is Unknown if there is an Err.
	Result Result
	// Warning marks a success that people should know of.
	Warning bool
	// Text is the reason, in at most 256 bytes, and holds nothing that a server sent.
	Text string
	// Attempts is 1, or up to 3 if the question could not be asked.
	Attempts int
	// Err is why there is no result: the question could not be asked. It implies nothing
	// about the steady state.
	Err error
	// Took is the time of all attempts, without the time before their turn.
	Took time.Duration
	// Waited is true if an attempt had to wait for its turn by Prober.Rate.
	Waited bool
}

// Target is a container of a target pod.
type Target struct {
	Pod *corev1.Pod
	// Container by name. Empty means the first.
	Container string
	// Current is false when this container must no longer be asked at the address in Pod,
	// because that may be another pod's. nil means always true.
	Current func() bool
}

// errOutdated means that the target changed while the question waited.
var errOutdated = errors.New("the target changed while the question waited")

// Prober asks questions. It may be used by several goroutines.
type Prober struct {
	// Version of Squall, for the user agent squall-probe/<version>.
	Version string
	// Namespace of the Disruption or DisruptionScenario whose probes these are.
	Namespace string
	// Rate bounds the questions; nil does not.
	Rate *Rate
	// Allow returns why an address must not be asked, or nil. Prober calls it for every
	// connection, with the address that the host resolves to at that moment. target is nil
	// with scope Once. Without Allow no address is asked.
	Allow func(host string, address netip.Addr, target *Target) error
	// Pods of the disruption's namespace, for podsReady.
	Pods corelisters.PodNamespaceLister
	// Exec runs commands in containers. nil, the default, refuses them.
	Exec *Exec
	// Prometheus answers queries. nil means that there is none.
	Prometheus *Prometheus
}

// handler asks once. An error means that the question could not be asked.
type handler func(ctx context.Context) (Answer, error)

// Ask asks once, and up to three times while the question cannot be asked: a refused
// connection, a bad status or a timeout is an answer (rule P2). It returns at once when
// ctx ends; its answer is then Unknown. Each attempt waits for its turn by Rate before
// its timeout begins. probe has its defaults; target is nil with scope Once.
func (p *Prober) Ask(ctx context.Context, probe v1beta1.Probe, target *Target) Answer {
	ask := p.handler(probe, target)
	var answer Answer
	var took time.Duration
	anyWaited := false
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		waited, err := p.Rate.Wait(ctx, p.Namespace)
		if err != nil {
			break
		}
		if waited && target != nil && target.Current != nil && !target.Current() {
			answer = Answer{Result: Unknown, Err: errOutdated, Attempts: answer.Attempts}
			break
		}
		began := time.Now()
		answer = attemptOnce(ctx, probe.Timeout(), ask)
		answer.Attempts = attempt
		took, anyWaited = took+time.Since(began), anyWaited || waited
		if answer.Err == nil || ctx.Err() != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		// A cancelled question has no other reason to fail.
		answer = Answer{Result: Unknown, Err: err, Attempts: answer.Attempts}
	}
	answer.Text, answer.Took, answer.Waited = text.Shorten(answer.Text, maxText), took, anyWaited
	return answer
}

func attemptOnce(ctx context.Context, timeout time.Duration, ask handler) Answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := ask(ctx)
	if err != nil {
		return Answer{Result: Unknown, Text: err.Error(), Err: err}
	}
	return answer
}

func (p *Prober) handler(probe v1beta1.Probe, target *Target) handler {
	switch {
	case probe.HTTPGet != nil:
		return func(ctx context.Context) (Answer, error) { return p.httpGet(ctx, probe.HTTPGet, target) }
	case probe.TCPSocket != nil:
		return func(ctx context.Context) (Answer, error) { return p.tcpSocket(ctx, probe.TCPSocket, target) }
	case probe.GRPC != nil:
		return func(ctx context.Context) (Answer, error) { return p.grpc(ctx, probe.GRPC, target) }
	case probe.Exec != nil:
		return func(ctx context.Context) (Answer, error) { return p.Exec.run(ctx, probe.Exec, target) }
	case probe.PodsReady != nil:
		return func(context.Context) (Answer, error) { return p.podsReady(probe.PodsReady) }
	case probe.Prometheus != nil:
		return func(ctx context.Context) (Answer, error) { return p.Prometheus.ask(ctx, probe.Prometheus, p.Namespace) }
	}
	return func(context.Context) (Answer, error) {
		return Answer{}, fmt.Errorf("probe %s has no handler", probe.Name)
	}
}

func (p *Prober) userAgent() string { return "squall-probe/" + p.Version }

// dial connects to addresses that Allow allows. It resolves names and judges the
// address right before the connection, so that a name that changes its address leads
// nowhere else.
func (p *Prober) dial(target *Target) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		dialer := net.Dialer{KeepAlive: -1, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return err
			}
			if p.Allow == nil {
				return &DeniedError{Host: host, Address: at.Addr(), Why: "no address is allowed"}
			}
			return p.Allow(host, at.Addr(), target)
		}}
		return dialer.DialContext(ctx, "tcp", address)
	}
}

// failed is the answer without a valid reply. Its text comes only from our own kernel
// or resolver: another error may quote what the server sent.
func failed(err error) (Answer, error) {
	var denied *DeniedError
	if errors.As(err, &denied) {
		return Answer{}, denied
	}
	var (
		timeout net.Error
		dial    *net.OpError
		errno   syscall.Errno
		text    = "the answer cannot be understood"
	)
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		text = "no answer in time"
	case errors.As(err, &dial) && dial.Op == "dial":
		text = dial.Error()
	case errors.As(err, &errno):
		text = errno.Error()
	}
	return Answer{Result: Failure, Text: text}, nil
}
