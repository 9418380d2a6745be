//go:build linux

package grpcdisruption

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/listener/protocol"
)

// The injector connects to the application, and a process without rights sends and receives
// HTTP/2 on that connection. The injector has all rights on the node, and an application
// could exploit a flaw in the code that reads its answers.

// Command is the hidden subcommand of the injector that runs Child.
const Command = "grpc-call"

const (
	// connectionFD is the inherited connection of the process.
	connectionFD = 3
	// maxReply is far more than a reply needs, in bytes.
	maxReply = 8 << 10
	// maxText bounds how much of an application's message a status shows, in bytes.
	maxText = 300
	// maxHeaders and maxMessage bound an application's answer, in bytes. A listener answers
	// some 100 bytes of headers and an empty message.
	maxHeaders = 64 << 10
	maxMessage = 64 << 10
)

// request is one call of the listener. A zero Spec also encodes the empty message of
// ResetDisruptions.
type request struct {
	Method  string
	Spec    protocol.Spec
	Timeout time.Duration
}

// reply is the outcome of a call. Code is a number, as codes.Code refuses to decode the
// codes that gRPC does not define.
type reply struct {
	Code uint32
	Text string
}

// error is nil for codes.OK. The text comes from the application, or from a process that
// the application may control.
func (r reply) error() error {
	return status.Error(codes.Code(r.Code), text.Shorten(text.Printable(r.Text), maxText))
}

// Child makes the call that it reads from standard input, on a connection that it inherits.
// It has no capabilities.
func Child(ctx context.Context, _ []string) error {
	return child.Reply(func(asked request) reply {
		outcome := status.Convert(asked.invoke(ctx))
		return reply{Code: uint32(outcome.Code()), Text: text.Shorten(outcome.Message(), maxText)}
	})
}

func (r request) invoke(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	message, err := protocol.Encode(r.Spec)
	if err != nil {
		return err
	}
	file := os.NewFile(connectionFD, "connection")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("use the inherited connection: %w", err)
	}
	defer conn.Close()
	given := func(context.Context, string) (net.Conn, error) { return conn, nil }
	client, err := grpc.NewClient("passthrough:///"+conn.RemoteAddr().String(), grpc.WithContextDialer(given),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Invoke(ctx, protocol.Path(r.Method), message, &emptypb.Empty{})
}
