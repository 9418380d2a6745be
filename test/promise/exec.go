package promise

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// Pods runs commands in pods.
type Pods struct {
	Config *rest.Config
	Kube   kubernetes.Interface
}

// Exec runs a command in a container of a pod, which may be empty if there is only
// one, and decodes the JSON that it prints, unless into is nil.
func (p Pods) Exec(ctx context.Context, into any, namespace, pod, container string, command ...string) error {
	request := p.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(p.Config, http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	var out, problem strings.Builder
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &problem}); err != nil {
		return fmt.Errorf("%s in pod %s/%s: %w: %s", strings.Join(command, " "), namespace, pod, err, problem.String())
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(out.String()), into); err != nil {
		return fmt.Errorf("%s in pod %s/%s said %q: %w", strings.Join(command, " "), namespace, pod, out.String(), err)
	}
	return nil
}
