// Command kerneltest runs the injector's tests as root on other kernels than this
// machine's: in User-Mode Linux, and in QEMU with Debian's stock kernel. Both have
// cgroup v2 alone, and netem; neither has tcx. It distinguishes a machine that
// fails from a test that fails, changes nothing on this machine, and keeps the
// output of a machine that failed.
//
//	go run ./kerneltest [-quick] [-run REGEXP] [-but PACKAGE] [-json] uml|qemu|any [PACKAGE...]
//
// The guest sees this machine's files as they are, and writes to memory. The same
// program is the guest's first process: see guest.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/debian"
	"github.com/squall-chaos/squall/hack/toolchain"
	"github.com/squall-chaos/squall/hack/vm"
)

func main() {
	if isGuest() {
		guest() // does not return
	}
	o := options{logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	flag.BoolVar(&o.quick, "quick", false, "only what is run for every change")
	flag.BoolVar(&o.json, "json", false, "print events as go test -json does, the kernel's name behind the package's")
	flag.StringVar(&o.run, "run", "", "only these tests, as go test has it, instead of those of the plan")
	but := flag.String("but", "", "all packages of the plan but this one")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "kerneltest [flags] uml|qemu|any [PACKAGE...], such as injector/network\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags, err := processor()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kerneltest:", err)
		os.Exit(1)
	}
	kernel, err := named(flag.Arg(0), flags, o.logf)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kerneltest:", err)
		os.Exit(1)
	}
	chosen, err := choose(kernel, o.quick, o.run, flag.Args()[min(1, flag.NArg()):])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kerneltest:", err)
		os.Exit(2)
	}
	chosen.packages = slices.DeleteFunc(chosen.packages, func(p testPackage) bool { return p.name == *but })
	failed, err := o.test(ctx, chosen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kerneltest:", err)
		if o.json { // a reader of events must not take it for the failure of a test
			fmt.Printf(`{"Action":"fail","Package":%q}`+"\n", modulePath+"hack/kerneltest@"+kernel)
		}
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

// options are the parsed command line.
type options struct {
	quick, json bool
	run         string
	logf        func(string, ...any)
}

// test builds the tests, runs them in one machine, and reports whether a test
// failed. An error means that the machine failed.
func (o options) test(ctx context.Context, m machine) (failed bool, err error) {
	cache, err := toolchain.CacheDir()
	if err != nil {
		return false, err
	}
	if err := debian.Install(ctx, o.logf, m.needs...); err != nil {
		return false, err
	}
	kernel, err := vm.Fetch(ctx, filepath.Join(cache, "kernels"), m.fetched, o.logf)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "kerneltest-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	root, err := repository(ctx)
	if err != nil {
		return false, err
	}
	began := time.Now()
	j, err := o.job(ctx, m, root, dir)
	if err != nil {
		return false, err
	}
	o.logf("built the tests of %d packages in %.0f s", len(j.Runs), time.Since(began).Seconds())
	report := newReport(ctx, m.name, o.json)
	began = time.Now()
	err = m.boot(ctx, kernel, dir, j, report)
	o.logf("%s: %.0f s from start to end", m.name, time.Since(began).Seconds())
	if !report.ready.IsZero() {
		o.logf("%s: tests began after %.1f s", m.name, report.ready.Sub(began).Seconds())
	}
	return report.failed, err
}

// job builds the tests and lists how the guest runs them.
func (o options) job(ctx context.Context, m machine, root, dir string) (job, error) {
	// Not this very program: it may need libraries, which a guest has not at first.
	if _, err := build(ctx, filepath.Join(root, "hack"), filepath.Join(dir, guestProgram), "build", "./kerneltest"); err != nil {
		return job{}, err
	}
	injector, err := build(ctx, root, filepath.Join(dir, "injector"), "build", "./injector")
	if err != nil {
		return job{}, err
	}
	j := job{Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "SQUALL_TEST_VIRTUAL=1", "SQUALL_TEST_INJECTOR=" + injector}}
	verbose := "-test.v=true"
	if o.json {
		verbose = "-test.v=test2json"
	}
	for number, p := range m.packages {
		binary, err := build(ctx, root, filepath.Join(dir, fmt.Sprintf("%d.test", number)), "test", "-c", "./"+p.name)
		if err != nil {
			return job{}, err
		}
		args := []string{verbose, "-test.timeout=" + p.limit.String()}
		if p.run != "" {
			args = append(args, "-test.run="+p.run)
		}
		if p.skip != "" {
			args = append(args, "-test.skip="+p.skip)
		}
		j.Runs = append(j.Runs, run{Package: p.name, Binary: binary, Dir: filepath.Join(root, p.name), Args: args})
	}
	return j, nil
}

// build makes a static program: the guest may have no other libraries.
func build(ctx context.Context, root, output, command string, args ...string) (string, error) {
	args = append([]string{command, "-o", output}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %v: %w", args, err)
	}
	return output, nil
}

// repository is the directory above the hack module.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	dir := filepath.Dir(string(out))
	if filepath.Base(dir) != "hack" {
		return "", fmt.Errorf("run it in the hack directory of the checkout")
	}
	return filepath.Dir(dir), nil
}
