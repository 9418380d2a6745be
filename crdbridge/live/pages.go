// Package live reads lists page by page from the API server, where a cache may be too old.
package live

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/kube"
)

// Pages is kube.Pages for a reader that caches nothing.
func Pages[L any, List interface {
	*L
	client.ObjectList
}](ctx context.Context, reader client.Reader, take func(List), options ...client.ListOption) error {
	list := func(ctx context.Context, page metav1.ListOptions) (List, error) {
		found := List(new(L))
		return found, reader.List(ctx, found, append(options, client.Limit(page.Limit), client.Continue(page.Continue))...)
	}
	return kube.Pages(ctx, list, metav1.ListOptions{}, take)
}
