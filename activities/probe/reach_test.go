package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestReachAllows(t *testing.T) {
	reach := Reach{
		Hosts:     []string{"status.example.com", "203.0.113.0/24", "198.51.100.7", "metadata.example.com", "0.0.0.0/0", "::/0"},
		APIServer: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")},
	}
	closed := reach
	closed.Hosts = closed.Hosts[:4]
	closed.Belongs = func(address netip.Addr) string {
		if address.String() == "10.1.0.5" {
			return ""
		}
		return "it is a stranger's"
	}
	target := onePod("10.1.0.9")
	target.Pod.Status.PodIPs = append(target.Pod.Status.PodIPs, corev1.PodIP{IP: "2001:db8::9"})
	loop := onePod("127.0.0.1")
	shared := onePod("10.1.0.9")
	shared.Pod.Spec.HostNetwork = true
	for _, c := range []struct {
		name          string
		reach         Reach
		host, address string
		target        *Target
		why           string // empty: allowed
	}{
		{"of the namespace", closed, "checkout.shop.svc", "10.1.0.5", nil, ""},
		{"of the namespace, as IPv6 would write it", closed, "checkout.shop.svc", "::ffff:10.1.0.5", nil, ""},
		{"a stranger's", closed, "other.svc", "10.1.0.6", nil, "other.svc (10.1.0.6) must not be asked: it is a stranger's, and the operator does not list it"},
		{"a listed name, wherever it is", closed, "Status.Example.com.", "10.1.0.6", nil, ""},
		{"a name below a listed one", closed, "a.status.example.com", "10.1.0.6", nil, "it is a stranger's"},
		{"a listed range", closed, "x", "203.0.113.200", nil, ""},
		{"a listed address", closed, "198.51.100.7", "198.51.100.7", nil, ""},
		{"beside it", closed, "198.51.100.8", "198.51.100.8", nil, "198.51.100.8 must not be asked: it is a stranger's"},
		{"a listed name that leads to metadata", closed, "metadata.example.com", "169.254.169.254", nil, "link-local"},
		{"metadata, although all is listed", reach, "x", "169.254.169.254", nil, "link-local"},
		{"the rest of 169.254.0.0/16", reach, "x", "169.254.0.1", nil, "link-local"},
		{"link-local IPv6", reach, "x", "fe80::1%eth0", nil, "link-local"},
		{"link-local in IPv6's dress", reach, "x", "::ffff:169.254.169.254", nil, "link-local"},
		{"loopback", reach, "x", "127.0.0.1", nil, "loopback"},
		{"any other loopback", reach, "x", "127.8.8.8", nil, "loopback"},
		{"loopback IPv6", reach, "x", "::1", nil, "loopback"},
		{"loopback in IPv6's dress", reach, "x", "::ffff:127.0.0.1", nil, "loopback"},
		{"this machine", reach, "x", "0.0.0.0", nil, "not the address of a host"},
		{"this machine by IPv6", reach, "x", "::", nil, "not the address of a host"},
		{"multicast", reach, "x", "224.0.0.1", nil, "many"},
		{"broadcast", reach, "x", "255.255.255.255", nil, "many"},
		{"the API server", reach, "x", "10.0.0.1", nil, "API server"},
		{"the API server in IPv6's dress", reach, "x", "::ffff:10.0.0.1", nil, "API server"},
		{"the API server by IPv6", reach, "x", "2001:db8::1", nil, "API server"},
		{"a target", closed, "10.1.0.9", "10.1.0.9", target, ""},
		{"a target's other address", closed, "2001:db8::9", "2001:db8::9", target, ""},
		{"a redirect away from a target, to the namespace", closed, "10.1.0.5", "10.1.0.5", target, "it is not the target's address"},
		{"a target in its node's network", closed, "10.1.0.9", "10.1.0.9", shared, "shares the network of its node"},
		{"a target that says it is loopback", closed, "127.0.0.1", "127.0.0.1", loop, "loopback"},
		{"nobody knows what belongs to whom", Reach{}, "x", "10.1.0.5", nil, "the operator does not list it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.reach.Allow(c.host, netip.MustParseAddr(c.address), c.target)
			if c.why == "" && err != nil {
				t.Errorf("Allow = %v, want nil", err)
			}
			if c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("Allow = %v, want %q in it", err, c.why)
			}
		})
	}
}

// A name that the operator lists resolves to a harmless address first, and to the
// worker afterwards: the address of the connection counts.
func TestAnAddressIsJudgedWhenItIsConnectedTo(t *testing.T) {
	address, connections := silent(t)
	_, port := hostPort(t, address)
	var harmless atomic.Bool
	harmless.Store(true)
	answerNames(t, func() string {
		if harmless.Load() {
			return elsewhere
		}
		return "127.0.0.1"
	})
	var judged atomic.Value
	judged.Store("nothing")
	reach := Reach{Hosts: []string{"rebind.example.com"}}
	p := &Prober{Allow: func(host string, address netip.Addr, target *Target) error {
		judged.Store(host + " " + address.String())
		if err := reach.Allow(host, address, target); err != nil {
			return err
		}
		return &net.AddrError{Err: "allowed, and nobody is there"}
	}}
	for _, handler := range []v1beta1.ProbeHandler{
		{TCPSocket: &v1beta1.TCPSocketProbe{Host: "rebind.example.com", Port: port}},
		{HTTPGet: &v1beta1.HTTPGetProbe{Host: "rebind.example.com", Port: port}},
		{GRPC: &v1beta1.GRPCProbe{Host: "rebind.example.com", Port: port.IntVal}},
	} {
		probe := v1beta1.Probe{TimeoutSeconds: 30, ProbeHandler: handler}.WithDefaults()
		var denied *DeniedError
		harmless.Store(true)
		if answer := p.Ask(t.Context(), probe, nil); errors.As(answer.Err, &denied) {
			t.Errorf("the first answer of the name: %v, want it allowed", answer.Err)
		}
		if want := "rebind.example.com " + elsewhere; judged.Load() != want {
			t.Errorf("judged %s, want %s", judged.Load(), want)
		}
		harmless.Store(false)
		if answer := p.Ask(t.Context(), probe, nil); !errors.As(answer.Err, &denied) {
			t.Errorf("the second answer of the name: %+v, want it denied", answer)
		}
		if want := "rebind.example.com 127.0.0.1"; judged.Load() != want {
			t.Errorf("judged %s, want %s", judged.Load(), want)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections to the worker itself, want none", n)
	}
}

// rule P1: without Allow, no address is asked.
func TestNoAddressIsAskedByDefault(t *testing.T) {
	address, connections := silent(t)
	host, port := hostPort(t, address)
	probe := v1beta1.Probe{TimeoutSeconds: timeLimit(""), ProbeHandler: v1beta1.ProbeHandler{TCPSocket: &v1beta1.TCPSocketProbe{Host: host, Port: port}}}
	wantOutcome(t, &Prober{}, probe, nil, errs)
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
}

// answerNames answers every question for an IPv4 address, during the test.
func answerNames(t *testing.T, address func() string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg).SetReply(question)
		if q := question.Question[0]; q.Qtype == dns.TypeA {
			answer.Answer = append(answer.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP(address())})
		}
		_ = w.WriteMsg(answer)
	})}
	done := make(chan struct{})
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	<-started
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = server.Shutdown()
		<-done
	})
}
