// Package nodecommand runs single commands of the injector on nodes, each in a
// pod of its own that is gone when the command is over: it asks a node for its
// marks, and undoes what journals there note. No such pod is a chaos pod.
package nodecommand

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Runner runs commands on nodes.
type Runner struct {
	Kube    kubernetes.Interface
	Builder chaospod.Builder
}

// Audit asks a node for its marks, of all disruptions unless args choose one;
// why says what could not be looked at.
func (r Runner) Audit(ctx context.Context, owner chaospod.Owner, node *corev1.Node, args ...string) (audit v1beta1.Audit, why string, err error) {
	pod, why, err := r.run(ctx, owner, node, append([]string{"audit"}, args...)...)
	if err != nil || why != "" {
		return audit, why, err
	}
	exit := chaospod.InjectorState(pod).Terminated
	if exit == nil || json.Unmarshal([]byte(exit.Message), &audit) != nil {
		return audit, "its audit cannot be read: " + chaospod.Failure(pod, chaospod.InjectorState(pod)), nil
	}
	return audit, audit.Error, nil
}

// Clean undoes what journals on the node note of these disruptions, in one pod
// however many they are. It returns the cleaner's words about each of which it
// could not clean all it found.
func (r Runner) Clean(ctx context.Context, owner chaospod.Owner, node *corev1.Node, uids ...types.UID) (words map[types.UID]string, err error) {
	args := []string{"clean"}
	for _, uid := range uids {
		args = append(args, "--disruption", string(uid))
	}
	pod, why, err := r.run(ctx, owner, node, args...)
	if err != nil {
		return nil, err
	}
	words = map[types.UID]string{}
	for _, uid := range uids {
		if why != "" {
			words[uid] = why
		} else if cleaned, _ := chaospod.Cleaned(pod); !cleaned {
			words[uid] = chaospod.CleanerReportOf(pod, uid)
		}
	}
	return words, nil
}

// run runs a command of the injector on a node and returns its pod as it
// ended; the pod itself is gone then. One that an attempt before this left is
// taken for its own. While the kubelet rejects the pod, run
// creates it again. When that cannot be done on this node
// now, why says so; an error is what the API server cannot do now for any node.
func (r Runner) run(ctx context.Context, owner chaospod.Owner, node *corev1.Node, args ...string) (ended *corev1.Pod, why string, err error) {
	pod, err := r.Builder.NodeCommand(owner, node, args)
	if err != nil {
		return nil, "", err
	}
	leave, err := commands.enter(ctx, node.Name)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	deadline := time.Now().Add(r.Builder.Timeout())
	for gap := rejectedGap; ; gap *= 2 {
		ended, why, err = r.once(ctx, pod, deadline)
		if err != nil || why != "" {
			return nil, why, err
		}
		why = chaospod.Rejection(ended)
		if why == "" || time.Now().Add(gap).After(deadline) {
			return ended, why, nil
		}
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(gap):
		}
	}
}

// rejectedGap is the first pause after a kubelet rejected the pod, such as on a full node.
// Each further pause is twice as long.
const rejectedGap = time.Second

// once is run, one time.
func (r Runner) once(ctx context.Context, pod *corev1.Pod, deadline time.Time) (ended *corev1.Pod, why string, err error) {
	defer func() {
		if left := r.remove(context.WithoutCancel(ctx), pod.Name); left != nil && err == nil {
			err = left
		}
	}()
	if why, err := chaospod.Create(ctx, r.Kube, pod.DeepCopy()); err != nil || why != "" {
		return nil, why, err
	}
	return r.await(ctx, pod.Name, deadline)
}

func (r Runner) await(ctx context.Context, name string, deadline time.Time) (*corev1.Pod, string, error) {
	for gap := 250 * time.Millisecond; ; gap = min(2*gap, 2*time.Second) {
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(gap):
		}
		pod, err := r.Kube.CoreV1().Pods(r.Builder.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, "pod " + name + " was taken away", nil
		case err != nil:
			return nil, "", fmt.Errorf("read pod %s: %w", name, err)
		case kube.InjectorEnded(pod):
			return pod, "", nil
		case time.Now().After(deadline):
			return nil, strings.TrimSuffix(fmt.Sprintf("pod %s did not end within %s: %s", name, r.Builder.Timeout(), chaospod.WaitingFor(pod)), ": "), nil
		}
	}
}

// remove takes the pod of a command away, whether it runs or not. Gone is done.
func (r Runner) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now := int64(0)
	err := r.Kube.CoreV1().Pods(r.Builder.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}
