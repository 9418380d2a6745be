// Package deploy holds the manifests for a cluster. Its tests render the base with kubectl
// and apply it to a real API server, which then decides about rights and admits pods. A
// program reads its own rights from the manifests here, so that there is no second list.
package deploy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

//go:embed rbac.yaml components/*/rbac.yaml
var manifests embed.FS

// Right is one thing that a program may do in the cluster.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace limits the right, empty for everywhere.
	Namespace string
	// Name is the single object of the right, empty for all.
	Name string
}

// Rights returns the rights that rbac.yaml gives a program through the roles with its name.
func Rights(program string) ([]Right, error) { return rightsIn("rbac.yaml", program) }

// Component returns the directory that an operator adds to the base for a kind that the
// worker carries out.
func Component(kind v1beta1.Kind) string { return "components/" + string(kind) }

// RightsFor returns the rights that the component of a kind gives the worker.
func RightsFor(kind v1beta1.Kind) ([]Right, error) {
	return rightsIn(Component(kind)+"/rbac.yaml", "squall-"+string(kind))
}

// Narrowed returns the rights of a component that a disruption needs: those to its targets
// in its own namespace, and those to their storage unless that stays.
func Narrowed(rights []Right, d *v1beta1.Disruption) []Right {
	replacement := d.Spec.PodReplacement
	keeps := replacement != nil && replacement.DeleteStorage != nil && !*replacement.DeleteStorage
	var narrowed []Right
	for _, right := range rights {
		claims := right.Resource == "persistentvolumeclaims"
		if claims && keeps {
			continue
		}
		if claims || right.Resource == "pods" {
			right.Namespace = d.Namespace
		}
		narrowed = append(narrowed, right)
	}
	return narrowed
}

// ComponentOfOperations is the directory that an operator adds to the base for disruptions
// that are operations on their targets.
const ComponentOfOperations = "components/pod-operations"

// RightsOfOperations returns the rights that this component gives the worker.
func RightsOfOperations() ([]Right, error) {
	return rightsIn(ComponentOfOperations+"/rbac.yaml", "squall-pod-operations")
}

// ComponentOfOptIn is the directory that an operator adds to the base so that namespaces
// have to agree before they are disrupted.
const ComponentOfOptIn = "components/namespace-opt-in-enforce"

// RightsOfOptIn returns the rights that this component gives the worker.
func RightsOfOptIn() ([]Right, error) {
	return rightsIn(ComponentOfOptIn+"/rbac.yaml", "squall-namespace-opt-in")
}

// rightsIn returns the rights of the roles of that name in a manifest.
func rightsIn(file, role string) ([]Right, error) {
	text, err := manifests.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return rightsOfRoles(text, file, role)
}

func rightsOfRoles(text []byte, file, name string) ([]Right, error) {
	var rights []Right
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same fields
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return rights, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if role.Name != name || role.Kind != "ClusterRole" && role.Kind != "Role" {
			continue
		}
		for _, rule := range role.Rules {
			rights = append(rights, rightsOf(rule, role.Namespace)...)
		}
	}
}

func rightsOf(rule rbacv1.PolicyRule, namespace string) []Right {
	var rights []Right
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			resource, subresource, _ := strings.Cut(name, "/")
			for _, verb := range rule.Verbs {
				for _, object := range names {
					rights = append(rights, Right{verb, group, resource, subresource, namespace, object})
				}
			}
		}
	}
	return rights
}

// String describes the right: "create pods in squall-chaos".
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " named " + r.Name
	}
	if r.Namespace == "" {
		return text + " everywhere"
	}
	return text + " in " + r.Namespace
}
