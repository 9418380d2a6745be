package bridgetest

import (
	"net"
	"path"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// TemporalProxy is the address of a proxy before Temporal, for a bridge that runs in a
// process of its own. asked is called for each call, such as "StartWorkflowExecution",
// before the proxy forwards it and again when it is answered. The bridge gets an error of
// asked instead of the answer.
func TemporalProxy(t *testing.T, server string, asked func(call string, answered bool) error) (address string) {
	t.Helper()
	to, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handle := func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		call, ctx := path.Base(method), stream.Context()
		var request, reply []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		if err := asked(call, false); err != nil {
			return err
		}
		if sent, ok := metadata.FromIncomingContext(ctx); ok {
			ctx = metadata.NewOutgoingContext(ctx, sent)
		}
		if err := to.Invoke(ctx, method, &request, &reply, grpc.ForceCodec(asBytes{})); err != nil {
			return err
		}
		if err := asked(call, true); err != nil {
			return err
		}
		return stream.SendMsg(&reply)
	}
	proxy := grpc.NewServer(grpc.ForceServerCodec(asBytes{}), grpc.UnknownServiceHandler(handle),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	go func() { _ = proxy.Serve(listener) }()
	t.Cleanup(func() { proxy.Stop(); _ = to.Close() })
	return listener.Addr().String()
}

// asBytes leaves messages as they are on the wire.
type asBytes struct{}

func (asBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (asBytes) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (asBytes) Name() string { return "proto" }
