package podops

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// endOrphan ends an operation whose disruption has settled or is gone. Every operation ends
// before its disruption is over. So a worker that had lost its task began this one later,
// and only endOrphan brings the pod back into service. If the pod has a chaos pod, its
// clean-up ends the operation (rule L8).
func (p *protections) endOrphan(ctx context.Context, pod *corev1.Pod, operation podops.Operation) error {
	d, err := p.disruption(ctx, pod.Namespace, operation)
	if d != nil || err != nil || pod.DeletionTimestamp != nil {
		return err
	}
	var chaosPods corev1.PodList
	err = p.live.List(ctx, &chaosPods, client.InNamespace(p.chaosNamespace), client.MatchingLabels{v1beta1.LabelTargetUID: string(pod.UID)}, client.Limit(1))
	if err != nil {
		return fmt.Errorf("look for chaos pods of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	patch := operation.EndUnchanged(pod)
	if len(chaosPods.Items) > 0 || patch == nil {
		return nil
	}
	if done, err := p.patch(ctx, pod, types.MergePatchType, patch); !done || err != nil {
		return err
	}
	p.recordEvent(ctx, pod, nil, "OperationOver", fmt.Sprintf("operation %s on pod %s was ended, as its disruption is over or gone", operation.ID, pod.Name), operation.ID)
	return nil
}
