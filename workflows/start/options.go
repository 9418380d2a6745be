package start

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// Search attributes of a disruption's workflow.
var (
	AttributePhase     = temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase)
	AttributeNamespace = temporal.NewSearchAttributeKeyKeyword(contract.AttributeNamespace)
	AttributeKinds     = temporal.NewSearchAttributeKeyKeywordList(contract.AttributeKinds)
	AttributeStuck     = temporal.NewSearchAttributeKeyBool(contract.AttributeStuck)
	AttributeEnding    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeEnding)
	AttributeVerdict   = temporal.NewSearchAttributeKeyKeyword(contract.AttributeVerdict)
	AttributeTargets   = temporal.NewSearchAttributeKeyInt64(contract.AttributeTargets)
)

// SearchAttributes are the types of all of them, by name. A workflow cannot run
// where Temporal lacks one.
var SearchAttributes = map[string]enumspb.IndexedValueType{
	contract.AttributePhase:     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	contract.AttributeNamespace: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	contract.AttributeKinds:     enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	contract.AttributeStuck:     enumspb.INDEXED_VALUE_TYPE_BOOL,
	contract.AttributeTargets:   enumspb.INDEXED_VALUE_TYPE_INT,
	contract.AttributeEnding:    enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	contract.AttributeVerdict:   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
}

// options make starting idempotent: a running workflow is left alone, a completed one
// stays completed, and one that failed or was terminated is started again. The new run
// finds out what there is to clean.
func options(ref v1beta1.DisruptionRef) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       contract.WorkflowID(ref),
		TaskQueue:                contract.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		// Without this option a completed workflow looks newly started.
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}
}

// attributes are the search attributes of every workflow at its start, and more.
func attributes(ref v1beta1.DisruptionRef, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more,
		AttributePhase.ValueSet(string(v1beta1.PhasePending)),
		AttributeNamespace.ValueSet(ref.Namespace),
		AttributeStuck.ValueSet(false),
		AttributeTargets.ValueSet(0))...)
}

// disruptionOptions start the workflow of d.
func disruptionOptions(d *v1beta1.Disruption) client.StartWorkflowOptions {
	o := options(d.Ref())
	o.TypedSearchAttributes = attributes(d.Ref(), AttributeKinds.ValueSet(d.Spec.Kinds().Names()))
	o.StaticSummary, o.StaticDetails = summary(d), details(d)
	return o
}

// cleaningOptions start the workflow of a disruption whose object is gone: its spec is
// not known any more.
func cleaningOptions(ref v1beta1.DisruptionRef, completed IfCompleted) client.StartWorkflowOptions {
	o := options(ref)
	if completed == RunAgain {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	o.TypedSearchAttributes = attributes(ref)
	o.StaticSummary = "clean what is left of a disruption that no workflow carries out"
	return o
}
