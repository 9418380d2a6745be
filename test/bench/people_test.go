package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// people measures the waits of a person at a terminal: a plan of n matching pods
// beside a list of them, the first line of a run, and the start of the program
// beside that of an empty one.
func (b bench) people(n, runs int) {
	b.Helper()
	b.Targets(n)
	b.fresh()
	squall := filepath.Join(b.Build("cli"), "cli")
	nothing := b.emptyProgram()
	env := append(os.Environ(), "KUBECONFIG="+b.Kubeconfig(""), "SQUALL_TEMPORAL_ADDRESS="+b.Temporal.Address)
	manifest := b.manifest(n)

	var plans, lists, firsts, versions, starts []time.Duration
	var most int64 // bytes of memory
	alternate(runs, func() {
		took, used := b.typed(env, squall, "plan", manifest, "--chaos-namespace", b.Chaos)
		plans, most = append(plans, took), max(most, used)
	}, func() { lists = append(lists, b.list(n)) }, func(i int) {
		logf("plan of %s, pair %d of %d: %s (a list of them %s)", targets(n), i+1, runs, took(plans[i]), took(lists[i]))
	})
	for i := range runs {
		firsts = append(firsts, b.firstLine(env, squall, b.manifest(1)))
		logf("first line of a run, %d of %d: %s", i+1, runs, took(firsts[i]))
	}
	alternate(4*runs, func() {
		took, _ := b.typed(env, squall, "version")
		versions = append(versions, took)
	}, func() {
		took, _ := b.typed(env, nothing)
		starts = append(starts, took)
	}, func(int) {})

	name, first := p95(firsts)
	times := table{title: "Time: median (shortest to longest)", head: []string{"what is typed", "takes", "beside it", "takes", "ratio", "pairs"}}
	row := func(what, beside string, ours, floor []time.Duration) float64 {
		ratio := median(ours).Seconds() / median(floor).Seconds()
		times.add(what, spread(ours), beside, spread(floor), fmt.Sprintf("%.2f", ratio), fmt.Sprint(len(ours)))
		return ratio
	}
	plan := row("`squall plan`, "+targets(n)+" match", "a list of these pods", plans, lists)
	version := row("`squall version`", "a Go program that does nothing", versions, starts)
	times.add("`squall run`, to its first line", spread(firsts), "", "", "", fmt.Sprint(len(firsts)))
	publish(b, section{name: "people", lines: []line{
		{what: "`squall plan`, " + targets(n) + " match, over a list of these pods", value: plan, most: 3, below: true},
		{what: "`squall plan`, " + targets(n) + " match: memory", value: float64(most) / 1e6, most: 200, below: true, unit: "MB"},
		{what: "`squall run`, to its first line, " + name, value: first.Seconds(), most: 1, below: true, unit: "s"},
		{what: "`squall version`, over a Go program that does nothing", value: version, most: 3},
	}, tables: []table{times}, notes: []string{b.where()}})
}

// emptyProgram is a Go program that does nothing, built as squall is.
func (b bench) emptyProgram() (path string) {
	b.Helper()
	directory := b.TempDir()
	source := filepath.Join(directory, "main.go")
	b.Must(os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	path = filepath.Join(directory, "nothing")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, source).CombinedOutput()
	if err != nil {
		b.Fatalf("build a program that does nothing: %v\n%s", err, out)
	}
	return path
}

// manifest is a file of a new disruption of n targets.
func (b bench) manifest(n int) (file string) {
	b.Helper()
	d := b.disruption(n)
	d.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Disruption"}
	text, err := yaml.Marshal(d)
	b.Must(err)
	file = filepath.Join(b.TempDir(), d.Name+".yaml")
	b.Must(os.WriteFile(file, text, 0o600))
	return file
}

// list reads the n targets as plainly as client-go can.
func (b bench) list(n int) time.Duration {
	b.Helper()
	began := time.Now()
	pods, err := b.Kube.CoreV1().Pods(b.Shop).List(b.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	b.Must(err)
	if len(pods.Items) < n {
		b.Fatalf("%d pods are listed, want %d", len(pods.Items), n)
	}
	return time.Since(began)
}

// typed runs a program to a successful end and returns its time and its largest
// memory. The system would report this process's memory instead if this process
// was larger when it started the other (getrusage(2)).
func (b bench) typed(env []string, program string, args ...string) (took time.Duration, most int64) {
	b.Helper()
	var out bytes.Buffer
	command := exec.Command(program, args...)
	command.Env, command.Stdout, command.Stderr = env, &out, &out
	began := time.Now()
	b.Must(command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	looks := time.NewTicker(2 * time.Millisecond)
	defer looks.Stop()
	for {
		select {
		case err := <-ended:
			took = time.Since(began)
			if err != nil {
				b.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out.String())
			}
			return took, most
		case <-looks.C:
			most = max(most, highWater(command.Process.Pid))
		}
	}
}

// highWater is the most resident memory that a process has had, in bytes (proc(5)); 0
// of one that is gone.
func highWater(pid int) (size int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, _ = fmt.Sscan(rest, &size)
	return size << 10
}

// firstLine is the time until squall run prints something. Then it ends squall
// run, which ends the disruption too.
func (b bench) firstLine(env []string, squall, manifest string) time.Duration {
	b.Helper()
	command := exec.Command(squall, "run", manifest, "--chaos-namespace", b.Chaos)
	command.Env = env
	out, err := command.StderrPipe() // progress is nothing that a pipeline reads
	b.Must(err)
	began := time.Now()
	b.Must(command.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	took := time.Since(began)
	if err != nil {
		b.Fatalf("squall run ends without a line: %v", errors.Join(err, command.Wait()))
	}
	b.Must(command.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	b.Must(err)
	if ended, ok := errors.AsType[*exec.ExitError](command.Wait()); !ok || ended.ExitCode() != exitAborted {
		b.Errorf("squall run ends with %v after SIGTERM, want exit code %d:\n%s%s", ended, exitAborted, first, rest)
	}
	return took
}

// exitAborted is squall's exit code of a disruption that a person ended.
const exitAborted = 4
