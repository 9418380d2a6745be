//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

// rule 50
func TestUnknownCommandListsTheKnown(t *testing.T) {
	s := realSite(t)
	for _, args := range [][]string{{"no-such-kind"}, {}, {"container-failure", "--forced"}, {"clean", "--everything"}} {
		p := s.start("", args...)
		if code := p.exit(); code == 0 {
			t.Errorf("injector %v = 0, want non-zero", args)
		}
		if len(args) > 0 && args[0] == "clean" {
			continue
		}
		for kind := range registry {
			if !strings.Contains(p.stderr.String(), string(kind)) {
				t.Errorf("injector %v does not name %s:\n%s", args, kind, p.stderr)
			}
		}
	}
	code, help := s.run("--help")
	if code != 0 {
		t.Errorf("injector --help = %d, want 0", code)
	}
	for _, known := range []string{"ready", "clean", "audit", "probe-kernel", "container-failure"} {
		if !strings.Contains(help, known) {
			t.Errorf("help does not name %s:\n%s", known, help)
		}
	}
}

// rule 52
func TestInitialisationRefusesWhatItDoesNotUnderstand(t *testing.T) {
	valid := injectionOn(v1beta1.KindContainerFailure, `{"forced":true}`)
	document := func(change func(map[string]any)) string {
		data, _ := json.Marshal(valid)
		var fields map[string]any
		json.Unmarshal(data, &fields)
		fields["level"] = "pod"
		fields["target"].(map[string]any)["containers"] = []any{map[string]any{"name": "app", "id": "abc"}}
		change(fields)
		data, _ = json.Marshal(fields)
		return string(data)
	}
	tests := []struct {
		name, document string
		env            string
		want           string
	}{
		{name: "no document", document: "", want: v1beta1.InjectionEnv},
		{name: "no JSON", document: "{", want: v1beta1.InjectionEnv},
		{name: "an unknown field", document: document(func(f map[string]any) { f["deadlin"] = "x" }), want: "deadlin"},
		{name: "two documents", document: document(func(map[string]any) {}) + "{}", want: "follows"},
		{name: "another kind", document: document(func(f map[string]any) { f["kind"] = "cpu-pressure" }), want: "cpu-pressure"},
		{name: "no deadline", document: document(func(f map[string]any) { delete(f, "deadline") }), want: "deadline"},
		{name: "no disruption", document: document(func(f map[string]any) { delete(f, "disruption") }), want: "disruption.uid"},
		{name: "no level", document: document(func(f map[string]any) { delete(f, "level") }), want: "level"},
		{name: "no containers at level pod", document: document(func(f map[string]any) { delete(f["target"].(map[string]any), "containers") }), want: "containers"},
		{name: "containers at level node", document: document(func(f map[string]any) { f["level"] = "node" }), want: "containers"},
		{name: "an unknown setting", document: document(func(map[string]any) {}), env: "SQUALL_JOURNALDIR=/x", want: "SQUALL_JOURNALDIR"},
		{name: "a bad setting", document: document(func(map[string]any) {}), env: "SQUALL_CLEAN_TIMEOUT=soon", want: "clean_timeout"},
		{name: "an unknown sink", document: document(func(map[string]any) {}), env: "SQUALL_METRICS_SINK=statsd", want: "METRICS_SINK"},
		{name: "an unknown log level", document: document(func(map[string]any) {}), env: "SQUALL_LOG_LEVEL=loud", want: "LOG_LEVEL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := realSite(t)
			if test.env != "" {
				s.env = append(s.env, test.env)
			}
			p := s.start(test.document, "container-failure")
			if code := p.exit(); code != exitRefused {
				t.Errorf("exit code = %d, want %d", code, exitRefused)
			}
			if output := p.stdout.String() + p.stderr.String(); !strings.Contains(output, test.want) {
				t.Errorf("output = %q, want it to name %s", output, test.want)
			}
			if s.exists("ready") || s.exists("journal") {
				t.Errorf("ready file %t, journal directory %t, want neither", s.exists("ready"), s.exists("journal"))
			}
			if test.env == "" {
				if outcome := p.outcome(); !outcome.Cleaned || outcome.Injected || !strings.Contains(outcome.Error, test.want) {
					t.Errorf("outcome = %+v, want cleaned, and the error", outcome)
				}
			}
		})
	}
}

func TestUnknownParameterIsAFailedInjection(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	p := realSite(t).inject(injectionOn(v1beta1.KindContainerFailure, `{"force":true}`, made))
	line := p.awaitLine(v1beta1.MessageInjectionFailed)
	if message, _ := line["error"].(string); !strings.Contains(message, `"force"`) {
		t.Errorf("log line = %v, want it to name the field", line)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !made.Running() {
		t.Errorf("exit code = %d, container running %t, want 0 and true", code, made.Running())
	}
}

// rule 52
func TestMetricsSinkOfChoice(t *testing.T) {
	w := newWorld(t)
	for sink, want := range map[string]bool{"noop": false, "log": true} {
		p := fakeSite(t, "SQUALL_METRICS_SINK="+sink).inject(w.injection(fakeParams{}))
		p.awaitReady()
		p.signal(syscall.SIGTERM)
		p.exit()
		if got := strings.Contains(p.stdout.String(), "squall_injector_cleaned_total"); got != want {
			t.Errorf("sink %s counts in the log: %t, want %t", sink, got, want)
		}
	}
}

// rule 53
func TestNodeLevelLoadsNoContainer(t *testing.T) {
	p := realSite(t).inject(injectionOn(v1beta1.KindContainerFailure, `{"forced":true}`))
	line := p.awaitLine(v1beta1.MessageInjectionFailed)
	if message, _ := line["error"].(string); !strings.Contains(message, "level pod") {
		t.Errorf("log line = %v, want: there is no container", line)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}

// rules 53, 55
func TestContainerFailureEndsARealContainer(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t)
	p := s.inject(injectionOn(v1beta1.KindContainerFailure, `{"forced":true}`, made))
	p.awaitReady()
	if status := made.AwaitEnd(t); status.Signal() != syscall.SIGKILL {
		t.Errorf("container ended with %v, want SIGKILL", status)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}

// rules 33, 57
func TestIgnoredSignalIsAFailedInjection(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t)
	p := s.inject(injectionOn(v1beta1.KindContainerFailure, `{}`, made))
	p.awaitLine(v1beta1.MessageInjectionFailed)
	if code, output := s.run("ready"); code != 1 || !strings.Contains(output, "ignored SIGTERM") {
		t.Errorf("ready = %d, %q, want 1 and why", code, output)
	}
	if s.exists("ready") || !made.Running() {
		t.Errorf("ready file %t, container running %t", s.exists("ready"), made.Running())
	}
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}

func TestPressureIsFoundAndEndsWithAKilledInjector(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t)
	injection := injectionOn(v1beta1.KindCPUPressure, sampleParams[v1beta1.KindCPUPressure], made)
	injection.Disruption.UID = "d-of-" + injection.Disruption.UID
	injection.Target.UID = "t-of-this-test"
	p := s.inject(injection)
	p.awaitReady()
	burns := func() bool {
		return slices.ContainsFunc(s.audit("--disruption", string(injection.Disruption.UID)).Marks, func(mark v1beta1.Mark) bool {
			return strings.HasPrefix(mark.Object, "burner process") && mark.Target == injection.Target.UID
		})
	}
	if !burns() {
		t.Errorf("audit = %+v, want the burner", s.audit())
	}
	p.signal(syscall.SIGKILL)
	p.exit()
	testcontainer.Eventually(t, "the burner ended", func() error {
		if burns() {
			return os.ErrExist
		}
		return nil
	})
	if code, output := s.run("clean"); code != 0 {
		t.Errorf("clean = %d, %s, want 0", code, output)
	}
	if len(s.journals()) > 0 {
		t.Errorf("journals = %v, want none", s.journals())
	}
}

func TestKilledDiskPressureIsCleanedFromItsJournal(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	limits := made.File(t, "blkio", "blkio.throttle.read_bps_device", "io.max")
	before, err := readFile(limits)
	if err != nil {
		testneeds.Missing(t, testneeds.DiskLimits, err)
	}
	s := realSite(t)
	p := s.inject(injectionOn(v1beta1.KindDiskPressure, sampleParams[v1beta1.KindDiskPressure], made))
	p.awaitReady()
	if now, err := readFile(limits); err != nil || !strings.Contains(now, "1048576") {
		t.Errorf("%s = %q, %v, want the limit", limits, now, err)
	}
	p.signal(syscall.SIGKILL)
	p.exit()
	if now, _ := readFile(limits); now == before {
		t.Fatal("the limit ended with the injector, so this test proves nothing")
	}
	if code, output := s.run("audit"); code != exitMarksFound || !strings.Contains(output, filepath.Base(limits)) {
		t.Errorf("audit = %d, %s, want the value", code, output)
	}
	for range 2 {
		if code, output := s.run("clean"); code != 0 {
			t.Errorf("clean = %d, %s, want 0", code, output)
		}
		if now, err := readFile(limits); now != before || err != nil {
			t.Errorf("%s = %q, %v, want %q as before", limits, now, err, before)
		}
	}
}

func TestRecordOfAnEarlierBootIsDropped(t *testing.T) {
	w, s := newWorld(t), fakeSite(t)
	p := s.inject(w.injection(fakeParams{}))
	p.awaitReady()
	p.signal(syscall.SIGKILL)
	p.exit()
	for _, name := range s.journals() {
		if filepath.Ext(name) != ".json" {
			continue
		}
		path := s.file("journal/" + name)
		text, err := readFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Fatal(err)
		}
		record["bootID"] = "an earlier one"
		changed, _ := json.Marshal(record)
		if err := writeFile(path, string(changed)); err != nil {
			t.Fatal(err)
		}
	}
	if code, output := s.run("clean"); code != 0 {
		t.Errorf("clean = %d, %s, want 0", code, output)
	}
	w.expect("dropped", "broken", "broken") // no kernel value of an earlier boot is there to restore
	if len(s.journals()) > 0 {
		t.Errorf("journals = %v, want none", s.journals())
	}
}

func TestProbeKernelKnowsEveryKind(t *testing.T) {
	code, output := realSite(t).run("probe-kernel")
	var report kernelReport
	if err := json.Unmarshal([]byte(output), &report); err != nil || code != 0 {
		t.Fatalf("probe-kernel = %d, %q, %v", code, output, err)
	}
	for kind := range registry {
		if got := report.Kinds[string(kind)]; got.Offers == "" && got.Error == "" {
			t.Errorf("probe-kernel says nothing about %s:\n%s", kind, output)
		}
	}
}

func TestOutcomeFitsIntoATerminationMessage(t *testing.T) {
	many := make([]string, 500)
	for i := range many {
		many[i] = "/sys/fs/cgroup/blkio/somewhere/blkio.throttle.read_bps_device"
	}
	tests := []struct {
		name    string
		outcome v1beta1.InjectionReport
	}{
		{"a long error", v1beta1.InjectionReport{Error: strings.Repeat("no space left on device; ", 1000)}},
		{"many objects", v1beta1.InjectionReport{Error: "failed", Left: many}},
		{"both, in characters that JSON spells out", v1beta1.InjectionReport{Error: strings.Repeat("\x01<é", 2000), Left: many}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data, err := encodeOutcome(test.outcome)
			if err != nil || len(data) > 4096 {
				t.Fatalf("encodeOutcome: %d bytes, %v, want at most 4096", len(data), err)
			}
			var got v1beta1.InjectionReport
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatalf("cut in the middle: %v", err)
			}
			if got.Error == "" || (len(test.outcome.Left) > 0 && len(got.Left) == 0) {
				t.Errorf("too much was cut: error of %d bytes, %d objects", len(got.Error), len(got.Left))
			}
		})
	}
	whole := v1beta1.InjectionReport{Injected: true, Error: "failed", Left: []string{"/a", "/b"}}
	data, err := encodeOutcome(whole)
	var got v1beta1.InjectionReport
	if err != nil || json.Unmarshal(data, &got) != nil || !cmp.Equal(whole, got) {
		t.Errorf("a short outcome became %s, %v", data, err)
	}
}

func TestLoadConfig(t *testing.T) {
	defaults, err := loadConfig([]string{"PATH=/bin", "SQUALL_INJECTION={}", "SQUALL_WEBHOOK_SERVICE_HOST=10.0.0.1",
		"SQUALL_WEBHOOK_PORT_443_TCP=tcp://10.0.0.1:443"})
	if err != nil {
		t.Fatalf("loadConfig() = %v: these are no settings", err)
	}
	want := Config{
		JournalDir: "/var/lib/squall/journal", Proc: "/proc", ReadyFile: "/tmp/readiness_probe",
		ReasonFile: "/tmp/injection_failed.json", TerminationLog: "/dev/termination-log",
		LogLevel: "info", MetricsSink: "noop", CleanTimeout: 10 * time.Second, CleanBackoff: time.Second, RetryEvery: 2 * time.Second, AuditTimeout: 15 * time.Second, LookEvery: 5 * time.Second, Guard: true,
	}
	if diff := cmp.Diff(want, defaults); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	set, err := loadConfig([]string{"SQUALL_PROC=/host/proc", "SQUALL_CLEAN_TIMEOUT=3s"})
	if err != nil || set.Proc != "/host/proc" || set.CleanTimeout != 3*time.Second {
		t.Errorf("loadConfig() = %+v, %v, want the settings of the environment", set, err)
	}
	for _, bad := range []string{"SQUALL_PROCS=/x", "SQUALL_CLEAN_TIMEOUT=0s", "SQUALL_CLEAN_BACKOFF=-1s", "SQUALL_AUDIT_TIMEOUT=0s"} {
		if _, err := loadConfig([]string{bad}); err == nil {
			t.Errorf("loadConfig(%s) succeeded", bad)
		}
	}
}

func TestNetworkMarksAreFoundAndTakenOff(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	err := target.Do(fmt.Sprintf("/proc/%d/ns/net", made.PID), func() error {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer0"}
		return errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
	})
	if err != nil {
		testneeds.Missing(t, testneeds.NetworkLinks, err)
	}
	s := realSite(t)
	injection := injectionOn(v1beta1.KindNetwork, sampleParams[v1beta1.KindNetwork], made)
	var netns unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", made.PID), &netns); err != nil {
		t.Fatal(err)
	}
	injection.Disruption.UID = types.UID(made.ID)
	p := s.inject(injection)
	p.awaitReady()
	inside := fmt.Sprintf("network namespace %d:", netns.Ino)
	marked := func() bool {
		return slices.ContainsFunc(s.audit("--disruption", made.ID).Marks, func(mark v1beta1.Mark) bool {
			return strings.HasPrefix(mark.Object, inside) && mark.Target == injection.Target.UID && mark.Disruption == injection.Disruption
		})
	}
	if !marked() {
		t.Errorf("audit does not find what was injected: %+v", s.audit("--disruption", made.ID))
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if marked() {
		t.Error("audit finds what should be cleaned")
	}
}

// The process that fills a target's memory must not burden the node.
func TestInjectorThatHoldsMemoryIsSmall(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	p := realSite(t).inject(injectionOn(v1beta1.KindMemoryPressure, `{"targetPercent":"80%"}`, made))
	p.awaitReady()
	status, err := readFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(status, "VmRSS:")
	resident, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the injector holds %d kB resident", resident)
	if resident > 30<<10 {
		t.Errorf("the injector holds %d kB resident, want at most 30 MiB", resident)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
}
