// Package cluster reads and writes Disruptions and EmergencyStops in a Kubernetes cluster,
// as the user of a kubeconfig. Its errors name the next step for users of squall.
package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Client reaches one cluster.
type Client struct {
	// Namespace is the user's choice.
	Namespace string
	// Config is how the API server is reached.
	Config *rest.Config
	// Kube is a client for Kubernetes' own resources.
	Kube kubernetes.Interface

	own rest.Interface
}

// New returns a client without a call.
func New(config *rest.Config, namespace string) (*Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "squall"
	if config.QPS == 0 {
		config.QPS = -1 // the API server's own priorities and fairness decide
	}
	kube, err := kubernetes.NewForConfig(kube.Protobuf(config))
	if err != nil {
		return nil, fmt.Errorf("read how to reach the cluster: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	resources := rest.CopyConfig(config)
	resources.GroupVersion = &v1beta1.GroupVersion
	resources.APIPath = "/apis"
	resources.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	resources.ContentType = runtime.ContentTypeJSON
	own, err := rest.RESTClientFor(resources)
	if err != nil {
		return nil, fmt.Errorf("read how to reach the cluster: %w", err)
	}
	return &Client{Namespace: namespace, Config: config, Kube: kube, own: own}, nil
}

const (
	disruptions        = "disruptions"
	emergencyStops     = "emergencystops"
	disruptionCrons    = "disruptioncrons"
	disruptionRollouts = "disruptionrollouts"
	scenarios          = "disruptionscenarios"
	disruptionPolicies = "disruptionpolicies"
)

// Disruption reads a Disruption live.
func (c *Client) Disruption(ctx context.Context, namespace, name string) (*v1beta1.Disruption, error) {
	found := &v1beta1.Disruption{}
	err := c.own.Get().Namespace(namespace).Resource(disruptions).Name(name).Do(ctx).Into(found)
	return kinded(found), c.advise(ctx, err, namespace, name)
}

// Disruptions lists those of a namespace; of all with an empty one.
func (c *Client) Disruptions(ctx context.Context, namespace string) (*v1beta1.DisruptionList, error) {
	list := &v1beta1.DisruptionList{}
	err := c.own.Get().Namespace(namespace).Resource(disruptions).Do(ctx).Into(list)
	list.APIVersion, list.Kind = v1beta1.GroupVersion.String(), "DisruptionList"
	for i := range list.Items {
		kinded(&list.Items[i])
	}
	return list, c.advise(ctx, err, namespace, "")
}

// Create makes a disruption. With dryRun the API server runs all of its admission and
// stores nothing. It refuses unknown fields.
func (c *Client) Create(ctx context.Context, d *v1beta1.Disruption, dryRun bool) (*v1beta1.Disruption, error) {
	created := &v1beta1.Disruption{}
	request := c.own.Post().Namespace(d.Namespace).Resource(disruptions).Param("fieldValidation", "Strict").Body(d)
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	err := request.Do(ctx).Into(created)
	return kinded(created), c.advise(ctx, err, d.Namespace, "")
}

// Requester is the requester of what the caller creates; empty if it is unknown.
func (c *Client) Requester(ctx context.Context) v1beta1.Requester {
	me, err := whoAmI(ctx, c)
	if err != nil {
		return v1beta1.Requester{}
	}
	return v1beta1.Requester{User: me.Username, Groups: me.Groups}
}

// whoAmI is the caller, as the API server authenticates the connection.
func whoAmI(ctx context.Context, c *Client) (authenticationv1.UserInfo, error) {
	review, err := c.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// Delete deletes exactly this disruption, and no other of its name.
func (c *Client) Delete(ctx context.Context, ref v1beta1.DisruptionRef) error {
	err := c.own.Delete().Namespace(ref.Namespace).Resource(disruptions).Name(ref.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ref.UID}}).Do(ctx).Error()
	return c.advise(ctx, err, ref.Namespace, ref.Name)
}

// EmergencyStops lists all stops.
func (c *Client) EmergencyStops(ctx context.Context) (*v1beta1.EmergencyStopList, error) {
	list := &v1beta1.EmergencyStopList{}
	err := c.own.Get().Resource(emergencyStops).Do(ctx).Into(list)
	list.APIVersion, list.Kind = v1beta1.GroupVersion.String(), "EmergencyStopList"
	for i := range list.Items {
		list.Items[i].APIVersion, list.Items[i].Kind = list.APIVersion, "EmergencyStop"
	}
	return list, c.advise(ctx, err, "", "")
}

// Repeated is an object that makes disruptions: a DisruptionCron, a DisruptionRollout or a
// DisruptionScenario.
type Repeated struct {
	resource string
	Object
}

// Repeated lists the DisruptionCrons, DisruptionRollouts and DisruptionScenarios of all
// namespaces; none of a kind that an older Squall does not know.
func (c *Client) Repeated(ctx context.Context) ([]Repeated, error) {
	var all []Repeated
	for _, r := range []Resource{Crons, Rollouts, Scenarios} {
		list, err := c.List(ctx, r, "")
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		for _, object := range list.Items {
			all = append(all, Repeated{r.Name, object})
		}
	}
	return all, nil
}

// DeleteRepeated deletes exactly this object.
func (c *Client) DeleteRepeated(ctx context.Context, r Repeated) error {
	uid := r.GetUID()
	err := c.own.Delete().Namespace(r.GetNamespace()).Resource(r.resource).Name(r.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
	return c.advise(ctx, err, r.GetNamespace(), "")
}

// DisruptionPolicies are those of the cluster, by name. forbidden is true when the
// user may not read them.
func (c *Client) DisruptionPolicies(ctx context.Context) (policies []*v1beta1.DisruptionPolicy, forbidden bool, err error) {
	list := &v1beta1.DisruptionPolicyList{}
	err = c.own.Get().Resource(disruptionPolicies).Do(ctx).Into(list)
	if apierrors.IsForbidden(err) {
		return nil, true, nil
	}
	if apierrors.IsNotFound(err) {
		return nil, false, nil // an older Squall
	}
	for i := range list.Items {
		policies = append(policies, &list.Items[i])
	}
	return policies, false, c.advise(ctx, err, "", "")
}

// CreateEmergencyStop stops everything.
func (c *Client) CreateEmergencyStop(ctx context.Context, s *v1beta1.EmergencyStop) error {
	return c.advise(ctx, c.own.Post().Resource(emergencyStops).Body(s).Do(ctx).Error(), "", "")
}

// DeleteEmergencyStop deletes a stop.
func (c *Client) DeleteEmergencyStop(ctx context.Context, name string) error {
	return c.advise(ctx, c.own.Delete().Resource(emergencyStops).Name(name).Do(ctx).Error(), "", "")
}

func (c *Client) watch(ctx context.Context, namespace, resource, name, version string) (watch.Interface, error) {
	return c.own.Get().Namespace(namespace).Resource(resource).Param("watch", "true").
		Param("fieldSelector", "metadata.name="+name).Param("resourceVersion", version).Watch(ctx)
}

// kinded sets the fields that the decoder of single types leaves out.
func kinded(d *v1beta1.Disruption) *v1beta1.Disruption {
	d.APIVersion, d.Kind = v1beta1.GroupVersion.String(), "Disruption"
	return d
}
