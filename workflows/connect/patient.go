package connect

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

// reconnectGap is how often an API server that is away is tried again, and up
// to half more, so that not all watchers come at once.
const reconnectGap = time.Second

// Patient makes an informer notice within a second or two that an API server is
// back. By itself an informer waits twice as long after each call that failed:
// up to a minute when the server crashed some times in a row, and so long it
// sees no deletion and no emergency stop.
func Patient(lw cache.ListerWatcher) cache.ListerWatcher {
	return patient{cache.ToListerWatcherWithContext(lw)}
}

type patient struct{ cache.ListerWatcherWithContext }

func (p patient) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return persist(ctx, func() (runtime.Object, error) { return p.ListerWatcherWithContext.ListWithContext(ctx, options) })
}

func (p patient) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return persist(ctx, func() (watch.Interface, error) { return p.ListerWatcherWithContext.WatchWithContext(ctx, options) })
}

// List is for those who have no context, and as impatient as it always was.
func (p patient) List(options metav1.ListOptions) (runtime.Object, error) {
	return p.ListerWatcherWithContext.ListWithContext(context.Background(), options)
}

// Watch is like List.
func (p patient) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return p.ListerWatcherWithContext.WatchWithContext(context.Background(), options)
}

// persist calls again as long as there is nobody who answers.
func persist[T any](ctx context.Context, call func() (T, error)) (T, error) {
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

// answered is true when an API server said no, and it is not that it is only
// starting or ending.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < 500
}
