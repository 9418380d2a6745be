package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Exec runs commands in containers. It needs the right pods/exec.
type Exec struct {
	Client kubernetes.Interface
	Config *rest.Config
}

var errExecOff = errors.New("exec probes are switched off: the operator has to allow them, or use another handler")

// run succeeds when the command exits with 0. It discards the command's output.
func (e *Exec) run(ctx context.Context, probe *v1beta1.ExecProbe, target *Target) (Answer, error) {
	if e == nil {
		return Answer{}, errExecOff
	}
	if target == nil {
		return Answer{}, errors.New("a command runs in a target: use scope PerTarget")
	}
	container := target.container()
	request := e.Client.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(target.Pod.Namespace).Name(target.Pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container.Name, Command: expand(probe.Command, container.Env), Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(e.Config, "GET", request.URL().String())
	if err != nil {
		return Answer{}, fmt.Errorf("run a command in pod %s: %w", target.Pod.Name, err)
	}
	err = executor.StreamWithContext(closing(ctx), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return Answer{Result: Success, Text: "exit code 0"}, nil
	case errors.As(err, &exit):
		return Answer{Result: Failure, Text: fmt.Sprintf("exit code %d", exit.Code)}, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Answer{Result: Failure, Text: "the command did not end in time"}, nil
	}
	return Answer{}, fmt.Errorf("run a command in pod %s: %w", target.Pod.Name, err)
}

// closing returns a context that closes the connection as soon as ctx ends: client-go
// otherwise waits for the server's first answer. The context discards client-go's logs,
// which would have a line for each command that took too long.
func closing(ctx context.Context) context.Context {
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		context.AfterFunc(ctx, func() { _ = info.Conn.Close() })
	}})
	return klog.NewContext(traced, logr.Discard())
}

// expand replaces $(NAME) by variables that have their value in the pod's spec (rule
// P23). A variable whose value comes from elsewhere is empty. A name that the container
// does not have stays as it is; $$(NAME) becomes $(NAME).
func expand(command []string, env []corev1.EnvVar) []string {
	values := map[string]string{}
	for _, variable := range env {
		values[variable.Name] = variable.Value
	}
	var expanded []string
	for _, word := range command {
		expanded = append(expanded, expandWord(word, values))
	}
	return expanded
}

func expandWord(word string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(word, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		word = after
		if strings.HasPrefix(word, "$") {
			out.WriteString("$")
			word = word[1:]
			continue
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(word, "("), ")")
		value, known := values[name]
		switch {
		case !strings.HasPrefix(word, "(") || !closed:
			out.WriteString("$")
		case known:
			out.WriteString(value)
			word = rest
		default:
			out.WriteString("$(" + name + ")")
			word = rest
		}
	}
}
