package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
)

// text is what a command writes while a test reads it.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// watched is a squall run and its output.
type watched struct {
	*live
	ref        v1beta1.DisruptionRef
	out        *text
	interrupts chan os.Signal
	code       chan int
}

// watch begins squall run of a disruption. change sets its streams.
func (l *live) watch(name string, change func(*console.Streams), options ...string) *watched {
	l.t.Helper()
	w := l.running(fmt.Sprintf("apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: %s, finalizers: [%s]}\n"+
		"spec: {selector: {app: web}, count: 2, duration: 5m, cpuPressure: {}}\n", name, v1beta1.DisruptionFinalizer), change, options...)
	l.Eventually("the disruption is created", func() bool {
		d := &v1beta1.Disruption{}
		err := l.Plain.Get().Namespace(l.Shop).Resource("disruptions").Name(name).Do(l.Context()).Into(d)
		w.ref = d.Ref()
		return err == nil
	})
	return w
}

// running begins squall run of a manifest. change sets its streams.
func (l *live) running(manifest string, change func(*console.Streams), options ...string) *watched {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "run.yaml")
	l.Must(os.WriteFile(file, []byte(manifest), 0o600))
	w := &watched{live: l, out: &text{}, interrupts: make(chan os.Signal), code: make(chan int, 1)}
	s := console.Streams{In: strings.NewReader(""), Out: w.out, Err: w.out, Interrupts: w.interrupts}
	if change != nil {
		change(&s)
	}
	go func() { w.code <- squall(l.t.Context(), append([]string{"squall", "run", file}, options...), s) }()
	return w
}

// prints waits until the command has printed a text.
func (w *watched) prints(what string) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("it says %q", what), func() bool { return strings.Contains(w.out.String(), what) })
}

// ends wants the command to end with a code and to have printed all of these.
func (w *watched) ends(code int, texts ...string) {
	w.t.Helper()
	select {
	case got := <-w.code:
		w.want(call{code: got, out: w.out.String()}, code, texts...)
	case <-time.After(time.Minute):
		w.t.Fatalf("it did not end; it said:\n%s", w.out.String())
	}
}

func holding(s *v1beta1.DisruptionStatus) {
	s.Phase, s.Targets, s.InjectionStatus, s.InjectedTime = v1beta1.PhaseHolding, "2/2", v1beta1.Injected, &metav1.Time{Time: time.Now()}
}

func finished(ending string) func(*v1beta1.DisruptionStatus) {
	return func(s *v1beta1.DisruptionStatus) { s.Phase, s.Ending = v1beta1.PhaseFinished, ending }
}

func TestRunToTheEnd(t *testing.T) {
	l := newLive(t)
	for _, test := range []struct {
		name   string
		status []func(*v1beta1.DisruptionStatus)
		code   int
		want   string
	}{
		{"expired", []func(*v1beta1.DisruptionStatus){holding, finished("expired")}, console.ExitOK, "Passed: "},
		{"never-injected", []func(*v1beta1.DisruptionStatus){finished("expired")}, console.ExitInconclusive, "not every target was injected"},
		{"stopped", []func(*v1beta1.DisruptionStatus){holding, finished("emergency stop all: payment is down")}, console.ExitAborted, "emergency stop all: payment is down"},
		{"rejected", []func(*v1beta1.DisruptionStatus){func(s *v1beta1.DisruptionStatus) {
			s.Phase = v1beta1.PhaseRejected
			s.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "MissingRights",
				Message: "the worker may not", LastTransitionTime: metav1.Now()}}
		}}, console.ExitError, "nothing was injected: the worker may not"},
		{"stuck", []func(*v1beta1.DisruptionStatus){holding, func(s *v1beta1.DisruptionStatus) { s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseStuck, true }},
			console.ExitStuck, "a person must decide"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := l.in(t).watch(test.name, nil)
			for _, change := range test.status {
				w.becomes(w.ref, change)
			}
			w.ends(test.code, test.want)
			w.finalize(w.ref)
		})
	}
}

func TestRunShowsWhatHappens(t *testing.T) {
	w := newLive(t).watch("lossy", nil)
	w.becomes(w.ref, holding)
	w.prints("lossy: Holding, 2/2 injected")
	_, err := w.Client.CoreV1().Events(w.Shop).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "lossy.1", Namespace: w.Shop},
		InvolvedObject: corev1.ObjectReference{Kind: "Disruption", Namespace: w.Shop, Name: "lossy", UID: w.ref.UID},
		Reason:         "ChaosPodCreated", Message: "2 chaos pods created",
	}, metav1.CreateOptions{})
	w.Must(err)
	w.prints("ChaosPodCreated: 2 chaos pods created")
	w.becomes(w.ref, finished("expired"))
	w.ends(console.ExitOK)
	w.finalize(w.ref)
}

func TestRunIsInterrupted(t *testing.T) {
	l := newLive(t)
	person := func(answer string) func(*console.Streams) {
		return func(s *console.Streams) {
			s.Asks, s.Terminal, s.ErrTerminal, s.In = true, true, true, strings.NewReader(answer)
		}
	}
	t.Run("without a person a signal stops the disruption and waits", func(t *testing.T) {
		w := l.in(t).watch("pipeline", nil)
		w.becomes(w.ref, holding)
		w.interrupts <- syscall.SIGTERM
		w.deleting(w.ref)
		w.finalize(w.ref)
		w.ends(console.ExitAborted, "is being ended", "it was deleted before its time was over")
	})
	t.Run("a second signal ends the waiting", func(t *testing.T) {
		w := l.in(t).watch("twice", nil)
		w.interrupts <- os.Interrupt
		w.deleting(w.ref)
		w.interrupts <- os.Interrupt
		w.ends(console.ExitError, "is ending but not gone yet")
		w.finalize(w.ref)
	})
	t.Run("a person is asked, and leaves it running", func(t *testing.T) {
		w := l.in(t).watch("left", person("l\n"))
		w.interrupts <- os.Interrupt
		w.ends(console.ExitOK, "[s]top disruption "+l.Shop+"/left", "goes on: squall -n "+l.Shop+" stop left")
		if w.Get(w.ref).DeletionTimestamp != nil {
			t.Error("it was deleted")
		}
		w.finalize(w.ref)
	})
	t.Run("a person is asked, and stops it", func(t *testing.T) {
		w := l.in(t).watch("asked", person("stop\n"))
		w.interrupts <- os.Interrupt
		w.deleting(w.ref)
		w.finalize(w.ref)
		w.ends(console.ExitAborted)
	})
	t.Run("an answer that is none asks again", func(t *testing.T) {
		w := l.in(t).watch("again", person("x\n\nleave\n"))
		w.interrupts <- os.Interrupt
		w.ends(console.ExitOK, "goes on: squall -n "+l.Shop+" stop again")
		if asked := strings.Count(w.out.String(), "[s]top"); asked != 3 {
			t.Errorf("it asked %d times, want 3", asked)
		}
		w.finalize(w.ref)
	})
	t.Run("a person is asked, and goes on", func(t *testing.T) {
		w := l.in(t).watch("goes-on", person("g\n"))
		w.becomes(w.ref, holding)
		w.interrupts <- os.Interrupt
		w.prints("[s]top")
		w.becomes(w.ref, finished("expired"))
		w.ends(console.ExitOK, "Passed")
		w.finalize(w.ref)
	})
}

func TestRunBegins(t *testing.T) {
	l := newLive(t)
	ref := l.Disruption("lossy", nil)
	manifest := "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: %s%s}\nspec: {selector: {app: web}, count: %s, cpuPressure: {}}\n"
	run := func(text string, args ...string) call {
		return do(t.Context(), text, append([]string{"run", "-"}, args...)...)
	}
	l.want(run(fmt.Sprintf(manifest, "lossy", "", "1")), console.ExitError, "disruption "+l.Shop+"/lossy exists already", "squall -n "+l.Shop+" stop lossy")
	l.want(run(fmt.Sprintf(manifest, "lossy", "", "0")), console.ExitError, "want at least 1")
	l.want(run(fmt.Sprintf(manifest, "a", ", namespace: there", "1"), "-n", "here"), console.ExitUsage, "has namespace there, and -n has here")
	l.want(run("kind: Pod\napiVersion: v1\n"), console.ExitError, "standard input holds Pod, and no Disruption or DisruptionScenario")
	cron := filepath.Join("..", "deploy", "samples", "disruption-cron.yaml")
	for _, command := range []string{"run", "plan"} {
		l.want(l.squall(command, cron), console.ExitError, cron+" holds DisruptionCron ", "create it by kubectl apply -f "+cron)
	}
	l.want(run(fmt.Sprintf(manifest+"---\n"+manifest, "a", "", "1", "b", "", "1")), console.ExitError, "holds 2 disruptions and scenarios: pass a file with one")
	l.want(run(fmt.Sprintf(manifest, "detached", "", "1"), "--detach"), console.ExitOK, "disruption "+l.Shop+"/detached is created")
	l.want(l.squall("status", "detached"), console.ExitOK, "New")
	l.finalize(ref)
}

// On a terminal of 80 columns the line of a run never wraps, and shows when it ends.
func TestRunAt80Columns(t *testing.T) {
	w := newLive(t).watch("a-disruption-with-a-name-of-thirty-eight-chars", func(s *console.Streams) {
		s.Terminal, s.ErrTerminal, s.Width = true, true, func() int { return 80 }
	})
	w.becomes(w.ref, holding)
	w.prints("…")
	w.becomes(w.ref, finished("expired"))
	w.ends(console.ExitOK, "Passed")
	for _, line := range strings.Split(w.out.String(), "\r\x1b[K")[1:] { // warnings come before
		if line, _, _ = strings.Cut(line, "\n"); utf8.RuneCountInString(line) > 79 && !strings.HasPrefix(line, "Passed") {
			t.Errorf("a line of %d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	w.finalize(w.ref)
}
