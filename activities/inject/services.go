package inject

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

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/hosts"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// resolvedHosts are the current addresses of the disruption's services, and the addresses
// of its clouds from its start, as JSON for injectors. It is empty if the disruption names
// none. A service that cannot be disrupted any more causes an event, and is disrupted again
// as soon as it can be.
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
		cluster.Events(a.Kube).Warn(ctx, d, "ServiceNotDisturbed", why, why)
	}
	ranges, err := a.Targets.LoadRanges(ctx, d.Ref())
	if err != nil {
		return "", err
	}
	document, err := json.Marshal(hosts.Unique(found, ranges))
	return string(document), err
}

// FollowServices writes the current addresses of the disruption's services to its chaos
// pods: the kubelet passes the annotation on to the injector. It skips pods that have them.
// If that makes more rules than an injector takes, the last addresses stay in force and it
// records an event.
func (a *Activities) FollowServices(ctx context.Context, ref v1beta1.DisruptionRef) error {
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
		cluster.Events(a.Kube).Warn(ctx, d, "ServiceNotDisturbed", why+"; the addresses found before stay disrupted", why)
		return nil
	}
	var group errgroup.Group // without a context: a failure stops no other
	group.SetLimit(a.Parallel)
	err = cluster.EachChaosPod(ctx, a.Cluster, ref, func(pod *corev1.Pod) {
		known, annotated := pod.Annotations[v1beta1.AnnotationResolvedHosts]
		if !annotated || known == document || pod.DeletionTimestamp != nil {
			return // a pod without the annotation has another fault type, or is a cleaner
		}
		group.Go(func() error { return a.writeHosts(ctx, pod, document) })
	})
	return errors.Join(err, group.Wait())
}

// writeHosts writes the annotation of exactly this chaos pod. A pod that is gone is no
// error.
func (a *Activities) writeHosts(ctx context.Context, pod *corev1.Pod, document string) error {
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
