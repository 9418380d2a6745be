//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// asKubelet starts a container of a pod with the file that the kubelet mounts
// into each container, in a mount namespace of its own.
func asKubelet(t *testing.T, name string, command ...string) *testcontainer.Container {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pods", "u-1", "containers", name)
	file := filepath.Join(dir, "1a2b3c4d")
	if err := errors.Join(os.MkdirAll(dir, 0o755), writeFile(file, "")); err != nil {
		t.Fatal(err)
	}
	mounted := append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" "$0" && exec "$@"`, file}, command...)
	made := testcontainer.Start(t, mounted...)
	testcontainer.Eventually(t, "the kubelet's file is mounted", func() error {
		mounts, err := readFile(fmt.Sprintf("/proc/%d/mountinfo", made.PID))
		if err == nil && !strings.Contains(mounts, "/containers/"+name+"/") {
			err = errors.New(mounts)
		}
		return err
	})
	return made
}

// Every kind that holds an effect holds it in a restarted container, or needs no new
// injection there.
func TestContainerThatRestartsIsDisturbedAgain(t *testing.T) {
	for kind, entry := range registry {
		if entry.once || entry.ends {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			name := "app-" + string(kind)
			first := asKubelet(t, name, targetCommand(t, kind)...)
			awaitTarget(t, kind, first)
			neighbour := asKubelet(t, name+"-2", testcontainer.Sleeps...)
			s := realSite(t)
			injection := injectionOn(kind, sampleParams[kind], first)
			injection.Target.Containers[0].Name = name
			injection.Disruption.UID = types.UID(first.ID)
			p := s.inject(injection)
			p.awaitReady()
			if !effect(t, p, first) {
				t.Fatal("the container is not disturbed")
			}
			first.Kill(t)
			p.awaitLine("container ended")
			// An application listens only some time after its container was started.
			late := append([]string{"sh", "-c", `sleep 2 && exec "$0" "$@"`}, targetCommand(t, kind)...)
			second := asKubelet(t, name, late...)
			p.awaitLine("injected again")
			if !effect(t, p, second) {
				t.Error("the container that was started again is not disturbed")
			}
			if kind == v1beta1.KindDiskPressure && effect(t, p, neighbour) {
				t.Error("another container is disturbed")
			}
			if !s.exists("ready") {
				t.Error("the chaos pod is not ready though all is injected")
			}
			p.wantPrepared(second)
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 || !p.outcome().Cleaned || len(s.journals()) > 0 || len(p.marks()) > 0 {
				t.Errorf("exit code %d, outcome %+v, journals %v, marks %v, want nothing left", code, p.outcome(), s.journals(), p.marks())
			}
		})
	}
}

// At the next check the injector follows what has moved since the injection.
func TestWhatMovedIsDisruptedWhereItIs(t *testing.T) {
	w, s := newWorld(t), fakeSite(t, "SQUALL_LOOK_EVERY=50ms")
	p := s.inject(w.injection(fakeParams{}))
	p.awaitReady()
	w.set("moved", "link /data")
	if line := p.awaitLine("moved, injecting again"); line["where"] != "link /data" {
		t.Errorf("log line %v, want what has moved", line)
	}
	p.awaitLine("injected again")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || w.calls() != "inject clean inject clean" {
		t.Errorf("exit code %d, calls %q", code, w.calls())
	}
	w.expect("ended", "one", "two")
}

func TestContainerThatStaysAwayIsReported(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	made := asKubelet(t, "app-away", testcontainer.Sleeps...)
	document, _ := json.Marshal(fakeParams{Dir: w.dir})
	injection := injectionOn(fakeKind, string(document), made)
	injection.Target.Containers[0].Name = "app-away"
	p := s.inject(injection)
	p.awaitReady()
	made.Kill(t)
	p.awaitLine("not injected")
	if code, output := s.run("ready"); code != 1 || !strings.Contains(output, "container app-away") {
		t.Errorf("ready = %d, %q, want 1 and which container is away", code, output)
	}
	asKubelet(t, "app-away", testcontainer.Sleeps...)
	p.awaitLine("injected again")
	if code, output := s.run("ready"); code != 0 {
		t.Errorf("ready = %d, %q, want 0: it has come back", code, output)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || w.calls() != "inject clean inject clean" {
		t.Errorf("exit code %d, calls %q", code, w.calls())
	}
	w.expect("ended", "one", "two")
}

// A container that has finished for good does not delay the injection into the others. If
// it returns, it is injected.
func TestContainerThatFinishedKeepsNoOtherWaiting(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	helper := asKubelet(t, "app-helper", testcontainer.Sleeps...)
	first := asKubelet(t, "app-first", testcontainer.Sleeps...)
	document, _ := json.Marshal(fakeParams{Dir: w.dir})
	injection := injectionOn(fakeKind, string(document), helper, first)
	injection.Target.Containers[0].Name, injection.Target.Containers[1].Name = "app-helper", "app-first"
	p := s.inject(injection)
	p.awaitReady()
	// injected waits for the nth repeated injection, and wants these containers in it.
	injected := func(nth int, want ...*testcontainer.Container) {
		t.Helper()
		var again []map[string]any
		testcontainer.Eventually(t, fmt.Sprintf("injected again %d times", nth), func() error {
			again = slices.DeleteFunc(p.lines(), func(line map[string]any) bool { return line["msg"] != "injected again" })
			if len(again) < nth {
				return fmt.Errorf("%d times", len(again))
			}
			return nil
		})
		containers := fmt.Sprint(again[nth-1]["containers"])
		for _, c := range want {
			if !strings.Contains(containers, c.ID) {
				t.Errorf("injected again into %s, want container %s among them", containers, c.ID)
			}
		}
		if n := strings.Count(containers, "map["); n != len(want) {
			t.Errorf("injected again into %d containers (%s), want %d", n, containers, len(want))
		}
	}
	helper.Kill(t)
	p.awaitLine("a container stays away")
	injected(1, first)
	first.Kill(t)
	second := asKubelet(t, "app-first", testcontainer.Sleeps...)
	injected(2, second)
	if code, output := s.run("ready"); code != 0 {
		t.Errorf("ready = %d, %q, want 0: what runs is injected", code, output)
	}
	injected(3, second, asKubelet(t, "app-helper", testcontainer.Sleeps...))
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !p.outcome().Cleaned {
		t.Errorf("exit code %d, outcome %+v, calls %q", code, p.outcome(), w.calls())
	}
}

// A failed attempt is cleaned, reported, and retried: three times at once, and then after a
// pause.
func TestInjectingAgainIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fails       int
		line, calls string
	}{
		"the third try succeeds":            {2, "injected again", "inject clean inject clean inject clean inject"},
		"the fourth succeeds after a pause": {3, v1beta1.MessageInjectionFailed, "inject clean inject clean inject clean inject clean inject"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t), fakeSite(t)
			app := fmt.Sprintf("app-again-%d", c.fails)
			made := asKubelet(t, app, testcontainer.Sleeps...)
			document, _ := json.Marshal(fakeParams{Dir: w.dir, FailAgain: c.fails})
			injection := injectionOn(fakeKind, string(document), made)
			injection.Target.Containers[0].Name = app
			p := s.inject(injection)
			p.awaitReady()
			made.Kill(t)
			asKubelet(t, app, testcontainer.Sleeps...)
			line := p.awaitLine("not injected")
			if reason, _ := line["reason"].(string); !strings.Contains(reason, "the second file could not be broken") {
				t.Errorf("log line %v, want why", line)
			}
			p.awaitLine(c.line)
			p.awaitReady()
			if w.calls() != c.calls {
				t.Errorf("calls %q, want %q", w.calls(), c.calls)
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 || len(s.journals()) > 0 {
				t.Errorf("exit code %d, journals %v", code, s.journals())
			}
			w.expect("ended", "one", "two")
		})
	}
}

func TestPulseCleansTheInjectionAndInjectsAgain(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{})
	beat, delay := v1beta1.Duration{Duration: 500 * time.Millisecond}, v1beta1.Duration{Duration: time.Second}
	injection.Pulse = &v1beta1.DisruptionPulse{InitialDelay: &delay, ActiveDuration: &beat, DormantDuration: &beat}
	began := time.Now()
	p := s.inject(injection)
	p.awaitLine("waiting")
	w.expect("before the first beat", "one", "two")
	p.awaitReady()
	if took := time.Since(began); took < delay.Duration {
		t.Errorf("injected after %s, before the initial delay of %s", took, delay)
	}
	for _, seen := range []string{"broken", "one", "broken", "one"} {
		testcontainer.Eventually(t, "the file holds "+seen, func() error {
			if got, _ := readFile(w.dir + "/first"); got != seen {
				return errors.New(got)
			}
			return nil
		})
		if !s.exists("ready") {
			t.Error("the chaos pod is not ready between two beats")
		}
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	w.expect("ended", "one", "two")
	if calls := w.calls(); !strings.HasPrefix(calls, "inject clean inject clean") || len(s.journals()) > 0 {
		t.Errorf("calls = %q, journals %v", calls, s.journals())
	}
}

func TestPulseThatCannotBeCleanedIsReportedAndRetriedAtTheEnd(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	injection := w.injection(fakeParams{FailCleans: 4})
	beat := v1beta1.Duration{Duration: 500 * time.Millisecond}
	injection.Pulse = &v1beta1.DisruptionPulse{ActiveDuration: &beat, DormantDuration: &beat}
	p := s.inject(injection)
	line := p.awaitLine(v1beta1.MessageInjectionFailed)
	if message, _ := line["error"].(string); !strings.Contains(message, "clean call 4 failed") || s.exists("ready") {
		t.Errorf("log line %v, ready file %t, want why, and no file", line, s.exists("ready"))
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0: the fifth call succeeded", code)
	}
	w.expect("ended", "one", "two")
}

// The injector injects again when another program removes the effect.
func TestWhatIsLostIsInjectedAgain(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t, "SQUALL_LOOK_EVERY=100ms")
	injection := injectionOn(v1beta1.KindCPUPressure, sampleParams[v1beta1.KindCPUPressure], made)
	injection.Disruption.UID = types.UID(made.ID)
	p := s.inject(injection)
	p.awaitReady()
	p.awaitLine("injected")
	before := p.marks()
	if len(before) != 1 {
		t.Fatalf("marks = %v, want one burner", before)
	}
	var pid int
	if _, err := fmt.Sscanf(before[0], "burner process %d", &pid); err != nil {
		t.Fatalf("mark %q: %v", before[0], err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.awaitLine("lost, injecting again")
	p.awaitLine("injected again")
	if after := p.marks(); len(after) != 1 || after[0] == before[0] {
		t.Errorf("marks = %v, want one burner, and another one", after)
	}
}
