package kube

import "golang.org/x/sync/errgroup"

// Each calls do with 0 to n-1, parallel calls at a time, and returns the outcome of each:
// one failure stops no other call.
func Each(n, parallel int, do func(i int) error) []error {
	failed := make([]error, n)
	var group errgroup.Group
	group.SetLimit(max(parallel, 1))
	for i := range n {
		group.Go(func() error { failed[i] = do(i); return nil })
	}
	_ = group.Wait() // no function returns an error
	return failed
}
