// Package queue says how many keys the bridge's controllers work on together
// and how they try again: soon at first, and never so rarely that a Temporal
// that is back stays unnoticed for long.
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
