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

	"github.com/squall-chaos/squall/api/v1beta1"
)

// right is one thing activities do in the cluster.
type right struct {
	verb, group, resource, subresource string
	// chaos is true when it is done in the chaos namespace only.
	chaos bool
}

// rights are what deploy/rbac.yaml gives the worker and activities use.
var rights = []right{
	{verb: "get", group: v1beta1.GroupVersion.Group, resource: "disruptions"},
	{verb: "patch", group: v1beta1.GroupVersion.Group, resource: "disruptions"},
	{verb: "update", group: v1beta1.GroupVersion.Group, resource: "disruptions", subresource: "status"},
	{verb: "list", group: v1beta1.GroupVersion.Group, resource: "emergencystops"},
	{verb: "get", resource: "pods"},
	{verb: "list", resource: "pods"},
	{verb: "get", resource: "nodes"},
	{verb: "list", resource: "nodes"},
	{verb: "create", resource: "events"},
	{verb: "watch", resource: "pods", chaos: true},
	{verb: "create", resource: "pods", chaos: true},
	{verb: "patch", resource: "pods", chaos: true},
	{verb: "delete", resource: "pods", chaos: true},
	{verb: "get", resource: "pods", subresource: "log", chaos: true},
	{verb: "get", resource: "configmaps", chaos: true},
	{verb: "list", resource: "configmaps", chaos: true},
	{verb: "watch", resource: "configmaps", chaos: true},
	{verb: "create", resource: "configmaps", chaos: true},
	{verb: "update", resource: "configmaps", chaos: true},
	{verb: "delete", resource: "configmaps", chaos: true},
	{verb: "deletecollection", resource: "configmaps", chaos: true},
}

// awaitRights asks the cluster whether the worker may do what it will have to.
// What is forbidden would otherwise show in the middle of a disruption. While
// nobody answers it says so and waits.
func awaitRights(ctx context.Context, kube kubernetes.Interface, chaosNamespace string, logger *zap.Logger) error {
	return patiently(ctx, logger, func() error { return checkRights(ctx, kube, chaosNamespace) }, func(err error) bool {
		return !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) && !errors.Is(err, errForbidden)
	})
}

// errForbidden means that the worker lacks rights in the cluster.
var errForbidden = errors.New("the cluster does not let the worker")

// checkRights names everything that is missing.
func checkRights(ctx context.Context, kube kubernetes.Interface, chaosNamespace string) error {
	var missing []string
	for _, r := range rights {
		namespace := ""
		if r.chaos {
			namespace = chaosNamespace
		}
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the cluster what the worker may do: %w", err)
		}
		if !review.Status.Allowed {
			missing = append(missing, r.in(namespace))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w %s; it needs the rights that deploy/rbac.yaml gives the service account squall-worker: "+
		"kubectl apply -k deploy, and see with kubectl auth can-i --list --as=system:serviceaccount:squall-system:squall-worker -n %s",
		errForbidden, strings.Join(missing, ", "), chaosNamespace)
}

// in says the right as a person would: "create pods in squall-chaos".
func (r right) in(namespace string) string {
	text := r.verb + " " + r.resource
	if r.subresource != "" {
		text += "/" + r.subresource
	}
	if namespace == "" {
		return text + " everywhere"
	}
	return text + " in " + namespace
}
