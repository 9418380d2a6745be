//go:build linux

// Package grpcapp is a gRPC application that tests disrupt: the test program itself,
// executed once more in a container. It promises to answer as a user's application would,
// with or without a listener.
package grpcapp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/listener"
	"github.com/squall-chaos/squall/listener/protocol"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// Port is the application's port, Endpoint the method it answers.
const (
	Port     = 50051
	Endpoint = grpc_health_v1.Health_Check_FullMethodName
)

// Sort is a type of application.
type Sort string

// The sorts: gRPC with a listener, without one, and not gRPC at all.
const (
	Instrumented Sort = "instrumented"
	Plain        Sort = "plain"
	HTTP         Sort = "http"
)

const environment = "SQUALL_TEST_APPLICATION"

// Run must be the first call of TestMain. It does not return in a process that Command
// started.
func Run() {
	if sort := os.Getenv(environment); sort != "" {
		fmt.Fprintln(os.Stderr, serve(Sort(sort)))
		os.Exit(1)
	}
}

// Command executes the running test program as an application.
func Command(t *testing.T, sort Sort) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", environment + "=" + string(sort), program}
}

// Await waits until the application in the network namespace of a process accepts
// connections.
func Await(t *testing.T, pid int) {
	t.Helper()
	testcontainer.Eventually(t, "the application listens", func() error {
		conn, err := dial(context.Background(), pid)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// Client calls the application in the network namespace of a process.
func Client(t *testing.T, pid int) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///application", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, pid) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// Answer returns the application's answer to one call as text.
func Answer(t *testing.T, pid int) string {
	t.Helper()
	return AnswerTo(t.Context(), Client(t, pid))
}

// AnswerTo is Answer with an existing client.
func AnswerTo(ctx context.Context, client grpc_health_v1.HealthClient) string {
	answer, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err.Error()
	}
	return answer.GetStatus().String()
}

// Reset removes the application's alterations, as every program in its network can.
func Reset(t *testing.T, pid int) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///application", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, pid) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Invoke(t.Context(), protocol.Path(protocol.ResetDisruptions), &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
}

func dial(ctx context.Context, pid int) (conn net.Conn, err error) {
	err = target.Do(fmt.Sprintf("/proc/%d/ns/net", pid), func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", Port))
		return err
	})
	return conn, err
}

func serve(sort Sort) error {
	socket, err := net.Listen("tcp", fmt.Sprintf(":%d", Port))
	if err != nil {
		return err
	}
	if sort == HTTP {
		return http.Serve(socket, http.NotFoundHandler())
	}
	var l listener.Listener
	server := grpc.NewServer(grpc.UnaryInterceptor(l.Intercept))
	if sort == Instrumented {
		l.Register(server)
	}
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return server.Serve(socket)
}
