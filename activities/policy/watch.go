package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Watch is a worker's one watch on all policies, so that judging a disruption costs no
// call. It may be a moment behind.
type Watch struct {
	client   rest.Interface
	informer cache.SharedIndexInformer
}

// NewWatch returns a watch that Run starts. client is a client for Squall's own
// resources.
func NewWatch(client rest.Interface) (*Watch, error) {
	all := cache.NewListWatchFromClient(client, "disruptionpolicies", "", fields.Everything())
	w := &Watch{client, cache.NewSharedIndexInformer(kube.QuickReconnect(all), &v1beta1.DisruptionPolicy{}, 0, cache.Indexers{})}
	err := w.informer.SetTransform(func(object any) (any, error) {
		if p, ok := object.(*v1beta1.DisruptionPolicy); ok {
			p.ManagedFields = nil
		}
		return object, nil
	})
	return w, err
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.informer.RunWithContext(ctx) }

// Sync waits for the first list.
func (w *Watch) Sync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		return fmt.Errorf("list the DisruptionPolicies: %w; they need their CRD, which kubectl apply -k deploy installs", context.Cause(ctx))
	}
	return nil
}

// Live reads all policies from the API server, by name. It costs a call.
func (w *Watch) Live(ctx context.Context) ([]*v1beta1.DisruptionPolicy, error) {
	var list v1beta1.DisruptionPolicyList
	if err := w.client.Get().Resource("disruptionpolicies").Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list the DisruptionPolicies: %w", err)
	}
	policies := make([]*v1beta1.DisruptionPolicy, len(list.Items))
	for i := range list.Items {
		policies[i] = &list.Items[i]
	}
	return policies, nil
}

// Policies returns all policies as last seen, by name. They are shared; the caller must
// not change them.
func (w *Watch) Policies() []*v1beta1.DisruptionPolicy {
	objects := w.informer.GetStore().List()
	policies := make([]*v1beta1.DisruptionPolicy, len(objects))
	for i, object := range objects {
		policies[i] = object.(*v1beta1.DisruptionPolicy)
	}
	slices.SortFunc(policies, func(a, b *v1beta1.DisruptionPolicy) int { return strings.Compare(a.Name, b.Name) })
	return policies
}
