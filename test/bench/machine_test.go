package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

// where describes the machine and the time of a measurement, and the other load
// there.
func (b bench) where() string {
	b.Helper()
	server, err := b.Kube.Discovery().ServerVersion()
	b.Must(err)
	temporal, err := b.Workflows.WorkflowService().GetSystemInfo(b.Context(), &workflowservice.GetSystemInfoRequest{})
	b.Must(err)
	return fmt.Sprintf("%s Kubernetes %s, Temporal %s on SQLite.", b.machine, strings.TrimPrefix(server.GitVersion, "v"), temporal.GetServerVersion())
}

// machine is what is known of it before anything is measured.
func machine(commit string) string {
	load := strings.Fields(content("/proc/loadavg") + " ?")[0]
	return fmt.Sprintf("Measured on %s at commit %s with %d processors (%s), %s of memory, Linux %s, %s; load before: %s.",
		time.Now().Format("2 January 2006"), commit, runtime.NumCPU(), after("/proc/cpuinfo", "model name"), memory(),
		strings.TrimSpace(content("/proc/sys/kernel/osrelease")), strings.Replace(runtime.Version(), "go", "Go ", 1), load)
}

func content(file string) string {
	text, _ := os.ReadFile(file) // a missing file adds nothing
	return string(text)
}

// after is the rest of the first line of a file of "name: value" lines.
func after(file, name string) string {
	for line := range strings.Lines(content(file)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memory() string {
	var kilobytes int64
	_, _ = fmt.Sscan(after("/proc/meminfo", "MemTotal"), &kilobytes)
	return fmt.Sprintf("%d GB", (kilobytes<<10+5e8)/1e9)
}

// profiled does something while the API server writes down where its processor
// time goes, if that is asked for.
func (b bench) profiled(name string, n int, do func()) {
	b.Helper()
	if *profile == "" || n < 100 {
		do()
		return
	}
	done := make(chan error, 1)
	go func() {
		body, err := b.Kube.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", fmt.Sprint(max(2, n/400))).Stream(b.Context())
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = body.Close() }()
		file, err := os.Create(filepath.Join(*profile, fmt.Sprintf("apiserver-%s-%d.prof", name, n)))
		if err == nil {
			_, err = io.Copy(file, body)
			_ = file.Close()
		}
		done <- err
	}()
	do()
	b.Must(<-done)
}
