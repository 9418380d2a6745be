package targets

import (
	"context"
	"errors"
	stdruntime "runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Disruptions that begin while one list runs share the next. That list begins after all
// of them have asked, so each sees a state no older than its call.
func TestListsAreShared(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	}
	clientset := fake.NewClientset(pod("old"))
	answers, asked := make(chan error), make(chan bool, 20)
	clientset.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- true
		err := <-answers
		return err != nil, nil, err
	})
	s := NewStore(clientset, "squall-chaos", nil, 1)
	d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1beta1.DisruptionSpec{Level: v1beta1.LevelPod, Selector: map[string]string{"app": "web"}}}
	var all sync.WaitGroup
	list := func(ctx context.Context, want int, fails bool) {
		all.Go(func() {
			if found, err := s.Healthy(ctx, d); (err != nil) != fails || err == nil && len(found) != want {
				t.Errorf("%d candidates, %v; want %d, failure: %t", len(found), err, want, fails)
			}
		})
	}
	wait := func(n int) { // until n callers wait for the next list
		for there := -1; there != n && t.Context().Err() == nil; {
			s.lists.mu.Lock()
			if next := s.lists.waiting["shop app=web"]; next != nil {
				there = len(next.takers)
			}
			s.lists.mu.Unlock()
			stdruntime.Gosched()
		}
	}
	t.Run("ten that come while one goes on take one more", func(t *testing.T) {
		list(t.Context(), 1, false)
		<-asked
		for range 10 {
			list(t.Context(), 2, false)
		}
		wait(10)
		answers <- nil
		<-asked
		if err := clientset.Tracker().Add(pod("new")); err != nil { // it is not listed yet
			t.Fatal(err)
		}
		answers <- nil
		all.Wait()
	})
	t.Run("who gives up before it begins stops nobody else", func(t *testing.T) {
		for range parallelLists {
			s.listSlots <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		list(ctx, 0, true)
		wait(1)
		list(t.Context(), 2, false)
		wait(2)
		cancel()
		wait(1) // the other caller leads
		for range parallelLists {
			s.releaseList()
		}
		<-asked
		answers <- nil
		all.Wait()
	})
	t.Run("a list that fails fails for all", func(t *testing.T) {
		list(t.Context(), 0, true)
		<-asked
		answers <- errors.New("away")
		all.Wait()
	})
	if len(asked)+len(s.lists.waiting)+len(s.lists.last) != 0 {
		t.Errorf("%d lists too many; kept are %v, %v", len(asked), s.lists.waiting, s.lists.last)
	}
}
