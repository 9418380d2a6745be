package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// ListChaosPods reads the few chaos pods of one shard live and consistently.
func ListChaosPods(ctx context.Context, c *Cluster, s chaospod.Shard) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: chaospod.Selector(s.Disruption, s.Number)})
	if err != nil {
		return nil, fmt.Errorf("list chaos pods of disruption %s/%s: %w", s.Disruption.Namespace, s.Disruption.Name, err)
	}
	return list.Items, nil
}

// PageChaosPods reads the chaos pods of all shards live, in pages. With cleaners it reads
// only the cleaners.
func PageChaosPods(ctx context.Context, c *Cluster, ref v1beta1.DisruptionRef, cleaners bool, take func([]corev1.Pod)) error {
	selector := chaospod.Selector(ref, chaospod.AllShards)
	if cleaners {
		selector += "," + v1beta1.LabelCleaner
	}
	err := kube.Pages(ctx, c.Kube.CoreV1().Pods(c.Namespace).List, metav1.ListOptions{LabelSelector: selector}, func(page *corev1.PodList) { take(page.Items) })
	if err != nil {
		return fmt.Errorf("list chaos pods of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

// EachChaosPod reads all chaos pods of a disruption in pages.
func EachChaosPod(ctx context.Context, c *Cluster, ref v1beta1.DisruptionRef, take func(*corev1.Pod)) error {
	return PageChaosPods(ctx, c, ref, false, func(pods []corev1.Pod) {
		for i := range pods {
			take(&pods[i])
		}
	})
}
