package start

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/workflows/contract"
)

// MemoCluster is the key of the schedule's cluster in the memo of the sweep's workflows:
// the UID of the cluster's namespace kube-system.
const MemoCluster = "cluster"

// ErrOtherCluster means that the Temporal namespace is in use by another cluster.
var ErrOtherCluster = errors.New("this Temporal namespace is another cluster's")

// OwnerOf is the cluster whose schedule has this action; empty for a schedule of an older
// version, which has no cluster.
func OwnerOf(action client.ScheduleAction) types.UID {
	sweep, ok := action.(*client.ScheduleWorkflowAction)
	if !ok {
		return ""
	}
	payload, ok := sweep.Memo[MemoCluster].(*commonpb.Payload)
	if !ok {
		return ""
	}
	var owner string
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &owner); err != nil {
		return ""
	}
	return types.UID(owner)
}

// Owner is the cluster to which the Temporal namespace belongs, according to the schedule
// of its sweep; empty while there is none.
func Owner(ctx context.Context, schedules client.ScheduleClient) (types.UID, error) {
	found, err := schedules.GetHandle(ctx, contract.SweepSchedule).Describe(ctx)
	if _, none := errors.AsType[*serviceerror.NotFound](err); none {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read schedule %s: %w", contract.SweepSchedule, err)
	}
	return OwnerOf(found.Schedule.Action), nil
}

// OtherCluster is ErrOtherCluster, wrapped in a hint, when the owner of the Temporal
// namespace is known to be another cluster.
func OtherCluster(owner, cluster types.UID) error {
	if owner == "" || cluster == "" || owner == cluster {
		return nil
	}
	return fmt.Errorf("%w: %s, and this one is %s (UIDs of kube-system). "+
		"Set SQUALL_TEMPORAL_NAMESPACE to a different namespace for each cluster. If the other cluster is gone: temporal schedule delete --schedule-id %s",
		ErrOtherCluster, owner, cluster, contract.SweepSchedule)
}
