//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// sysrqTrigger is a plain file that replaces the kernel's. No test names another.
func (s *site) sysrqTrigger() string {
	s.t.Helper()
	path := s.file("sysrq-trigger")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// pressed returns what was written for the kernel.
func (p *process) pressed() string {
	p.t.Helper()
	text, err := readFile(p.injection.SysrqTrigger)
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// probe runs what the kubelet's probes run, and gives the node time to end.
func (p *process) probe() {
	p.t.Helper()
	for range asks {
		if code, output := p.run("ready"); code != exitOK {
			p.t.Fatalf("ready = %d, %s", code, output)
		}
	}
	for end := time.Now().Add(2 * reportMargin); p.pressed() == "" && time.Now().Before(end); <-time.After(20 * time.Millisecond) {
	}
}

// failing starts an injector of node failure.
func failing(t *testing.T, params string) *process {
	t.Helper()
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t)
	injection := injectionOn(v1beta1.KindNodeFailure, params, made)
	injection.SysrqTrigger = s.sysrqTrigger()
	p := s.inject(injection)
	p.awaitReady()
	return p
}

func TestNodeIsEndedOnceProbesReportedIt(t *testing.T) {
	for params, want := range map[string]string{`{}`: "c", `{"shutdown":true}`: "o"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p := failing(t, params)
			if code, _ := p.run("ready"); code != exitOK || p.pressed() != "" {
				t.Fatalf("asked once: ready = %d, and the node is ended: %q", code, p.pressed())
			}
			p.probe()
			if got := p.pressed(); got != want {
				t.Errorf("the kernel was told %q, want %q", got, want)
			}
			boot, err := journal.BootID()
			if changes := p.record().Changes; err != nil || len(changes) != 1 || changes[0].Before != "boot "+boot {
				t.Errorf("the journal says %+v, want one change, with this boot (%s, %v)", changes, boot, err)
			}
			p.signal(syscall.SIGTERM) // the machine still runs
			if code := p.exit(); code != 0 {
				t.Errorf("exit code = %d, want 0", code)
			}
		})
	}
}

func TestNodeIsSparedByWhoAsksForTheEndBefore(t *testing.T) {
	p := failing(t, `{}`)
	for range asks {
		p.run("ready")
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || p.pressed() != "" {
		t.Errorf("exit code = %d, the kernel was told %q, want 0 and nothing", code, p.pressed())
	}
}

// rule 18: after a node has restarted, its chaos pod may be started again.
func TestNodeIsNotEndedTwice(t *testing.T) {
	p := failing(t, `{}`)
	p.probe()
	if p.pressed() != "c" {
		t.Fatal("the node was not ended")
	}
	p.signal(syscall.SIGKILL)
	p.exit()
	p.anotherBoot()
	again := p.restart()
	again.probe()
	if got := again.pressed(); got != "" {
		t.Errorf("the kernel was told %q once more", got)
	}
	again.awaitLine("it was done before and is not done again")
	again.signal(syscall.SIGTERM)
	if code := again.exit(); code != 0 || len(again.journals()) > 0 {
		t.Errorf("exit code = %d, journals %v, want 0 and none", code, again.journals())
	}
	if outcome := again.outcome(); !outcome.Injected || !outcome.Cleaned {
		t.Errorf("outcome = %+v, want injected and cleaned", outcome)
	}
}

// A node that restarted for another reason must still be ended.
func TestNodeThatStartedAgainBeforeIsEnded(t *testing.T) {
	p := failing(t, `{}`)
	p.signal(syscall.SIGKILL)
	p.exit()
	p.anotherBoot()
	again := p.restart()
	again.probe()
	if got := again.pressed(); got != "c" {
		t.Errorf("the kernel was told %q, want c", got)
	}
}

// anotherBoot turns the journal into one of an earlier boot.
func (p *process) anotherBoot() {
	p.t.Helper()
	paths, err := filepath.Glob(p.file("journal/*.json"))
	if err != nil || len(paths) != 1 {
		p.t.Fatalf("journals = %v, %v, want one", paths, err)
	}
	record, err := os.ReadFile(paths[0])
	if err != nil {
		p.t.Fatal(err)
	}
	now, err := journal.BootID()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(paths[0], bytes.ReplaceAll(record, []byte(now), []byte("an earlier one")), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// restart starts the injection once more, before any probe.
func (p *process) restart() *process {
	p.t.Helper()
	p.sysrqTrigger()
	removeStale(p.file("ready"), p.file("ready_asked"))
	again := p.inject(p.injection)
	again.awaitReady()
	return again
}

// A node that cannot be ended is not reported as ended.
func TestNodeFailureIsRefusedWithAReason(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	for _, test := range []struct {
		name, trigger, want string
	}{
		{"nobody says how", "", "sysrqTrigger"},
		{"a kernel without the key", "/no/such/file", "CONFIG_MAGIC_SYSRQ"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := realSite(t)
			injection := injectionOn(v1beta1.KindNodeFailure, `{}`, made)
			injection.SysrqTrigger = test.trigger
			p := s.inject(injection)
			p.awaitLine(v1beta1.MessageInjectionFailed)
			if output := p.stdout.String(); !strings.Contains(output, test.want) {
				t.Errorf("output = %s, want %q in it", output, test.want)
			}
			if p.exists("ready") {
				t.Error("there is a ready file")
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 {
				t.Errorf("exit code = %d, want 0", code)
			}
		})
	}
}

// The worker alone passes the file that ends a machine to chaos pods, so that no test of
// the injector can use it by mistake.
func TestNoInjectorKnowsWhatEndsAMachine(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("sysrq-trigger")) {
			t.Errorf("%s names the file", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
