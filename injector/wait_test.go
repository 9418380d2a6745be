//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// startingPod is a pod before the start of its own containers.
type startingPod struct {
	t                *testing.T
	sandbox, waiting *testcontainer.Container
}

// newStartingPod starts a pod that is held back by command, or by the injector's wait.
func newStartingPod(t *testing.T, command ...string) *startingPod {
	p := &startingPod{t: t, sandbox: testcontainer.Start(t, testcontainer.Sleeps...)}
	p.waiting = p.holdBack(command...)
	return p
}

func (p *startingPod) holdBack(command ...string) *testcontainer.Container {
	p.t.Helper()
	if len(command) == 0 {
		command = []string{realBinary(p.t), v1beta1.OnInitCommand, "--timeout", "5m"}
	}
	return p.container(v1beta1.OnInitContainer, command...)
}

// container starts a container in the pod's network namespace, as its kubelet would.
func (p *startingPod) container(name string, command ...string) *testcontainer.Container {
	p.t.Helper()
	dir := filepath.Join(p.t.TempDir(), "pods", "u-1", "containers", name)
	file := filepath.Join(dir, "1a2b3c4d")
	if err := errors.Join(os.MkdirAll(dir, 0o755), writeFile(file, "")); err != nil {
		p.t.Fatal(err)
	}
	inside := []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", p.sandbox.PID),
		"unshare", "--mount", "sh", "-c", `mount --bind "$0" "$0" && exec "$@"`, file}
	made := testcontainer.Start(p.t, append(inside, command...)...)
	testcontainer.Eventually(p.t, "the container runs "+command[0], func() error {
		line, err := readFile(fmt.Sprintf("/proc/%d/cmdline", made.PID))
		if err == nil && !strings.HasPrefix(line, command[0]+"\x00") {
			err = errors.New(line)
		}
		return err
	})
	return made
}

// injection returns one of kind into a pod that waits for kinds.
func (p *startingPod) injection(kind v1beta1.Kind, kinds ...v1beta1.Kind) v1beta1.Injection {
	injection := injectionOn(kind, sampleParams[kind], p.waiting)
	injection.Disruption.UID = types.UID(p.sandbox.ID)
	injection.Target.Containers[0].Name = v1beta1.OnInitContainer
	injection.OnInit = kinds
	return injection
}

func kindsOnInit() []v1beta1.Kind {
	var kinds []v1beta1.Kind
	for _, row := range v1beta1.KindTable() {
		if row.OnInit {
			kinds = append(kinds, row.Kind)
		}
	}
	return kinds
}

// A pod is released once it is disrupted, and not before. The end of the waiting container
// has no other effect.
func TestPodIsReleasedOnceItIsDisturbed(t *testing.T) {
	for _, kind := range kindsOnInit() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			pod := newStartingPod(t)
			s := realSite(t, "SQUALL_LOOK_EVERY=200ms")
			p := s.inject(pod.injection(kind, kind))
			p.awaitReady()
			pod.waiting.AwaitEnd(t)
			p.awaitLine("the pod was released")
			app := pod.container("app", testcontainer.Sleeps...)
			disturbed := func(when string) {
				t.Helper()
				if marks := p.marks(); len(marks) == 0 || !s.exists("ready") {
					t.Errorf("%s: marks %v, ready file %t, want the pod disturbed", when, marks, s.exists("ready"))
				}
			}
			disturbed("the application starts")
			if kind == v1beta1.KindDNS {
				asksFalsely(t, app)
			}
			app.Kill(t)
			pod.container("app", testcontainer.Sleeps...)
			disturbed("the application was started again")
			if messages := p.messages(); slices.Contains(messages, "container ended") || slices.Contains(messages, "injected again") {
				t.Errorf("log = %q: the pod stayed, so there was nothing to do", messages)
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 || !p.outcome().Cleaned || len(s.journals()) > 0 || len(p.marks()) > 0 {
				t.Errorf("exit code %d, outcome %+v, journals %v, marks %v, want nothing left", code, p.outcome(), s.journals(), p.marks())
			}
		})
	}
}

// asksFalsely asks for the sample's name as the container would, and wants the false answer.
func asksFalsely(t *testing.T, app *testcontainer.Container) {
	t.Helper()
	question := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
	client := dns.Client{Timeout: 20 * time.Second}
	err := target.Do(fmt.Sprintf("/proc/%d/ns/net", app.PID), func() error {
		answer, _, err := client.Exchange(question, "127.0.0.2:53")
		if err == nil && (len(answer.Answer) != 1 || !strings.Contains(answer.Answer[0].String(), "192.0.2.1")) {
			err = fmt.Errorf("told %v, want the record", answer)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// With several kinds the last one in force releases the pod.
func TestPodIsReleasedByTheLastKind(t *testing.T) {
	t.Parallel()
	pod := newStartingPod(t)
	kinds := kindsOnInit()
	s := realSite(t)
	first := s.inject(pod.injection(kinds[0], kinds...))
	first.awaitLine("the pod is held back for other kinds")
	if !pod.waiting.Running() {
		t.Fatal("the pod was released by the first of two kinds")
	}
	others := *s
	others.dir = t.TempDir()
	others.env = append(slices.Clone(s.env), "SQUALL_READY_FILE="+others.file("ready"), "SQUALL_REASON_FILE="+others.file("reason"),
		"SQUALL_TERMINATION_LOG="+others.file("termination"))
	second := others.inject(pod.injection(kinds[1], kinds...))
	second.awaitReady()
	pod.waiting.AwaitEnd(t)
	for _, p := range []*process{first, second} {
		p.signal(syscall.SIGTERM)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code = %d, want 0", code)
		}
	}
}

// A pod whose sandbox is made again waits again, in another network namespace. The test is
// not parallel: all containers of tests are in one pod's cgroup, and it is found by name.
func TestPodThatWaitsAgainIsDisturbedAgain(t *testing.T) {
	pod := newStartingPod(t)
	s := realSite(t)
	p := s.inject(pod.injection(v1beta1.KindNetwork, v1beta1.KindNetwork))
	p.awaitReady()
	pod.waiting.AwaitEnd(t)
	pod.sandbox.Kill(t)
	p.awaitLine("container ended")
	pod.sandbox = testcontainer.Start(t, testcontainer.Sleeps...)
	again := pod.holdBack()
	p.awaitLine("injected again")
	again.AwaitEnd(t)
	if marks := p.marks(); len(marks) == 0 {
		t.Error("the pod is not disturbed")
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || len(p.marks()) > 0 {
		t.Errorf("exit code %d, marks %v, want nothing left", code, p.marks())
	}
}

// Some runtimes keep a pod's network namespace by a mount alone.
func TestPodWithoutASandboxStaysDisturbed(t *testing.T) {
	pod := newStartingPod(t)
	name := "/run/netns/squall-test-" + pod.sandbox.ID
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), writeFile(name, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(name) })
	if err := syscall.Mount(fmt.Sprintf("/proc/%d/ns/net", pod.sandbox.PID), name, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(name, syscall.MNT_DETACH) })
	pod.sandbox.Kill(t)
	s := realSite(t, "SQUALL_LOOK_EVERY=100ms", "SQUALL_PROC="+testcontainer.NodeProc(t, os.Getpid()))
	injection := pod.injection(v1beta1.KindNetwork, v1beta1.KindNetwork)
	beat := v1beta1.Duration{Duration: 500 * time.Millisecond}
	injection.Pulse = &v1beta1.DisruptionPulse{ActiveDuration: &beat, DormantDuration: &beat}
	p := s.inject(injection)
	p.awaitReady()
	pod.waiting.AwaitEnd(t)
	p.awaitLine("injected again") // after the first beat, by the mount
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !p.outcome().Cleaned || len(p.marks()) > 0 {
		t.Errorf("exit code %d, outcome %+v, marks %v, want nothing left", code, p.outcome(), p.marks())
	}
}

// Foreign processes are never signalled, and the disruption stays in force.
func TestOnlyOurContainersAreSignalled(t *testing.T) {
	for name, command := range map[string][]string{
		"another program":  testcontainer.Sleeps,
		"one that listens": {"sh", "-c", `trap "exit 3" USR1; while :; do sleep 1 & wait; done`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newStartingPod(t, command...)
			p := realSite(t).inject(pod.injection(v1beta1.KindNetwork, v1beta1.KindNetwork))
			line := p.awaitLine("the pod was not released")
			if reason, _ := line["reason"].(string); !strings.Contains(reason, "not ours") {
				t.Errorf("reason = %q, want that it is not ours", reason)
			}
			if !pod.waiting.Running() || len(p.marks()) == 0 {
				t.Errorf("container runs %t, marks %v; want both", pod.waiting.Running(), p.marks())
			}
		})
	}
}

func TestPodThatNoLongerWaitsIsReported(t *testing.T) {
	for name, delay := range map[string]time.Duration{"before the injector looks": 0, "while the injection is put off": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newStartingPod(t)
			s := realSite(t)
			injection := pod.injection(v1beta1.KindNetwork, v1beta1.KindNetwork)
			if delay > 0 {
				injection.NotBefore = &metav1.Time{Time: time.Now().Add(delay)}
			} else {
				pod.waiting.Kill(t)
			}
			p := s.inject(injection)
			if delay > 0 {
				p.awaitLine("waiting")
				pod.waiting.Kill(t)
			}
			line := p.awaitLine(v1beta1.MessageInjectionFailed)
			if message, _ := line["error"].(string); !strings.Contains(message, v1beta1.AnnotationOnInitTimeout) {
				t.Errorf("error = %q, want the annotation that helps", message)
			}
			if marks := p.marks(); len(marks) > 0 {
				t.Errorf("marks = %v, want none", marks)
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 || s.exists("ready") {
				t.Errorf("exit code %d, ready file %t", code, s.exists("ready"))
			}
		})
	}
}

// A pod without a disruption starts as well.
func TestWaitEnds(t *testing.T) {
	s := realSite(t)
	s.env = append(s.env, "SQUALL_UNKNOWN=1") // a pod's environment is its own
	p := s.start("", v1beta1.OnInitCommand, "--timeout", "300ms")
	if code := p.exit(); code != 0 || !strings.Contains(p.stdout.String(), "within 300ms") {
		t.Errorf("wait = %d, %s, want 0 after its time", code, p.stdout)
	}
	for _, end := range []syscall.Signal{releaseSignal, syscall.SIGTERM} {
		p := s.start("", v1beta1.OnInitCommand, "--timeout", "10m")
		testcontainer.Eventually(t, "it waits", func() error {
			if !strings.Contains(p.stdout.String(), "10m0s") {
				return errors.New(p.stdout.String())
			}
			return nil
		})
		began := time.Now()
		p.signal(end)
		if code := p.exit(); code != 0 || time.Since(began) > 5*time.Minute {
			t.Errorf("wait ended by %v = %d, want 0 at once", end, code)
		}
	}
	if code, output := s.run(v1beta1.OnInitCommand, "--timeout", "soon"); code != exitRefused {
		t.Errorf("wait with a time that is none = %d, %s", code, output)
	}
}
