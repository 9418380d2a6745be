//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/squall-chaos/squall/listener"
)

// serveGRPC is an application that can be disrupted: it answers health checks.
func serveGRPC(ctx context.Context, args []string) (any, error) {
	flags := flag.NewFlagSet("grpc", flag.ContinueOnError)
	address := flags.String("listen", ":50051", "where it answers")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	socket, err := net.Listen("tcp", *address)
	if err != nil {
		return nil, err
	}
	var chaos listener.Listener
	server := grpc.NewServer(grpc.UnaryInterceptor(chaos.Intercept))
	chaos.Register(server)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	defer context.AfterFunc(ctx, server.Stop)()
	return "ended", server.Serve(socket)
}

// callGRPC asks for the health of such an application again and again, and counts
// the codes that it is answered with.
func callGRPC(ctx context.Context, args []string) (any, error) {
	flags := flag.NewFlagSet("call", flag.ContinueOnError)
	to := flags.String("to", "127.0.0.1:50051", "the application")
	count := flags.Int("count", 1, "how often")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+*to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", *to, err)
	}
	defer conn.Close()
	client, codes := grpc_health_v1.NewHealthClient(conn), map[string]int{}
	for range *count {
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		codes[status.Code(err).String()]++
	}
	return codes, nil
}
