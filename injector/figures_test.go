package main

import (
	"flag"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var figures = flag.Int("figures", 1, "how often TestHowLongAnInjectorTakes has each kind injected")

// Tells what an injector takes from its start, which reads the document, to its
// ready file, and from SIGTERM to its exit with everything undone; with -figures 20
// for docs/kinds/README.md. It bounds nothing: machines differ.
func TestHowLongAnInjectorTakes(t *testing.T) {
	for _, kind := range []v1beta1.Kind{v1beta1.KindNetwork, v1beta1.KindDiskPressure, v1beta1.KindCPUPressure, v1beta1.KindDNS, v1beta1.KindContainerFailure} {
		t.Run(string(kind), func(t *testing.T) {
			var ready, gone []time.Duration
			for range *figures {
				made := startTarget(t, kind)
				s := realSite(t, "SQUALL_GUARD=true") // as in a chaos pod
				injection := injectionOn(kind, sampleParams[kind], made)
				injection.Disruption.UID = types.UID(made.ID)
				began := time.Now()
				p := s.inject(injection)
				p.awaitReady()
				ready = append(ready, time.Since(began))
				began = time.Now()
				p.signal(syscall.SIGTERM)
				code := p.exit()
				gone = append(gone, time.Since(began))
				if outcome := p.ending(); code != 0 || !outcome.Injected || !outcome.Cleaned || len(s.journals()) > 0 {
					t.Errorf("exit code %d, %+v, journals %v; want it injected and cleaned", code, outcome, s.journals())
				}
			}
			for what, took := range map[string][]time.Duration{"start to ready": ready, "signal to exit": gone} {
				slices.Sort(took)
				t.Logf("%s: p50 %s, p95 %s, longest %s of %d", what, took[len(took)/2], took[(len(took)*95+99)/100-1], took[len(took)-1], len(took))
			}
		})
	}
}
