//go:build linux

package grpcdisruption

import (
	"context"
	"errors"
	"log"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func TestMain(m *testing.M) {
	grpcapp.Run()
	if len(os.Args) == 2 && os.Args[1] == Command {
		if err := Child(context.Background(), nil); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	serving = "SERVING"
	nothing = "UNKNOWN" // the status of an empty answer
)

// world is an application in a container, and the journals of its node.
type world struct {
	*testing.T
	app      *testcontainer.Container
	journals string
}

func start(t *testing.T, command ...string) *world {
	t.Helper()
	return &world{T: t, app: testcontainer.Start(t, command...), journals: t.TempDir()}
}

func serve(t *testing.T, sort grpcapp.Sort) *world {
	t.Helper()
	w := start(t, grpcapp.Command(t, sort)...)
	grpcapp.Await(t, w.app.PID)
	return w
}

// injector disrupts the application, with a journal directory of this name.
func (w *world) injector(name string, endpoints ...v1beta1.GRPCEndpoint) *Injector {
	w.Helper()
	injection := v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "d-1"},
		Kind:       v1beta1.KindGRPC, Level: v1beta1.LevelPod,
		Target: v1beta1.InjectionTarget{Namespace: "shop", Name: "web-0", UID: "t-1", NodeName: "node-1",
			Containers: []v1beta1.InjectionContainer{{Name: "app", ID: w.app.ID}}},
	}
	t, err := target.Load(w.Context(), injection, "")
	if err != nil {
		w.Fatal(err)
	}
	j, err := journal.Open(w.journals+"/"+name, t)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(j.Close)
	return New(v1beta1.GRPCDisruption{Port: grpcapp.Port, Endpoints: endpoints}, t, j)
}

func (w *world) do(what string, f func(context.Context) error) {
	w.Helper()
	if err := f(w.Context()); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// wants wants the application to answer with this text.
func (w *world) wants(want string) {
	w.Helper()
	if got := grpcapp.Answer(w.T, w.app.PID); !strings.Contains(got, want) {
		w.Errorf("the application answers %q, want %q", got, want)
	}
}

// leaves wants this many objects to be left.
func (w *world) leaves(i *Injector, want int) {
	w.Helper()
	if left, err := i.Left(w.Context()); err != nil || len(left) != want {
		w.Errorf("left = %q, %v, want %d", left, err, want)
	}
}

func fails(code string) v1beta1.GRPCEndpoint {
	return v1beta1.GRPCEndpoint{TargetEndpoint: grpcapp.Endpoint, ErrorToReturn: code}
}

func share(percent int, e v1beta1.GRPCEndpoint) v1beta1.GRPCEndpoint {
	e.QueryPercent = v1beta1.PercentNumber(percent)
	return e
}

var overridden = v1beta1.GRPCEndpoint{TargetEndpoint: grpcapp.Endpoint, OverrideToReturn: "{}"}

func TestEveryCodeIsAnswered(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	client := grpcapp.Client(t, w.app.PID)
	for number, name := range strings.Fields(`OK CANCELED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS
		PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE
		DATA_LOSS UNAUTHENTICATED`) {
		i := w.injector("d-1", fails(name))
		w.wants(serving)
		w.do("inject", i.Inject)
		answer, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if status.Code(err) != codes.Code(number) || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_UNKNOWN {
			t.Errorf("%s: the application answers %v, %v", name, answer, err)
		}
		w.leaves(i, 1)
		w.do("clean", i.Clean)
		w.leaves(i, 0)
		w.do("clean again", i.Clean)
		w.wants(serving)
		w.do("remove the journal", func(context.Context) error { return i.journal.Remove() })
	}
}

func TestOverrideIsAnEmptyAnswer(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	i := w.injector("d-1", overridden)
	w.do("inject", i.Inject)
	w.wants(nothing)
	w.do("clean", i.Clean)
	w.wants(serving)
}

func TestOtherEndpointsAnswerAsBefore(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	other := fails("UNAVAILABLE")
	other.TargetEndpoint += "s"
	w.do("inject", w.injector("d-1", other).Inject)
	w.wants(serving)
}

// Five standard deviations: one run in a million exceeds them.
func TestSharesOfCalls(t *testing.T) {
	const calls = 2000
	for _, test := range []struct {
		name      string
		endpoints []v1beta1.GRPCEndpoint
		want      map[string]float64
	}{
		{"one", []v1beta1.GRPCEndpoint{share(40, fails("UNAVAILABLE"))}, map[string]float64{"Unavailable": .4, serving: .6}},
		{"two that leave a rest", []v1beta1.GRPCEndpoint{share(20, fails("UNAVAILABLE")), share(30, overridden)},
			map[string]float64{"Unavailable": .2, nothing: .3, serving: .5}},
		{"the rest is shared", []v1beta1.GRPCEndpoint{fails("ABORTED"), share(20, fails("UNAVAILABLE")), share(30, overridden), fails("NOT_FOUND")},
			map[string]float64{"Unavailable": .2, nothing: .3, "Aborted": .25, "NotFound": .25, serving: 0}},
		{"all", []v1beta1.GRPCEndpoint{share(100, overridden)}, map[string]float64{nothing: 1, serving: 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := serve(t, grpcapp.Instrumented)
			w.do("inject", w.injector("d-1", test.endpoints...).Inject)
			client, got := grpcapp.Client(t, w.app.PID), map[string]int{}
			for range calls {
				answer, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				if err != nil {
					got[status.Code(err).String()]++
				} else {
					got[answer.GetStatus().String()]++
				}
			}
			seen := 0
			for answer, part := range test.want {
				seen += got[answer]
				if bound := 5 * math.Sqrt(calls*part*(1-part)); math.Abs(float64(got[answer])-calls*part) > bound {
					t.Errorf("%s = %d of %d, want %.0f ± %.0f", answer, got[answer], calls, calls*part, bound)
				}
			}
			if seen != calls {
				t.Errorf("answers = %v, want no others than %v", got, test.want)
			}
		})
	}
}

// A refusal has a reason, and comes before any note or change.
func TestRefusals(t *testing.T) {
	instrumented := grpcapp.Command(t, grpcapp.Instrumented)
	for _, test := range []struct {
		name    string
		command []string
		change  func(*Injector)
		want    string
		gone    bool
	}{
		{name: "nobody listens", command: testcontainer.Sleeps, want: "no process accepts connections on port 50051 of pod shop/web-0", gone: true},
		{name: "no listener", command: grpcapp.Command(t, grpcapp.Plain), want: "it has no service disruptionlistener.DisruptionListener"},
		{name: "no gRPC", command: grpcapp.Command(t, grpcapp.HTTP), want: "does not speak gRPC without TLS"},
		{name: "the node's network", command: instrumented, want: "shares the network of node node-1", change: func(i *Injector) {
			i.target.Injection.Target.NodeIPs = []string{"192.0.2.1"}
			i.target.Injection.Target.PodIPs = []string{"192.0.2.1"}
		}},
		{name: "another port", command: instrumented, want: "on port 50052", gone: true, change: func(i *Injector) { i.params.Port++ }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t, test.command...)
			if test.command[0] != testcontainer.Sleeps[0] {
				grpcapp.Await(t, w.app.PID)
			}
			i := w.injector("d-1", fails("UNAVAILABLE"))
			if test.change != nil {
				test.change(i)
			}
			err := i.Inject(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("inject = %v, want %q, and that nothing was changed", err, test.want)
			}
			if got := errors.Is(err, target.ErrGone); got != test.gone {
				t.Errorf("%v is gone: %t, want %t: what is gone is awaited", err, got, test.gone)
			}
			if _, probeErr := i.Probe(); probeErr == nil || !strings.Contains(probeErr.Error(), test.want) {
				t.Errorf("probe = %v, want what an injection meets", probeErr)
			}
			if changes := i.journal.Changes(); len(changes) > 0 {
				t.Errorf("journal = %v, want nothing", changes)
			}
			w.do("clean", i.Clean)
			w.leaves(i, 0)
		})
	}
}

func TestProbeChangesNothing(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	i := w.injector("d-1", fails("UNAVAILABLE"))
	if report, err := i.Probe(); err != nil || !strings.Contains(report, "has a listener") {
		t.Errorf("probe = %q, %v", report, err)
	}
	w.wants(serving)
	if report, err := New(v1beta1.GRPCDisruption{}, &target.Target{}, nil).Probe(); err != nil || !strings.Contains(report, "listener") {
		t.Errorf("probe without a target = %q, %v", report, err)
	}
}

func TestForeignDisruptionIsLeftAlone(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	theirs, ours := w.injector("theirs", fails("ABORTED")), w.injector("ours", fails("UNAVAILABLE"))
	w.do("inject theirs", theirs.Inject)
	if err := ours.Inject(t.Context()); !errors.Is(err, errTaken) || len(ours.journal.Changes()) > 0 {
		t.Errorf("inject = %v, journal %v, want it refused", err, ours.journal.Changes())
	}
	netnses, err := ours.target.Netnses()
	if err != nil {
		t.Fatal(err)
	}
	// The other disruption may also begin between our query and our message.
	if err := ours.disrupt(t.Context(), netnses[0]); !errors.Is(err, errTaken) {
		t.Errorf("disrupt = %v, want it refused", err)
	}
	w.leaves(ours, 0)
	w.do("clean ours", ours.Clean)
	w.wants("Aborted")
	w.do("clean theirs", theirs.Clean)
	w.wants(serving)
}

// rule 58
func TestCleanAfterTheInjectorWasKilled(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	killed := w.injector("d-1", fails("UNAVAILABLE"))
	w.do("inject", killed.Inject)
	killed.journal.Close() // as the kernel does
	w.wants("Unavailable")

	j, err := journal.Reopen(w.journals+"/d-1", killed.target.Injection)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	recovered, err := target.Recover(j.Record().Injection, j.Record().Containers, "")
	if err != nil {
		t.Fatal(err)
	}
	cleaner := New(killed.params, recovered, j)
	w.leaves(cleaner, 1)
	w.do("clean", cleaner.Clean)
	w.leaves(cleaner, 0)
	w.wants(serving)
}

func TestGoneTargetIsClean(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	i := w.injector("d-1", fails("UNAVAILABLE"))
	w.do("inject", i.Inject)
	w.app.Kill(t)
	w.do("clean", i.Clean)
	w.leaves(i, 0)
}

// Left misses a listener without its alterations, so that they are injected again.
func TestForgottenDisruptionIsNotLeft(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	i := w.injector("d-1", fails("UNAVAILABLE"))
	w.do("inject", i.Inject)
	netnses, err := i.target.Netnses()
	if err != nil {
		t.Fatal(err)
	}
	w.do("reset", func(ctx context.Context) error { return i.reset(ctx, netnses[0]) })
	w.leaves(i, 0)
	w.wants(serving)
}

// An application that does not answer may still be disrupted.
func TestApplicationThatHangsIsNotClean(t *testing.T) {
	w := serve(t, grpcapp.Instrumented)
	i := w.injector("d-1", fails("UNAVAILABLE"))
	w.do("inject", i.Inject)
	testcontainer.Freeze(t, w.app.PID)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := i.Clean(ctx); err == nil {
		t.Error("clean = nil, want that it does not answer")
	}
	if left, err := i.Left(ctx); err == nil {
		t.Errorf("left = %q, nil, want that nobody knows", left)
	}
	w.do("continue", func(context.Context) error { return syscall.Kill(w.app.PID, syscall.SIGCONT) })
	w.do("clean", i.Clean)
	w.wants(serving)
}
