package world_test

import (
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// TestWorld goes through what a test of crashes needs: programs led through
// proxies, a worker in place of a killed one, an injector that fails, and a
// cleaner that ends by itself.
func TestWorld(t *testing.T) {
	w := world.Start(t)
	api, temporal := startProxy(t, w.APIAddress()), startProxy(t, w.Temporal.Address)
	settings := []string{"KUBECONFIG=" + w.Kubeconfig(api.address), "SQUALL_TEMPORAL_ADDRESS=" + temporal.address, "SQUALL_PARALLEL=2"}
	first := w.Worker(settings...).Start()
	w.Bridge(settings...).Start()
	w.Targets(3)
	var reopened atomic.Bool
	w.Kubelets.Exits(func(pod *corev1.Pod) world.Exit {
		if pod.Labels[v1beta1.LabelTarget] == "web-00001" && !(reopened.Load() && pod.Labels[v1beta1.LabelCleaner] != "") {
			return world.Exit{Code: 1, Message: "the wheel came off"}
		}
		return world.Clean(pod)
	})
	d := w.Create(w.Disruption("unlucky", 3))
	w.Injected(d)
	if api.connections.Load() == 0 || temporal.connections.Load() == 0 {
		t.Errorf("%d connections to the API server and %d to Temporal by their proxies, want some", api.connections.Load(), temporal.connections.Load())
	}
	seen, before := w.Meter.Read(t), floorCalls(w)
	w.Floor(w.ChaosPods(d), 3, 3)
	if made := floorCalls(w) - before; made != 6 {
		t.Errorf("of the floor the API server wrote down %d calls, want three POST and three DELETE, as it writes down those of the programs", made)
	}
	if made := w.Meter.Read(t).Since(seen); made["DELETE pods"] > 0 {
		t.Errorf("calls of the floor are counted as the programs': %v", made)
	}
	first.Kill()
	w.Worker(settings...).Start()
	w.Must(w.Disruptions.Delete(t.Context(), d))
	world.Eventually(t, w.Patience, "the disruption is stuck", func() bool { return w.See(d) && d.Status.Phase == v1beta1.PhaseStuck })
	if n := w.Kubelets.There(w.Chaos); n != 1 {
		t.Errorf("%d chaos pods are left, want the one that failed", n)
	}
	reopened.Store(true)
	resume, err := w.Workflows.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: world.WorkflowOf(d), UpdateName: contract.UpdateResume, WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{contract.Resume{Action: contract.ActionRetry}},
	})
	w.Must(err)
	w.Must(resume.Get(t.Context(), nil))
	w.Vanishes(d)
	w.NothingLeft(d)
}

// floorCalls counts the calls of the floor that the API server has written down, for all
// tests of the package.
func floorCalls(w *world.World) int {
	w.Helper()
	log, err := os.ReadFile(w.AuditLog)
	w.Must(err)
	return strings.Count(string(log), `"username":"floor"`)
}

// proxy passes every byte on.
type proxy struct {
	address     string
	connections atomic.Int32
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &proxy{address: listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			p.connections.Add(1)
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return p
}
