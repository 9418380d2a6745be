// Package status is the part that users see: it reads Disruptions, writes their status
// and their conditions, and records events. Functions of plain values decide the
// content of a status. A write never overwrites a concurrent one.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/squall-chaos/squall/activities/memo"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Disruptions reads and writes Disruption objects. Get reads live. A write fails if the
// object has changed since it was read.
type Disruptions struct {
	client rest.Interface
	// written caches the results of some writes, by UID: the next write of a status starts
	// from there and need not read first.
	written *memo.Memo[types.UID, *v1beta1.Disruption]
}

// keptWritten bounds the cache, in bytes of JSON; in memory it is several times as
// large.
const keptWritten = 16 << 20

// NewDisruptions returns a client for the cluster that config names.
func NewDisruptions(config *rest.Config) (*Disruptions, error) {
	client, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	return &Disruptions{client, memo.New[types.UID, *v1beta1.Disruption](keptWritten)}, nil
}

// Client is a plain client for the resources of Squall.
func (c *Disruptions) Client() rest.Interface { return c.client }

// NewClient returns a plain client for the resources of Squall.
func NewClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &v1beta1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", v1beta1.GroupVersion, err)
	}
	return client, nil
}

// Get returns the disruption that ref names. An object of the same name with another
// UID is another disruption and counts as not found.
func (c *Disruptions) Get(ctx context.Context, ref v1beta1.DisruptionRef) (*v1beta1.Disruption, error) {
	found := &v1beta1.Disruption{}
	err := c.client.Get().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Do(ctx).Into(found)
	if err != nil {
		return nil, err
	}
	if found.UID != ref.UID {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: "disruptions"}, ref.Name)
	}
	return found, nil
}

// UpdateStatus calls change to edit the status and writes the result, unless nothing
// changed. On a conflict it reads again and calls change again. A disruption that is
// gone is no error.
func (c *Disruptions) UpdateStatus(ctx context.Context, ref v1beta1.DisruptionRef, change func(*v1beta1.Disruption)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := c.changed(ctx, ref, change)
		if err != nil || live == nil {
			return err
		}
		live.ManagedFields = nil // half of the object; the API server keeps its own
		written := &v1beta1.Disruption{}
		err = c.client.Put().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).
			SubResource("status").Body(live).Do(ctx).Into(written)
		if err == nil {
			c.Remember(written)
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

// Remember lets the next write start from d, which was just read.
func (c *Disruptions) Remember(d *v1beta1.Disruption) {
	if document, err := json.Marshal(d); err == nil {
		c.written.Add(d.UID, d, len(document))
	}
}

// Deleted records that the object is being deleted. It drops the cached copy, whose
// resourceVersion is stale: a write that starts there would be refused.
func (c *Disruptions) Deleted(ref v1beta1.DisruptionRef) {
	if known, found := c.written.Get(ref.UID); found && known.DeletionTimestamp == nil {
		c.written.Remove(ref.UID)
	}
}

// changed returns the disruption with its status changed; nil if there is nothing to
// write. It starts from the cached copy, unless change finds nothing to do there:
// another worker may have written since.
func (c *Disruptions) changed(ctx context.Context, ref v1beta1.DisruptionRef, change func(*v1beta1.Disruption)) (*v1beta1.Disruption, error) {
	if d := c.takeCached(ref); d != nil && changes(d, change) {
		return d, nil
	}
	d, err := c.Get(ctx, ref)
	if err != nil || !changes(d, change) {
		return nil, err
	}
	return d, nil
}

// takeCached removes the cached copy and returns it; nil without one.
func (c *Disruptions) takeCached(ref v1beta1.DisruptionRef) *v1beta1.Disruption {
	known, found := c.written.Get(ref.UID)
	if !found {
		return nil
	}
	c.written.Remove(ref.UID)
	return known
}

// changes reports whether change changes the status.
func changes(d *v1beta1.Disruption, change func(*v1beta1.Disruption)) bool {
	before := d.Status.DeepCopy()
	change(d)
	showReady(d)
	return !equality.Semantic.DeepEqual(before, &d.Status)
}

// RemoveFinalizer removes the disruption's finalizer after first has returned nil. A
// finalizer or an object that is already gone is no error.
func (c *Disruptions) RemoveFinalizer(ctx context.Context, ref v1beta1.DisruptionRef, first func(*v1beta1.Disruption) error) error {
	moved := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }
	err := retry.OnError(retry.DefaultBackoff, moved, func() (err error) {
		live := c.takeCached(ref)
		if live == nil || !slices.Contains(live.Finalizers, v1beta1.DisruptionFinalizer) {
			if live, err = c.Get(ctx, ref); err != nil {
				return err
			}
		}
		patch, found := kube.FinalizerPatchAnyVersion(live, v1beta1.DisruptionFinalizer)
		if !found {
			return nil
		}
		if err := first(live); err != nil {
			return err
		}
		return c.client.Patch(types.JSONPatchType).Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).
			Body(patch).Do(ctx).Error()
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove finalizer of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

// EmergencyStop is the text of the first EmergencyStop, or empty. It reads live and
// consistently.
func (c *Disruptions) EmergencyStop(ctx context.Context) (string, error) {
	return firstStop(ctx, c.client.Get())
}

// CachedEmergencyStop is EmergencyStop from the API server's cache, which may be a
// moment late. A consistent list of a type that no one writes waits until that cache
// knows the store's version. An API server asks for that only every 100 ms: of two such
// lists in a row the second one waits.
func (c *Disruptions) CachedEmergencyStop(ctx context.Context) (string, error) {
	return firstStop(ctx, c.client.Get().Param("resourceVersion", "0"))
}

func firstStop(ctx context.Context, request *rest.Request) (string, error) {
	var list v1beta1.EmergencyStopList
	err := request.Resource("emergencystops").Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) { // not wrapped: the disruption is not gone
		return "", fmt.Errorf("look for an emergency stop: the CustomResourceDefinition of EmergencyStops is missing, apply those of the installed version: %v", err)
	}
	if err != nil {
		return "", fmt.Errorf("look for an emergency stop: %w", err)
	}
	if stop := v1beta1.FirstStop(list.Items); stop != nil {
		return stop.Ending(), nil
	}
	return "", nil
}

// Each reads the Disruptions of all namespaces, in pages.
func (c *Disruptions) Each(ctx context.Context, take func(*v1beta1.Disruption)) error {
	err := kube.Pages(ctx, c.list, metav1.ListOptions{}, func(page *v1beta1.DisruptionList) {
		for i := range page.Items {
			take(&page.Items[i])
		}
	})
	if err != nil {
		return fmt.Errorf("list the disruptions: %w", err)
	}
	return nil
}

func (c *Disruptions) list(ctx context.Context, page metav1.ListOptions) (*v1beta1.DisruptionList, error) {
	found := &v1beta1.DisruptionList{}
	request := c.client.Get().Resource("disruptions").Param("limit", strconv.FormatInt(page.Limit, 10))
	if page.Continue != "" {
		request = request.Param("continue", page.Continue)
	}
	return found, request.Do(ctx).Into(found)
}
