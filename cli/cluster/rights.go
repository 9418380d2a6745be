package cluster

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Right is an action that a user may or may not do.
type Right = authorizationv1.ResourceAttributes

// Describe writes a right as kubectl auth can-i takes it.
func Describe(r Right) string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace == "" {
		return r.Verb + " " + resource + " in the whole cluster"
	}
	return fmt.Sprintf("%s %s in namespace %s", r.Verb, resource, r.Namespace)
}

// RightsToRun are the rights of a person who runs disruptions in a namespace and stops
// them.
func RightsToRun(namespace string) []Right {
	var rights []Right
	for verb := range strings.FieldsSeq("create get list watch delete") {
		rights = append(rights, Right{Verb: verb, Group: v1beta1.GroupVersion.Group, Resource: "disruptions", Namespace: namespace})
	}
	return rights
}

// Missing returns the rights that the user does not have.
func (c *Client) Missing(ctx context.Context, rights ...Right) ([]string, error) {
	return missingOf(rights, func(r Right) (bool, error) {
		review, err := c.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}}, metav1.CreateOptions{})
		if err != nil {
			return false, c.advise(ctx, err, "", "")
		}
		return review.Status.Allowed, nil
	})
}

// MissingOf returns the rights that another user does not have. The caller needs a right to
// ask; without it the error is Forbidden.
func (c *Client) MissingOf(ctx context.Context, user string, groups []string, rights ...Right) ([]string, error) {
	return missingOf(rights, func(r Right) (bool, error) {
		review, err := c.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &r}}, metav1.CreateOptions{})
		if err != nil {
			return false, c.advise(ctx, err, "", "")
		}
		return review.Status.Allowed, nil
	})
}

// MissingOfProgram is MissingOf of a program of Squall, by its service account in the
// namespace system.
func (c *Client) MissingOfProgram(ctx context.Context, program, system string, rights ...Right) ([]string, error) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"}
	return c.MissingOf(ctx, fmt.Sprintf("system:serviceaccount:%s:%s", system, program), groups, rights...)
}

func missingOf(rights []Right, allowed func(Right) (bool, error)) ([]string, error) {
	var missing []string
	for _, r := range rights {
		may, err := allowed(r)
		if err != nil {
			return nil, err
		}
		if !may {
			missing = append(missing, Describe(r))
		}
	}
	return missing, nil
}
