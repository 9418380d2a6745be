package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/manifest"
)

// Resource is one of Squall's resources.
type Resource struct {
	// Name is the plural in URLs, and Kind that of one object.
	Name, Kind string
	// ClusterScoped is true if its objects have no namespace.
	ClusterScoped bool

	newList func() runtime.Object
}

// The resources that can be listed.
var (
	Disruptions = Resource{disruptions, "Disruption", false, func() runtime.Object { return &v1beta1.DisruptionList{} }}
	Scenarios   = Resource{scenarios, v1beta1.KindDisruptionScenario, false, func() runtime.Object { return &v1beta1.DisruptionScenarioList{} }}
	Crons       = Resource{disruptionCrons, v1beta1.KindDisruptionCron, false, func() runtime.Object { return &v1beta1.DisruptionCronList{} }}
	Rollouts    = Resource{disruptionRollouts, v1beta1.KindDisruptionRollout, false, func() runtime.Object { return &v1beta1.DisruptionRolloutList{} }}
	Policies    = Resource{disruptionPolicies, "DisruptionPolicy", true, func() runtime.Object { return &v1beta1.DisruptionPolicyList{} }}
)

// Object is an object of such a resource.
type Object interface {
	runtime.Object
	metav1.Object
}

// Objects are the objects of a list. They are written as the API server writes a list.
type Objects struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Object `json:"items"`
}

// List returns the objects of a namespace; of all with an empty one.
func (c *Client) List(ctx context.Context, r Resource, namespace string) (Objects, error) {
	all := Objects{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: r.Kind + "List"}, Items: []Object{}}
	list := r.newList()
	if err := c.own.Get().Namespace(r.in(namespace)).Resource(r.Name).Do(ctx).Into(list); err != nil {
		return all, c.advise(ctx, err, namespace, "")
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return all, err
	}
	for _, item := range items {
		if object, ok := item.(Object); ok {
			all.Items = append(all.Items, r.kinded(object))
		}
	}
	if list, ok := list.(metav1.ListInterface); ok {
		all.ResourceVersion = list.GetResourceVersion()
	}
	return all, nil
}

// in is the namespace of a request.
func (r Resource) in(namespace string) string {
	if r.ClusterScoped {
		return ""
	}
	return namespace
}

// kinded sets the fields that the decoder of single types leaves out.
func (r Resource) kinded(object Object) Object {
	object.GetObjectKind().SetGroupVersionKind(v1beta1.GroupVersion.WithKind(r.Kind))
	return object
}

// Cron reads a DisruptionCron live.
func (c *Client) Cron(ctx context.Context, namespace, name string) (*v1beta1.DisruptionCron, error) {
	found := &v1beta1.DisruptionCron{}
	return found, c.read(ctx, Crons, namespace, name, found)
}

// Rollout reads a DisruptionRollout live.
func (c *Client) Rollout(ctx context.Context, namespace, name string) (*v1beta1.DisruptionRollout, error) {
	found := &v1beta1.DisruptionRollout{}
	return found, c.read(ctx, Rollouts, namespace, name, found)
}

// Policy reads a DisruptionPolicy live. It has no namespace.
func (c *Client) Policy(ctx context.Context, _, name string) (*v1beta1.DisruptionPolicy, error) {
	found := &v1beta1.DisruptionPolicy{}
	return found, c.read(ctx, Policies, "", name, found)
}

func (c *Client) read(ctx context.Context, r Resource, namespace, name string, into Object) error {
	err := c.own.Get().NamespaceIfScoped(namespace, !r.ClusterScoped).Resource(r.Name).Name(name).Do(ctx).Into(into)
	r.kinded(into)
	if apierrors.IsNotFound(err) && !noSuchResource(err) {
		return missing{fmt.Sprintf("there is no %s %q%s%s", r.Kind, name, where(r.in(namespace)), otherOf(ctx, c, r, r.Name, namespace, name))}
	}
	return c.advise(ctx, err, namespace, "")
}

func where(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

// otherOf names the object that was probably meant. kind is the name of the resource in
// squall list.
func otherOf(ctx context.Context, c *Client, r Resource, kind, namespace, name string) string {
	list, err := c.List(ctx, r, namespace)
	if err != nil {
		return ""
	}
	var names []string
	for _, object := range list.Items {
		names = append(names, object.GetName())
	}
	if near := manifest.Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ": squall list " + kind + " -A lists those there are"
}
