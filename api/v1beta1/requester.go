package v1beta1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations name the requester of a Disruption, or of an object that makes
// Disruptions. The bridge's webhook writes them, and the API server ensures that users
// write only their own name. The worker copies them to each run.
const (
	// AnnotationRequester is the name of a user, as the API server knows it.
	AnnotationRequester = "chaos.squall.dev/requester" // Disruption and objects that create it: user who created it
	// AnnotationRequesterGroups are the user's groups, one in a line.
	AnnotationRequesterGroups = "chaos.squall.dev/requester-groups" // Disruption and objects that create it: groups of that user, one per line
)

// Requester is the user who created an object. The zero value is unknown.
type Requester struct {
	User   string
	Groups []string
}

// RequesterOf is the requester of an object.
func RequesterOf(o metav1.Object) Requester {
	annotations := o.GetAnnotations()
	r := Requester{User: annotations[AnnotationRequester]}
	if groups := annotations[AnnotationRequesterGroups]; groups != "" {
		r.Groups = strings.Split(groups, "\n")
	}
	return r
}

// Annotations are the annotations from which RequesterOf reads r; none for an unknown
// requester.
func (r Requester) Annotations() map[string]string {
	if r.User == "" {
		return nil
	}
	return map[string]string{AnnotationRequester: r.User, AnnotationRequesterGroups: strings.Join(r.Groups, "\n")}
}

// Among is true when some names the requester or one of its groups.
func (r Requester) Among(some *PolicyRequesters) bool {
	return slices.Contains(some.Users, r.User) || slices.ContainsFunc(r.Groups, func(group string) bool { return slices.Contains(some.Groups, group) })
}
