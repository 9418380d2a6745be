// Package listener is the part of a gRPC application in Go that disrupts it on request: a
// service that receives alterations, and an interceptor that applies them. It promises that
// an application without alterations answers as usual.
package listener

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/squall-chaos/squall/listener/protocol"
)

// Listener holds the alterations. The zero value alters nothing.
type Listener struct {
	mu sync.RWMutex
	// slots has up to 100 alterations for each endpoint. A call gets one or none of them.
	slots map[string][]protocol.Alteration
}

// Register adds the service to a server, which must have been made with the option
// grpc.UnaryInterceptor(l.Intercept), or one that chains it.
func (l *Listener) Register(server grpc.ServiceRegistrar) { server.RegisterService(&description, l) }

// Intercept answers with the drawn alteration, and calls handler if there is none.
func (l *Listener) Intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	l.mu.RLock()
	slots := l.slots[info.FullMethod]
	l.mu.RUnlock()
	drawn := rand.IntN(100)
	if drawn >= len(slots) {
		return handler(ctx, request)
	}
	code := codeNamed(slots[drawn].ErrorToReturn)
	if code == codes.OK {
		return &emptypb.Empty{}, nil // on the wire it equals every other empty message
	}
	return nil, status.Errorf(code, "%s is disrupted", info.FullMethod)
}

func (l *Listener) disrupt(spec protocol.Spec) error {
	slots := map[string][]protocol.Alteration{}
	for _, endpoint := range spec.Endpoints {
		if endpoint.TargetEndpoint == "" {
			return status.Error(codes.InvalidArgument, "endpoint \"\": want /package.Service/Method")
		}
		shared, err := share(endpoint.Alterations)
		if err != nil {
			return status.Errorf(codes.InvalidArgument, "endpoint %s: %v", endpoint.TargetEndpoint, err)
		}
		slots[endpoint.TargetEndpoint] = shared
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.slots) > 0 {
		return status.Error(codes.AlreadyExists, "the application is disrupted already")
	}
	l.slots = slots
	return nil
}

func (l *Listener) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = nil
}

// share gives each alteration the slots it asks for, of 100. The alterations without a
// share get equal parts of the rest, and the last of them the remainder.
func share(alterations []protocol.Alteration) ([]protocol.Alteration, error) {
	rest, unquantified := 100, 0
	for _, a := range alterations {
		if (a.ErrorToReturn == "") == (a.OverrideToReturn == "") || a.ErrorToReturn != "" && !known(a.ErrorToReturn) {
			return nil, fmt.Errorf("error %q, override %q: want either the name of a code or {}", a.ErrorToReturn, a.OverrideToReturn)
		}
		if rest -= int(max(a.QueryPercent, 0)); a.QueryPercent <= 0 {
			unquantified++
		}
	}
	if rest < unquantified {
		return nil, errors.New("alterations of more than 100% of the calls: lower a queryPercent")
	}
	var slots []protocol.Alteration
	for _, a := range alterations {
		part := int(a.QueryPercent)
		if part <= 0 {
			part = rest / unquantified
			rest, unquantified = rest-part, unquantified-1
		}
		for range part {
			slots = append(slots, a)
		}
	}
	return slots, nil
}

// names are the API's names of the codes, by their numbers.
var names = strings.Fields(`OK CANCELED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS
	PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE
	DATA_LOSS UNAUTHENTICATED`)

func known(name string) bool { return name == names[0] || codeNamed(name) != codes.OK }

// codeNamed returns the code of a name, OK for an unknown one.
func codeNamed(name string) codes.Code {
	for number, known := range names {
		if known == name {
			return codes.Code(number)
		}
	}
	return codes.OK
}

// description describes the service to a server.
var description = grpc.ServiceDesc{
	ServiceName: protocol.Service,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		method(protocol.Disrupt, protocol.NewMessage, func(l *Listener, message proto.Message) error {
			spec, err := protocol.Decode(message)
			if err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			return l.disrupt(spec)
		}),
		method(protocol.ResetDisruptions, func() proto.Message { return &emptypb.Empty{} }, func(l *Listener, _ proto.Message) error {
			l.reset()
			return nil
		}),
	},
}

// method is never intercepted: the call that ends a disruption must not be disrupted.
func method(name string, request func() proto.Message, handle func(*Listener, proto.Message) error) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(l any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		message := request()
		if err := decode(message); err != nil {
			return nil, err
		}
		if err := handle(l.(*Listener), message); err != nil {
			return nil, err
		}
		return &emptypb.Empty{}, nil
	}}
}
