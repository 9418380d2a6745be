package matrix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The programs, as points name them.
const (
	worker = "worker"
	bridge = "bridge"
)

// slot is a place for one run at a time: a worker and a bridge of its own, its
// own namespaces in Kubernetes and in Temporal. Many share the two servers.
type slot struct {
	world       *world.World
	in          space
	shop, chaos string
	temporal    temporalclient.Client
	programs    map[string]*world.Program

	// broken is a slot in which a run did not come to its end.
	broken bool
	// onInit are the settings of the bridge that serves the on-init webhook.
	onInit []string

	mu sync.Mutex
	// longHistory makes Temporal suggest a new run for every workflow.
	longHistory bool
	// pair is nil where there is one bridge, which always acts.
	pair        *lives
	stopKeeping func()
	current     *recorder
	old         map[string]oldView
	// ending counts the programs that were asked to end and do not run again yet;
	// ended is what was wrong with their end.
	ending sync.WaitGroup
	ended  error
}

// oldView is what a restarted program is shown: the cluster at a version.
type oldView struct {
	version int64
	// until is zero until a list was answered so.
	until time.Time
}

// lasts is true while the program is to see it.
func (v oldView) lasts() bool {
	return v.version != 0 && (v.until.IsZero() || time.Now().Before(v.until))
}

// space is a namespace of Temporal and a client for it.
type space struct {
	name   string
	client temporalclient.Client
}

// newSpace makes one with the search attributes, and returns when it can be used.
func newSpace(w *world.World, number int) (space, error) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	s := space{name: fmt.Sprintf("slot-%d", number)}
	var err error
	s.client, err = connect.Dial(ctx, connect.Settings{Address: w.Temporal.Address, Namespace: s.name, Lazy: true}, zap.NewNop(), nil)
	if err != nil {
		return s, err
	}
	w.Cleanup(s.client.Close)
	for { // Temporal makes few namespaces a second, and takes a moment to know them
		if err = s.register(ctx); err == nil {
			err = s.addAttributes(ctx)
		}
		if err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("make namespace %s of Temporal: %w", s.name, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (s space) register(ctx context.Context) error {
	_, err := s.client.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: s.name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if _, there := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); there {
		return nil
	}
	return err
}

// addAttributes succeeds when Temporal knows them.
func (s space) addAttributes(ctx context.Context) error {
	_, err := s.client.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: s.name, SearchAttributes: map[string]enumspb.IndexedValueType{
			contract.AttributePhase:     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
			contract.AttributeNamespace: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
			contract.AttributeKinds:     enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
			contract.AttributeStuck:     enumspb.INDEXED_VALUE_TYPE_BOOL,
			contract.AttributeTargets:   enumspb.INDEXED_VALUE_TYPE_INT,
		},
	})
	if err != nil {
		return err
	}
	_, err = s.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: contract.AttributeStuck + " = true"})
	return err
}

// newSlot starts a slot's proxies and programs.
func newSlot(w *world.World, in space) *slot {
	w.Helper()
	s := &slot{
		world: w, in: in, shop: w.NewNamespace("shop-"), chaos: w.NewNamespace("chaos-"), temporal: in.client,
		programs: map[string]*world.Program{}, stopKeeping: func() {}, current: newRecorder(nil), old: map[string]oldView{},
	}
	s.onInit = s.serveOnInit()
	s.programs[worker] = w.Worker(s.settings(worker)...).Start()
	s.programs[bridge] = s.newBridge(bridge).Start()
	return s
}

// settings lead a program through proxies of its own.
func (s *slot) settings(program string) []string {
	return []string{
		"KUBECONFIG=" + s.world.Kubeconfig("http://"+s.kubeProxy(program)),
		"SQUALL_TEMPORAL_ADDRESS=" + s.temporalProxy(program), "SQUALL_TEMPORAL_NAMESPACE=" + s.in.name,
		"SQUALL_CHAOS_NAMESPACE=" + s.chaos, "GOMAXPROCS=1",
	}
}

// newBridge is one that does not run yet.
func (s *slot) newBridge(name string) *world.Program {
	settings := append(s.settings(name), "SQUALL_WATCH_NAMESPACES="+s.shop, "SQUALL_POD_OPS_DRIVER=true")
	if name == bridge {
		settings = append(settings, s.onInit...)
	}
	return s.world.Bridge(settings...)
}

// kubeProxy listens for one program's calls to the API server.
func (s *slot) kubeProxy(program string) (address string) {
	w := s.world
	w.Helper()
	server, err := url.Parse(w.API.Host)
	w.Must(err)
	config := rest.CopyConfig(w.API)
	transport, err := rest.TransportFor(config)
	w.Must(err)
	l := s.listen()
	proxy := &http.Server{Handler: &kubeProxy{s, program, server, transport}}
	go func() { _ = proxy.Serve(l) }()
	w.Cleanup(func() { _ = proxy.Close() })
	return l.Addr().String()
}

// temporalProxy listens for one program's calls to Temporal.
func (s *slot) temporalProxy(program string) (address string) {
	w := s.world
	w.Helper()
	const most = 64 << 20
	server, err := grpc.NewClient(w.Temporal.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most), grpc.MaxCallSendMsgSize(most)))
	w.Must(err)
	t := &temporalProxy{s, program, server}
	proxy := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(t.handle), grpc.MaxRecvMsgSize(most),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	l := s.listen()
	go func() { _ = proxy.Serve(l) }()
	w.Cleanup(func() { proxy.Stop(); _ = server.Close() })
	return l.Addr().String()
}

func (s *slot) listen() net.Listener {
	s.world.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.world.Must(err)
	return l
}

// close ends the programs of a slot that is not used any more.
func (s *slot) close() {
	s.ending.Wait()
	s.stopKeeping()
	for _, program := range s.programs {
		program.Kill()
	}
}

// run is the recorder of the run that is under way.
func (s *slot) run() *recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// long is true when every history counts as long enough for a new run.
func (s *slot) long() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longHistory
}

// begin makes all calls count for a new run.
func (s *slot) begin(f *fault, long bool) *recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longHistory = long
	s.current, s.old, s.ended = newRecorder(f), map[string]oldView{}, nil
	return s.current
}

// restart is SIGKILL, and a new process at once, or, of one of two bridges, once the
// other one acts. The new one sees the cluster as it was at a version for a while,
// unless that is 0.
func (s *slot) restart(program string, version int64) {
	other, two := s.takeDown(program)
	s.programs[program].Kill()
	s.mu.Lock()
	s.old[program] = oldView{version: version}
	s.mu.Unlock()
	if !two {
		s.bringUp(program)
		return
	}
	s.ending.Go(func() {
		s.wrong(s.untilLeads(other))
		s.bringUp(program)
	})
}

// takeDown keeps the test from starting a program elsewhere, and names the bridge that is to
// act in its place, if there is one.
func (s *slot) takeDown(program string) (other string, two bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair == nil || program == worker {
		return "", false
	}
	s.pair.down[program] = true
	if program == bridge {
		return secondBridge, true
	}
	return bridge, true
}

func (s *slot) bringUp(program string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs[program].Start()
	if s.pair != nil {
		s.pair.down[program] = false
	}
}

// wrong notes what was wrong with the end of a program, if anything was.
func (s *slot) wrong(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = errors.Join(s.ended, err)
}

// end asks a program to end, as a rolling update does, and starts it again when
// it has. It does not wait: the call during which it is asked goes on.
func (s *slot) end(program string) {
	p := s.programs[program]
	s.takeDown(program)
	ended := p.Terminate()
	s.ending.Go(func() {
		s.wrong(ended())
		p.Kill() // if it has not ended
		s.bringUp(program)
	})
}

// endedWell waits until each program that was asked to end runs again, and returns what was
// wrong with its end.
func (s *slot) endedWell() error {
	s.ending.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// past is true while a program is to see the past, and until when; before its first list
// that has no end.
func (s *slot) past(program string) (until time.Time, lasts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := s.old[program]
	return view.until, view.lasts()
}

// servePast is the version with which a program's list is answered, 0 for the newest.
// With the first one the while begins for which it sees the past.
func (s *slot) servePast(program string) (version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := s.old[program]
	if !view.lasts() {
		return 0
	}
	if view.until.IsZero() {
		view.until = time.Now().Add(lag)
		s.old[program] = view
	}
	return view.version
}

// sawPast is true when a program got an answer from the past.
func (s *slot) sawPast(program string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.old[program].until.IsZero()
}
