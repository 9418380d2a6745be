package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// reconnectGap is the time between two attempts to reach an API server that does not
// answer. Each is up to half longer, so that not all watchers call at once.
const reconnectGap = time.Second

// QuickReconnect lets an informer notice within a second or two that an API server is
// back. A plain informer doubles its wait after each failed call: up to a minute when
// the server crashed several times in a row. For so long it sees no deletion and no
// emergency stop.
func QuickReconnect(lw cache.ListerWatcher) cache.ListerWatcher {
	return quickReconnect{cache.ToListerWatcherWithContext(lw)}
}

type quickReconnect struct{ cache.ListerWatcherWithContext }

func (p quickReconnect) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return retryUntilReachable(ctx, func() (runtime.Object, error) { return p.ListerWatcherWithContext.ListWithContext(ctx, options) })
}

func (p quickReconnect) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return retryUntilReachable(ctx, func() (watch.Interface, error) { return p.ListerWatcherWithContext.WatchWithContext(ctx, options) })
}

// List is for callers without a context, and does not retry.
func (p quickReconnect) List(options metav1.ListOptions) (runtime.Object, error) {
	return p.ListerWatcherWithContext.ListWithContext(context.Background(), options)
}

// Watch is like List.
func (p quickReconnect) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return p.ListerWatcherWithContext.WatchWithContext(context.Background(), options)
}

// retryUntilReachable repeats the call until an API server answers, or ctx ends.
func retryUntilReachable[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		got, err := call()
		if err == nil || answered(err) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(wait.Jitter(reconnectGap, 0.5)):
		}
	}
}

// answered is true for an error that an API server answered, unless it is a 5xx of a
// server that starts or ends.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < 500
}
