package probe

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// grpc succeeds when the health service reports SERVING. It returns an error only for
// an address that must not be asked.
func (p *Prober) grpc(ctx context.Context, probe *v1beta1.GRPCProbe, target *Target) (Answer, error) {
	place, err := target.place(probe.Host, intstr.FromInt32(probe.Port))
	if err != nil {
		return Answer{}, err
	}
	connect := &lastError{dial: p.dial(target)}
	conn, err := grpc.NewClient("passthrough:///"+place, // the name is resolved where the address is judged
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(connect.Dial),
		grpc.WithUserAgent(p.userAgent()),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody)))
	if err != nil {
		return Answer{Result: Failure, Text: err.Error()}, nil
	}
	defer func() { _ = conn.Close() }()
	health, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: probe.Service})
	if dialErr := connect.get(); err != nil && dialErr != nil {
		return failed(dialErr)
	}
	switch code := status.Code(err); {
	case code == codes.Unimplemented:
		return Answer{Result: Failure, Text: "the server has no health service"}, nil
	case code == codes.DeadlineExceeded:
		return Answer{Result: Failure, Text: "no answer in time"}, nil
	case err != nil: // its message is the server's
		return Answer{Result: Failure, Text: "code " + code.String()}, nil
	case health.Status != healthpb.HealthCheckResponse_SERVING:
		return Answer{Result: Failure, Text: "health is " + health.Status.String()}, nil
	}
	return Answer{Result: Success, Text: "health is SERVING"}, nil
}

// lastError keeps why the last connection failed. gRPC keeps only a text of it.
type lastError struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu  sync.Mutex
	err error
}

func (l *lastError) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, "tcp", address)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	return conn, err
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
