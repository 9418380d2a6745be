package prepare

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/deploy"
)

// missingRights asks the cluster whether the worker may do what the disruption needs from
// it. It returns the missing rights and how to get them. It is empty when no right is
// missing, as for every fault type that an injector carries out.
func (a *Activities) missingRights(ctx context.Context, d *v1beta1.Disruption) (string, error) {
	if d.Spec.ParticipatesInOperations() {
		rights, err := deploy.RightsOfOperations()
		if err != nil {
			return "", err
		}
		return a.missing(ctx, d, rights, "podOpsLifecycle.policy Participate", deploy.ComponentOfOperations)
	}
	if d.Spec.Kinds().By() != v1beta1.ByWorker || d.Spec.DryRun {
		return "", nil
	}
	kind := d.Spec.Kinds()[0] // such a kind stands alone
	rights, err := deploy.RightsFor(kind)
	if err != nil {
		return "", err
	}
	return a.missing(ctx, d, rights, string(kind), deploy.Component(kind))
}

// missing names the missing rights, what needs them, and which component grants them.
func (a *Activities) missing(ctx context.Context, d *v1beta1.Disruption, rights []deploy.Right, what, component string) (string, error) {
	var missing []string
	for _, right := range deploy.Narrowed(rights, d) {
		allowed, err := Allowed(ctx, a.Kube, right)
		if err != nil {
			return "", err
		}
		if !allowed {
			missing = append(missing, right.String())
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the worker may not %s, which %s needs; ask the operator of Squall to install deploy/%s, then create the disruption again",
		strings.Join(missing, ", nor "), what, component), nil
}

// Allowed asks the cluster about one right of the worker.
func Allowed(ctx context.Context, kube kubernetes.Interface, r deploy.Right) (bool, error) {
	review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the cluster what the worker may do: %w", err)
	}
	return review.Status.Allowed, nil
}
