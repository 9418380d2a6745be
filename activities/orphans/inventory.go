package orphans

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// inventory is read live: what there is of every disruption there is anything of, by UID. The
// objects are read last: a disruption whose chaos pods or records were seen has
// been there before, so one that is missing then is gone for good.
func (a *Activities) inventory(ctx context.Context) (map[types.UID]*footprint, error) {
	found := map[types.UID]*footprint{}
	of := func(object metav1.Object) *footprint {
		labels := object.GetLabels()
		uid := types.UID(labels[v1beta1.LabelDisruptionUID])
		if found[uid] == nil {
			found[uid] = &footprint{ref: v1beta1.DisruptionRef{
				Namespace: labels[v1beta1.LabelDisruptionNamespace], Name: labels[v1beta1.LabelDisruptionName], UID: uid,
			}}
		}
		return found[uid]
	}
	ours := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID}
	pods := func(page context.Context, o metav1.ListOptions) (runtime.Object, error) {
		activity.RecordHeartbeat(ctx, "chaos pods") // not on page's, which ends: see nodeSweep.each
		return a.Kube.CoreV1().Pods(a.Builder.Namespace).List(page, o)
	}
	records := func(page context.Context, o metav1.ListOptions) (runtime.Object, error) {
		activity.RecordHeartbeat(ctx, "records") // not on page's, which ends: see nodeSweep.each
		return a.Kube.CoreV1().ConfigMaps(a.Builder.Namespace).List(page, o)
	}
	// In pages, so that ten thousand chaos pods are never in memory together.
	err := pager.New(pods).EachListItem(ctx, ours, func(o runtime.Object) error { of(o.(*corev1.Pod)).pods++; return nil })
	if err != nil {
		return nil, fmt.Errorf("list the chaos pods of all disruptions: %w", err)
	}
	err = pager.New(records).EachListItem(ctx, ours, func(o runtime.Object) error { of(o.(*corev1.ConfigMap)).records++; return nil })
	if err != nil {
		return nil, fmt.Errorf("list the records of all disruptions: %w", err)
	}
	disruptions, err := a.Disruptions.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range disruptions {
		d := &disruptions[i]
		if found[d.UID] == nil {
			found[d.UID] = &footprint{}
		}
		found[d.UID].ref, found[d.UID].disruption = d.Ref(), d
	}
	return found, nil
}
