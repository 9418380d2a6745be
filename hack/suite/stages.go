package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/debian"
)

// packages installs what is missing.
func (s *suite) packages(ctx context.Context, _ *counts) error {
	return debian.Install(ctx, s.logf, slices.Concat(debian.ForCluster, debian.ForCompiler, debian.ForTests, debian.ForRegistry)...)
}

// cluster starts two nodes and Temporal. A running cluster is used and left
// running.
func (s *suite) cluster(ctx context.Context, _ *counts) error {
	s.ours = s.quiet(ctx, "go", "run", "./devcluster", "status") != nil
	if !s.ours {
		s.logf("the cluster runs already and will be left running")
		return nil
	}
	return s.program("./devcluster", "up", "--nodes", "2")(ctx, nil)
}

func (s *suite) down(ctx context.Context, _ *counts) error {
	if !s.ours || s.keep {
		s.logf("the cluster is left running")
		return nil
	}
	return s.program("./devcluster", "down")(ctx, nil)
}

// kernel runs the injector's tests on another kernel, in a virtual machine.
func (s *suite) kernel(args ...string) func(context.Context, *counts) error {
	return func(ctx context.Context, c *counts) error {
		cmd := s.command(ctx, "go", append([]string{"run", "./kerneltest", "-json"}, args...)...)
		cmd.Dir = filepath.Join(s.root, "hack")
		var own counts
		err := own.unexcused(ctx, s.counted(&own, cmd))
		c.add(own)
		return err
	}
}

// endToEnd tests against the development cluster.
func (s *suite) endToEnd(folder string) func(context.Context, *counts) error {
	return s.againstCluster("", "-tags", "e2e", "-count=1", "-parallel", "6", "-timeout", "44m", folder)
}

// againstCluster runs go test in a module, "" for the first, against the development
// cluster.
func (s *suite) againstCluster(module string, arguments ...string) func(context.Context, *counts) error {
	return func(ctx context.Context, c *counts) error {
		env, err := s.onCluster()
		if err != nil {
			return err
		}
		return s.goTest(ctx, c, filepath.Join(s.root, module), env, arguments...)
	}
}

// onCluster is the environment of tests that need the development cluster and
// fail without.
func (s *suite) onCluster() ([]string, error) {
	env, err := os.ReadFile(filepath.Join(s.root, ".dev", "env"))
	if err != nil {
		return nil, fmt.Errorf("read where the cluster is: %w", err)
	}
	return append(strings.Fields(string(env)), "SQUALL_REQUIRE=1"), nil
}

// shortSoak strikes every part once or twice in some minutes. A slow machine gets
// ten for it, and then the time in which a disruption that is stuck tries again and
// succeeds: what counts is that all begin, end and leave nothing, not how soon.
const shortSoak = "-disruptions 20 -alone 20 -parallel 4 -every 1s -bound 10m -heal 18m -seed 0"

// soak installs Squall again, which the stage before has taken out of the cluster.
func (s *suite) soak(ctx context.Context, c *counts) error {
	if err := s.program("./demo", "install")(ctx, c); err != nil {
		return err
	}
	return s.make("soak", "SOAK="+shortSoak)(ctx, c)
}

func (s *suite) make(arguments ...string) func(context.Context, *counts) error {
	return func(ctx context.Context, _ *counts) error {
		return s.finish(s.command(ctx, "make", append([]string{"--no-print-directory", "-C", s.root}, arguments...)...))
	}
}

// program runs a program of the hack module.
func (s *suite) program(name string, args ...string) func(context.Context, *counts) error {
	return func(ctx context.Context, _ *counts) error {
		cmd := s.command(ctx, "go", append([]string{"run", name}, args...)...)
		cmd.Dir = filepath.Join(s.root, "hack")
		return cmd.Run()
	}
}

func (s *suite) quiet(ctx context.Context, name string, args ...string) error {
	cmd := s.command(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(s.root, "hack"), nil, nil
	return cmd.Run()
}

// command is a program whose output is seen and that is asked to end, with all
// it started, when its time is over. The environment's own cluster is no concern of it.
// SQUALL_SEED chooses what it samples.
func (s *suite) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if s.beside != nil {
		name, args = "nice", append([]string{"-n", "19", name}, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, s.out, s.out
	for _, variable := range os.Environ() {
		ours := strings.HasPrefix(variable, "SQUALL_") && !strings.HasPrefix(variable, "SQUALL_SEED=")
		if !strings.HasPrefix(variable, "KUBECONFIG=") && !ours {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}
