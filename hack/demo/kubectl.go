package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// kubectl runs the program every user has. Its output is what users see.
type kubectl struct{ program, config string }

// run returns kubectl's output; the error has kubectl's error output.
func (k kubectl) run(ctx context.Context, args ...string) (string, error) {
	return k.feed(ctx, "", args...)
}

// feed gives kubectl something to read.
func (k kubectl) feed(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.program, append([]string{"--kubeconfig", k.config}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, problem strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}

// get reads an object or a list.
func (k kubectl) get(ctx context.Context, into any, args ...string) error {
	out, err := k.run(ctx, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("kubectl get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// exec runs a command in a pod of the demo and decodes the JSON it prints.
func (k kubectl) exec(ctx context.Context, into any, pod string, command ...string) error {
	out, err := k.run(ctx, append([]string{"-n", namespace, "exec", pod, "--"}, command...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("%s in pod %s said %q: %w", strings.Join(command, " "), pod, out, err)
	}
	return nil
}

// pod is what the demo reads of a pod.
type pod struct {
	Metadata struct{ Name string }
	Spec     struct{ NodeName string }
	Status   struct {
		Phase, PodIP      string
		ContainerStatuses []struct {
			RestartCount int
			State        struct {
				Terminated *struct{ ExitCode int }
			}
		}
	}
}

func (p pod) restarts() int {
	if len(p.Status.ContainerStatuses) == 0 {
		return 0
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

type podList struct{ Items []pod }

// disruption is what the demo reads of a Disruption.
type disruption struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		Phase, InjectionStatus, Ending string
		TargetInjections               map[string]map[string]struct{ InjectorPodName string }
		Workflow                       struct{ ID, RunID string }
		SteadyState                    struct {
			Verdict, Summary string
			Probes           []struct{ State string }
		}
	}
}
