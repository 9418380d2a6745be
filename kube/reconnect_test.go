package kube

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// An informer whose API server refused five calls in a row sees it back within a second
// or two. Without QuickReconnect it waits at least 12.8 s then. The clock is the test's
// own, so a busy machine takes no longer.
func TestInformerSeesTheServerComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const refusals = 5
		calls := 0
		back := make(chan time.Time, 1)
		server := watch.NewFake()
		lw := QuickReconnect(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				if options.SendInitialEvents != nil { // as from an older server, so that list and watch are two calls
					return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
				}
				if calls++; calls <= refusals {
					if calls == refusals {
						back <- time.Now()
					}
					return nil, syscall.ECONNREFUSED
				}
				return server, nil
			},
		})
		informer := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		seen := make(chan time.Time, 1)
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { seen <- time.Now() }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		began := <-back
		server.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "2"}})
		if took := (<-seen).Sub(began); took > 2*time.Second {
			t.Errorf("the informer called the server %s after it was back, want 2 s at most", took)
		}
		stop()
		running.Wait()
	})
}

func TestAnswered(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"nobody there", syscall.ECONNREFUSED, false},
		{"cut off", errors.New("http2: client connection lost"), false},
		{"starting or ending", apierrors.NewServiceUnavailable("not ready"), false},
		{"no rights", apierrors.NewForbidden(schema.GroupResource{}, "", nil), true},
		{"too old a version", apierrors.NewResourceExpired("too old"), true},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), true},
	} {
		if got := answered(c.err); got != c.want {
			t.Errorf("%s: answered(%v) = %t, want %t", c.name, c.err, got, c.want)
		}
	}
}

// After the context has ended, it makes no further calls.
func TestRetryingEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lw := QuickReconnect(&cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		cancel()
		return nil, syscall.ECONNREFUSED
	}})
	if _, err := cache.ToListerWatcherWithContext(lw).ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("stopped: %v, want what the last call said", err)
	}
}
