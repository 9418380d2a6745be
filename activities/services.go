package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/hosts"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// resolve returns the ranges of the clouds that the disruption names, which stay
// as they are while it goes on. refused says why what it names cannot be
// disturbed: a service that is not there, or has no such port; a cloud of which
// no ranges are known. It is empty if all of it can.
func (a *Activities) resolve(ctx context.Context, d *v1beta1.Disruption) (ranges []v1beta1.NetworkHost, refused string, err error) {
	if !d.Spec.Network.NeedsResolving() {
		return nil, "", nil
	}
	found, problems, err := hosts.OfServices(ctx, a.Kube, d)
	if err != nil {
		return nil, "", err
	}
	ranges, unknown, err := a.Clouds.Hosts(ctx, d.Spec.Network)
	if err != nil {
		return nil, "", err
	}
	problems = append(problems, unknown...)
	if why := hosts.TooMany(d.Spec.Network, hosts.Unique(found, ranges)); why != "" {
		problems = append(problems, why)
	}
	return ranges, strings.Join(problems, "; "), nil
}

// resolvedHosts is what the services of the disruption stand for now, and its
// clouds since it was prepared, as injectors read it; empty if it names none.
// What of the services cannot be disturbed any more is told by an event and
// disturbed again when it can be.
func (a *Activities) resolvedHosts(ctx context.Context, d *v1beta1.Disruption) (string, error) {
	if !d.Spec.Network.NeedsResolving() {
		return "", nil
	}
	found, problems, err := hosts.OfServices(ctx, a.Kube, d)
	if err != nil {
		return "", err
	}
	if len(problems) > 0 {
		why := strings.Join(problems, "; ")
		a.events().Warn(ctx, d, "ServiceNotDisturbed", why, why)
	}
	ranges, err := a.Targets.LoadRanges(ctx, d.Ref())
	if err != nil {
		return "", err
	}
	document, err := json.Marshal(hosts.Unique(found, ranges))
	return string(document), err
}

// FollowServices has the chaos pods told what the services of the disruption
// stand for now: the kubelet hands the annotation on to the injector. It writes
// nothing to those that know it. Where it comes to more rules than an injector
// takes, the last ones stay in force, and an event says so.
func (a *Activities) FollowServices(ctx context.Context, ref Ref) error {
	d, err := a.Targets.LoadSpec(ctx, ref)
	if err != nil {
		return err
	}
	document, err := a.resolvedHosts(ctx, d)
	if err != nil || document == "" {
		return err
	}
	var found []v1beta1.NetworkHost
	if err := json.Unmarshal([]byte(document), &found); err != nil {
		return err
	}
	if why := hosts.TooMany(d.Spec.Network, found); why != "" {
		a.events().Warn(ctx, d, "ServiceNotDisturbed", why+"; the addresses found before stay disrupted", why)
		return nil
	}
	var group errgroup.Group // without a context: one that fails stops no other
	group.SetLimit(a.Parallel)
	err = a.eachChaosPod(ctx, ref, func(pod *corev1.Pod) {
		known, told := pod.Annotations[v1beta1.AnnotationResolvedHosts]
		if !told || known == document || pod.DeletionTimestamp != nil {
			return // without the annotation it is another kind's, or a cleaner
		}
		group.Go(func() error { return a.tellHosts(ctx, pod, document) })
	})
	return errors.Join(err, group.Wait())
}

// tellHosts writes the annotation of exactly this chaos pod. Gone is done.
func (a *Activities) tellHosts(ctx context.Context, pod *corev1.Pod, document string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{v1beta1.AnnotationResolvedHosts: document},
	}})
	if err != nil {
		return err
	}
	_, err = a.Kube.CoreV1().Pods(a.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("write the addresses of services to chaos pod %s: %w", pod.Name, err)
	}
	return nil
}
