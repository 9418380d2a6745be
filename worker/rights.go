package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/deploy"
)

// awaitRights asks the cluster whether the worker has the rights that it needs. Otherwise a
// missing right would show up in the middle of a disruption. While the API server does not
// answer, it logs that and waits.
func awaitRights(ctx context.Context, kube kubernetes.Interface, config Config, logger *zap.Logger) error {
	return retryUntilReachable(ctx, logger, func() error { return checkRights(ctx, kube, config) }, func(err error) bool {
		return !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) && !errors.Is(err, errForbidden)
	})
}

// errForbidden means that the worker lacks rights in the cluster.
var errForbidden = errors.New("the cluster does not let the worker")

// checkRights names the missing ones of the rights that deploy grants a worker with these
// settings.
func checkRights(ctx context.Context, kube kubernetes.Interface, config Config) error {
	base := "it needs the rights that deploy/rbac.yaml gives the service account " + config.account() + ": kubectl apply -k deploy"
	if err := checkThese(ctx, kube, config, base, func() ([]deploy.Right, error) { return deploy.Rights(config.account()) }); err != nil {
		return err
	}
	if config.NamespaceOptIn != policy.SwitchEnforce || config.TaskQueues == queuesProbes {
		return nil
	}
	return checkThese(ctx, kube, config,
		"namespace-opt-in=enforce needs deploy/"+deploy.ComponentOfOptIn+" in the kustomization, or namespaceOptIn: enforce in the chart's values", deploy.RightsOfOptIn)
}

// checkThese names the missing ones of these rights, and how to grant them.
func checkThese(ctx context.Context, kube kubernetes.Interface, config Config, hint string, of func() ([]deploy.Right, error)) error {
	rights, err := of()
	if err != nil {
		return err
	}
	var missing []string
	for _, r := range rights {
		if r.Namespace != "" {
			r.Namespace = config.ChaosNamespace // deploy has the default name of the namespace
		}
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the cluster what the worker may do: %w", err)
		}
		if !review.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w %s; %s, and see with kubectl auth can-i --list --as=system:serviceaccount:%s:%s -n %s",
		errForbidden, strings.Join(missing, ", "), hint, config.SystemNamespace, config.account(), config.ChaosNamespace)
}
