// Package nodecommand runs single commands of the injector on nodes, each in a pod of
// its own that is deleted after the command. The commands read a node's marks, and undo
// what its journals describe. No such pod is a chaos pod.
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

// Audit reads the marks on a node, of all disruptions unless args choose one. why is
// empty if the whole node was searched.
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

// Clean undoes what journals on the node describe for these disruptions, in one pod for
// all. For each disruption that it could not clean completely, it returns the cleaner's
// report.
func (r Runner) Clean(ctx context.Context, owner chaospod.Owner, node *corev1.Node, uids ...types.UID) (reports map[types.UID]string, err error) {
	args := []string{"clean"}
	for _, uid := range uids {
		args = append(args, "--disruption", string(uid))
	}
	pod, why, err := r.run(ctx, owner, node, args...)
	if err != nil {
		return nil, err
	}
	reports = map[types.UID]string{}
	for _, uid := range uids {
		if why != "" {
			reports[uid] = why
		} else if cleaned, _ := chaospod.Cleaned(pod); !cleaned {
			reports[uid] = chaospod.CleanerReportOf(pod, uid)
		}
	}
	return reports, nil
}

// run runs a command of the injector on a node, and returns its pod as it ended. The
// pod itself is deleted by then. A pod that an earlier attempt left counts as this
// attempt's. While the kubelet rejects the pod, run creates it again. why is the reason
// if the node cannot run the command now; err is an error of the API server that does
// not depend on the node.
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

// remove deletes the pod of a command, whether it runs or not. A pod that is gone is no
// error.
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
