// Package deploy holds what a cluster gets. Its tests render the base with
// kubectl and apply it to a real API server, which then says who may do what and
// which pods it lets in. A program that wants to know which rights it was given
// reads them from the manifests here, so that there is no second list.
package deploy

import (
	"bytes"
	_ "embed" // rbac.yaml
	"errors"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed rbac.yaml
var rbac []byte

// Right is one thing that a program may do in the cluster.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace is where, empty for everywhere.
	Namespace string
}

// Rights are what rbac.yaml gives a program through the roles that have its name.
func Rights(program string) ([]Right, error) {
	var rights []Right
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rbac), 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same fields
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return rights, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read rbac.yaml: %w", err)
		}
		if role.Name != program || role.Kind != "ClusterRole" && role.Kind != "Role" {
			continue
		}
		for _, rule := range role.Rules {
			rights = append(rights, rightsOf(rule, role.Namespace)...)
		}
	}
}

func rightsOf(rule rbacv1.PolicyRule, namespace string) []Right {
	var rights []Right
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			resource, subresource, _ := strings.Cut(name, "/")
			for _, verb := range rule.Verbs {
				rights = append(rights, Right{verb, group, resource, subresource, namespace})
			}
		}
	}
	return rights
}

// String says the right as a person would: "create pods in squall-chaos".
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Namespace == "" {
		return text + " everywhere"
	}
	return text + " in " + r.Namespace
}
