// Package queue sets how many keys the bridge's controllers work on together and how they
// retry. The first retry comes soon. The longest pause is short enough to notice soon that
// Temporal is back.
package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

const (
	// Workers is how many keys a controller works on together; they wait for
	// Temporal more than they compute.
	Workers = 8
	// FirstRetry is the wait after the first error of a key. It doubles with
	// each error, up to LastRetry.
	FirstRetry = 100 * time.Millisecond
	LastRetry  = 30 * time.Second
)

// Options of a controller whose keys are T.
func Options[T comparable]() controller.TypedOptions[T] {
	return controller.TypedOptions[T]{
		MaxConcurrentReconciles: Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[T](FirstRetry, LastRetry),
	}
}
