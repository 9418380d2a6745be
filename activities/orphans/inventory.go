package orphans

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// inventory reads live the footprints of all disruptions, by UID. It reads the objects
// last: a disruption whose chaos pods or records were read existed before, so if its
// object is missing then, it is gone for good.
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
	// In pages, so that ten thousand chaos pods are never in memory together.
	ours := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID}
	err := kube.Pages(ctx, a.Kube.CoreV1().Pods(a.Builder.Namespace).List, ours, func(page *corev1.PodList) {
		activity.RecordHeartbeat(ctx, "chaos pods")
		for i := range page.Items {
			of(&page.Items[i]).pods++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the chaos pods of all disruptions: %w", err)
	}
	err = kube.Pages(ctx, a.Kube.CoreV1().ConfigMaps(a.Builder.Namespace).List, ours, func(page *corev1.ConfigMapList) {
		activity.RecordHeartbeat(ctx, "records")
		for i := range page.Items {
			of(&page.Items[i]).records++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the records of all disruptions: %w", err)
	}
	err = a.Disruptions.Each(ctx, func(d *v1beta1.Disruption) {
		if found[d.UID] == nil {
			found[d.UID] = &footprint{}
		}
		found[d.UID].ref, found[d.UID].exists, found[d.UID].finalized = d.Ref(), true, finalized(d)
	})
	return found, err
}
