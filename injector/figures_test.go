//go:build linux

package main

import (
	"errors"
	"flag"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testcontainer"
)

var figures = flag.Int("figures", 1, "how often TestHowLongAnInjectorTakes has each kind injected")

// TestHowLongAnInjectorTakes logs the time from the start, which reads the document, to the
// ready file, and from SIGTERM to an exit with everything undone. -figures 20 injects
// twenty times. The test bounds nothing: machines differ. The processor time, children
// included, varies least beside other load.
func TestHowLongAnInjectorTakes(t *testing.T) {
	for _, kind := range []v1beta1.Kind{
		v1beta1.KindNetwork, v1beta1.KindDiskPressure, v1beta1.KindCPUPressure, v1beta1.KindDNS, v1beta1.KindContainerFailure,
		v1beta1.KindDiskFailure, v1beta1.KindMemoryPressure, v1beta1.KindGRPC,
	} {
		t.Run(string(kind), func(t *testing.T) {
			var ready, gone, worked []time.Duration
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
				worked = append(worked, p.command.ProcessState.UserTime()+p.command.ProcessState.SystemTime())
				if outcome := p.ending(); code != 0 || !outcome.Injected || !outcome.Cleaned || len(s.journals()) > 0 {
					t.Errorf("exit code %d, %+v, journals %v; want it injected and cleaned", code, outcome, s.journals())
				}
			}
			logFigures(t, "start to ready", ready)
			logFigures(t, "signal to exit", gone)
			logFigures(t, "processor time", worked)
		})
	}
}

// TestHowLongARestartTakes logs how long a restarted container has run, by the kernel's
// figures, when its disk is limited. The container was away for up to three seconds.
func TestHowLongARestartTakes(t *testing.T) {
	const name = "app-restarts"
	made := asKubelet(t, name, testcontainer.Sleeps...)
	injection := injectionOn(v1beta1.KindDiskPressure, sampleParams[v1beta1.KindDiskPressure], made)
	injection.Target.Containers[0].Name = name
	injection.Disruption.UID = types.UID(made.ID)
	p := realSite(t).inject(injection)
	p.awaitReady()
	var took []time.Duration
	for i := range *figures {
		made.Kill(t)
		time.Sleep(time.Duration(i%10) * 300 * time.Millisecond) // as a kubelet backs off
		began := time.Now()
		made = asKubelet(t, name, testcontainer.Sleeps...)
		testcontainer.Eventually(t, "the container is disturbed", func() error {
			if !effect(t, p, made) {
				return errors.New("it is not")
			}
			return nil
		})
		took = append(took, time.Since(began))
	}
	logFigures(t, "start of a container to its effect", took)
}

func logFigures(t *testing.T, what string, took []time.Duration) {
	slices.Sort(took)
	t.Logf("%s: p50 %s, p95 %s, longest %s of %d", what, took[len(took)/2], took[(len(took)*95+99)/100-1], took[len(took)-1], len(took))
}
