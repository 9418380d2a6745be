package probe

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rules P1 and P2
func TestGRPC(t *testing.T) {
	answers := health.NewServer()
	answers.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	answers.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	var mu sync.Mutex // a handler may end after its client has the answer
	var agents []string
	over := make(chan struct{})
	server := grpcServer(t, answers, func(ctx context.Context, service string) error {
		md, _ := metadata.FromIncomingContext(ctx)
		mu.Lock()
		agents = append(agents, md.Get("user-agent")...)
		mu.Unlock()
		switch service {
		case "hang":
			<-over // not before: the client's deadline is also the server's
		case "secret":
			return status.Error(codes.Internal, "the secret")
		}
		return nil
	})
	t.Cleanup(func() { close(over) }) // before the server is stopped
	without := grpcServer(t, nil, nil)
	plain, _, _ := httpServers(t)
	refused := unusedPort(t)
	for _, c := range []struct {
		name, address, service string
		want                   outcome
		text                   string
	}{
		{"SERVING", server, "", succeeds, "health is SERVING"},
		{"NOT_SERVING", server, "down", fails, "health is NOT_SERVING"},
		{"a service that it does not know", server, "unknown", fails, "code NotFound"},
		{"another code, without the server's words", server, "secret", fails, "code Internal"},
		{"no answer in time: one attempt", server, "hang", fails, "no answer in time"},
		{"a server without a health service", without, "", fails, "the server has no health service"},
		{"a server that speaks something else", plain.Listener.Addr().String(), "", fails, ""},
		{"a refused connection: one attempt", refused, "", fails, fmt.Sprintf("dial tcp %s: connect: connection refused", refused)},
		{"a place that must not be asked is an error", elsewhere + ":1", "", errs, "192.0.2.1 must not be asked: it is elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, port := hostPort(t, c.address)
			probe := v1beta1.Probe{TimeoutSeconds: timeLimit(c.text), ProbeHandler: v1beta1.ProbeHandler{GRPC: &v1beta1.GRPCProbe{Host: host, Port: port.IntVal, Service: c.service}}}
			if answer := wantOutcome(t, anyProber(), probe, nil, c.want); c.text != "" && answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "squall-probe/v1.2.3 grpc-go/" + grpc.Version; len(agents) == 0 || agents[0] != want {
		t.Errorf("user agents %q, want %q", agents, want)
	}
}

// grpcServer serves the health service, if there is one; before is called first.
func grpcServer(t *testing.T, answers healthpb.HealthServer, before func(context.Context, string) error) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := before(ctx, request.(*healthpb.HealthCheckRequest).Service); err != nil {
			return nil, err
		}
		return next(ctx, request)
	}))
	if answers != nil {
		healthpb.RegisterHealthServer(server, answers)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return listener.Addr().String()
}
