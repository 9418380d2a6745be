package targets

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/kube"
)

// podLists are lists of the same pods for several disruptions that begin together: of
// each namespace and selector one goes on and one more waits for it, which all share
// that come meanwhile. Each of them came before it began, so it is a live read to all.
type podLists struct {
	mu sync.Mutex
	// waiting have not begun; last was made last, and may be under way.
	waiting, last map[string]*podList
}

// podList is one of them. It is over when done is closed; begun is false for one whose
// maker gave up before it began, which took nothing.
type podList struct {
	takers []func(*corev1.PodList)
	done   chan struct{}
	begun  bool
	err    error
}

// podListPatience bounds one list: who shares it does not end it.
const podListPatience = time.Minute

// eachPage hands take each page of what options select of a namespace's pods. Nobody
// may change the pods.
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

// join is the next list of this key. Who is the first to join makes it, after the one
// before.
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

// lead makes a list as soon as the one before is over and few enough others are under
// way.
func (s *Store) lead(ctx context.Context, key string, list, before *podList, namespace string, options metav1.ListOptions) {
	if before != nil {
		<-before.done
	}
	list.err = s.acquireList(ctx)
	s.lists.mu.Lock()
	delete(s.lists.waiting, key) // who comes from now on wants the next one
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
