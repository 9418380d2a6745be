//go:build linux

package main

import (
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// Container failure ends the running containers once, or every interval up to its limit. A
// restarted container runs until the next turn.
func TestContainerFailureTakesItsTurns(t *testing.T) {
	tests := []struct {
		name, params string
		maxRuns      int
		want         int // how many containers end, one after the other
	}{
		{"once", `{"forced":true}`, 0, 1},
		{"every interval, three times", `{"forced":true,"interval":"300ms"}`, 3, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			made := testcontainer.Start(t, testcontainer.Sleeps...)
			name := "app-" + made.ID // no other test's container has this name
			running := asKubelet(t, name, testcontainer.Sleeps...)
			s := realSite(t)
			injection := injectionOn(v1beta1.KindContainerFailure, test.params, running)
			injection.Disruption.UID, injection.MaxRuns = types.UID(running.ID), test.maxRuns
			injection.Target.Containers[0].Name = name
			p := s.inject(injection)
			for ended := 1; ; ended++ {
				if status := running.AwaitEnd(t); status.Signal() != syscall.SIGKILL {
					t.Fatalf("container %d ended with %v, want SIGKILL", ended, status)
				}
				if ended == 1 {
					p.awaitReady()
				}
				if ended < test.want {
					p.awaitLine("passed over") // no container runs
				}
				running = asKubelet(t, name, testcontainer.Sleeps...)
				if ended == test.want {
					break
				}
			}
			for end := time.Now().Add(holdFor); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if !running.Running() || !s.exists("ready") {
					t.Fatalf("after all turns: container running %t, chaos pod ready %t, want both", running.Running(), s.exists("ready"))
				}
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 || !made.Running() || len(s.journals()) > 0 {
				t.Errorf("exit code %d, another container running %t, journals %v, want 0, true and none", code, made.Running(), s.journals())
			}
		})
	}
}

// A container that has begun to ignore the signal is reported, as at the first turn.
func TestTurnWithoutEffectIsReported(t *testing.T) {
	running := testcontainer.Start(t, testcontainer.ExitsOnTerm...)
	name := "app-" + running.ID
	first := asKubelet(t, name, "sh", "-c", `trap "exit 3" TERM; while :; do sleep 0.1; done`)
	first.AwaitTermHandler(t)
	s := realSite(t)
	injection := injectionOn(v1beta1.KindContainerFailure, `{"interval":"300ms"}`, first)
	injection.Target.Containers[0].Name = name
	p := s.inject(injection)
	p.awaitReady()
	stubborn := asKubelet(t, name, "sh", "-c", `trap "" TERM; exec sleep 1000`)
	p.awaitLine(v1beta1.MessageInjectionFailed)
	if s.exists("ready") || !stubborn.Running() {
		t.Errorf("chaos pod ready %t, container running %t, want false and true", s.exists("ready"), stubborn.Running())
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}
