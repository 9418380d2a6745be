package connect

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// CleaningOptions start the workflow of a disruption whose object is gone, to
// clean what is left of it: one that runs is left alone, and after one that
// completed none is started.
func CleaningOptions(ref v1beta1.DisruptionRef) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                                       contract.WorkflowID(ref),
		TaskQueue:                                contract.TaskQueue,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase).ValueSet(string(v1beta1.PhasePending)),
			temporal.NewSearchAttributeKeyKeyword(contract.AttributeNamespace).ValueSet(ref.Namespace),
			temporal.NewSearchAttributeKeyBool(contract.AttributeStuck).ValueSet(false),
			temporal.NewSearchAttributeKeyInt64(contract.AttributeTargets).ValueSet(0),
		),
		StaticSummary: "clean what is left of a disruption that no workflow carries out",
	}
}
