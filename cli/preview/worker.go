package preview

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/plan"
	"github.com/squall-chaos/squall/deploy"
	"github.com/squall-chaos/squall/kube"
)

// foresee adds to a plan the refusals of the worker that admission does not know: rights
// that the worker lacks, and nodes that share a kernel. A warning names what the user may
// not read.
func foresee(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, known workerSettings, healthy []targets.Candidate, p *plan.Plan) error {
	missing, component, err := lackedByWorker(ctx, client, d, known)
	switch {
	case apierrors.IsForbidden(err):
		p.Warnings = append(p.Warnings, "whether the worker has the rights for it is not known: you may not create subjectaccessreviews")
	case err != nil:
		return err
	case len(missing) > 0:
		p.Refusals = append(p.Refusals, fmt.Sprintf("the worker may not %s; ask the operator of Squall to install deploy/%s", strings.Join(missing, ", nor "), component))
	}
	if d.Spec.NodeFailure == nil {
		return nil
	}
	kernels, err := kube.ReadKernels(ctx, client.Kube)
	if apierrors.IsForbidden(err) {
		p.Warnings = append(p.Warnings, "whether nodes share a kernel is not known: you may not list nodes")
		return nil
	}
	if err != nil {
		return client.Unreachable(err)
	}
	shared, count, first := kernels.Shared(), 0, ""
	for _, c := range healthy {
		if other, found := shared[c.Target.NodeName]; found {
			if count++; count == 1 {
				first = kube.SharedKernel(c.Target.NodeName, other)
			}
		}
	}
	switch {
	case count == 0:
	case count == len(healthy):
		p.Refusals = append(p.Refusals, first)
	default:
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d of %d candidates would not be disrupted: %s", count, len(healthy), first))
	}
	return nil
}

// lackedByWorker are the rights that the worker lacks to carry out a disruption itself, and
// the component that grants them.
func lackedByWorker(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, known workerSettings) (missing []string, component string, err error) {
	if d.Spec.Kinds().By() != v1beta1.ByWorker || d.Spec.DryRun {
		return nil, "", nil
	}
	kind := d.Spec.Kinds()[0] // such a fault stands alone
	rights, err := deploy.RightsFor(kind)
	if err != nil {
		return nil, "", err
	}
	var asked []cluster.Right
	for _, r := range deploy.Narrowed(rights, d) {
		asked = append(asked, cluster.Right{Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource})
	}
	missing, err = client.MissingOfProgram(ctx, "squall-worker", known.system, asked...)
	return missing, deploy.Component(kind), err
}
