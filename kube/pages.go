package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageSize is how many objects a list returns at once, as in client-go.
const PageSize = 500

// Pages reads the selected objects in pages of options.Limit, or PageSize, and calls
// take with each page, so that only one is in memory. All pages show the moment of the
// first. list is the method List of a client. After an error, take may have received
// some pages.
//
// For few objects, list them at once: before Kubernetes 1.34 the API server reads a
// list with a limit from etcd and not from its cache.
func Pages[List metav1.ListInterface](ctx context.Context, list func(context.Context, metav1.ListOptions) (List, error), options metav1.ListOptions, take func(List)) error {
	if options.Limit == 0 {
		options.Limit = PageSize
	}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return err
		}
		take(page)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
