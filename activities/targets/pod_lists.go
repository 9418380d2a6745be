package targets

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/kube"
)

// podLists shares lists of the same pods among disruptions that begin together. For
// each namespace and selector one list runs and one more waits for it; all callers that
// arrive meanwhile share the waiting one. Every caller arrived before its list began,
// so the list is a live read for each.
type podLists struct {
	mu sync.Mutex
	// waiting have not begun. last is the newest list of a key, and may be running.
	waiting, last map[string]*podList
}

// podList is one shared list. done closes at its end. begun is false if its leader gave
// up before the list began; then no taker received a page.
type podList struct {
	takers []func(*corev1.PodList)
	done   chan struct{}
	begun  bool
	err    error
}

// podListPatience bounds one list. The context of one caller does not end it.
const podListPatience = time.Minute

// eachPage calls take with each page of the namespace's pods that options select. take
// must not change the pods.
func (s *Store) eachPage(ctx context.Context, namespace string, options metav1.ListOptions, take func(*corev1.PodList)) error {
	key := namespace + " " + options.LabelSelector
	for {
		list, before, ours := s.lists.join(key, take)
		if ours {
			s.lead(ctx, key, list, before, namespace, options)
		}
		<-list.done
		if list.begun || ours {
			return list.err
		}
	}
}

// join returns the next list of this key. The first caller to join leads it, after the
// list before.
func (l *podLists) join(key string, take func(*corev1.PodList)) (list, before *podList, ours bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list = l.waiting[key]
	if ours = list == nil; ours {
		list, before = &podList{done: make(chan struct{})}, l.last[key]
		l.waiting[key], l.last[key] = list, list
	}
	list.takers = append(list.takers, take)
	return list, before, ours
}

// lead runs a list as soon as the list before has ended and acquireList has a slot.
func (s *Store) lead(ctx context.Context, key string, list, before *podList, namespace string, options metav1.ListOptions) {
	if before != nil {
		<-before.done
	}
	list.err = s.acquireList(ctx)
	s.lists.mu.Lock()
	delete(s.lists.waiting, key) // callers that arrive from now on want the next list
	list.begun = list.err == nil
	s.lists.mu.Unlock()
	if list.begun {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), podListPatience)
		list.err = kube.Pages(free, s.Kube.CoreV1().Pods(namespace).List, options, func(page *corev1.PodList) {
			for _, take := range list.takers {
				take(page)
			}
		})
		cancel()
		s.releaseList()
	}
	s.lists.mu.Lock()
	if s.lists.last[key] == list {
		delete(s.lists.last, key)
	}
	s.lists.mu.Unlock()
	close(list.done)
}
