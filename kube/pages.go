package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PageSize is how many objects a list brings at once, as in client-go.
const PageSize = 500

// Pages reads all that options select in pages of options.Limit, or PageSize, objects and
// hands each page to take, so that no more than one is in memory. All pages are of the
// moment of the first. list is the method List of a client; after an error of its some
// pages may have been taken.
//
// What is few by its selector is better listed at once: before Kubernetes 1.34 the
// API server reads a list with a limit from etcd and not from its cache.
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
