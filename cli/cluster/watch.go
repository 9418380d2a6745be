package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// ListWatcher receives the objects of a list, and their changes.
type ListWatcher struct {
	// Listed is called once, with the objects that are there.
	Listed func([]Object)
	// Changed is called with each object that is new or has changed after that. A deleted
	// object has its last state.
	Changed func(object Object, gone bool)
	// Away is called when the API server does not answer; the watch retries until the
	// context ends.
	Away func(error)
}

// Follow lists the objects of a namespace, of all with an empty one, and watches them until
// ctx ends. It returns an error of the first list, or Forbidden later.
func (c *Client) Follow(ctx context.Context, r Resource, namespace string, w ListWatcher) error {
	list, err := c.List(ctx, r, namespace)
	if err != nil {
		return err
	}
	w.Listed(list.Items)
	f := followed{c, r, namespace, w, map[types.UID]Object{}}
	for _, object := range list.Items {
		f.known[object.GetUID()] = object
	}
	for {
		err = f.watch(ctx, list.ResourceVersion)
		for first := true; first || err != nil; first = false {
			if err != nil && ctx.Err() == nil {
				w.Away(err)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause(err)):
			}
			if list, err = c.List(ctx, r, namespace); refused(err) {
				return err
			}
		}
		f.compare(list.Items)
	}
}

// followed is a list that is watched. known are its objects as they were last seen.
type followed struct {
	*Client
	Resource
	namespace string
	ListWatcher
	known map[types.UID]Object
}

// watch reports changes until the watch ends, which it does every few minutes.
func (f followed) watch(ctx context.Context, version string) error {
	events, err := f.own.Get().Namespace(f.in(f.namespace)).Resource(f.Name).Param("watch", "true").Param("resourceVersion", version).Watch(ctx)
	if err != nil {
		return f.advise(ctx, err, f.namespace, "")
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, known := event.Object.(Object)
		switch {
		case !known || event.Type == watch.Error:
			return nil
		case event.Type != watch.Bookmark:
			f.see(f.kinded(object), event.Type == watch.Deleted)
		}
	}
	return nil
}

func (f followed) see(object Object, gone bool) {
	f.known[object.GetUID()] = object
	if gone {
		delete(f.known, object.GetUID())
	}
	f.Changed(object, gone)
}

// compare reports changes that happened between two watches.
func (f followed) compare(now []Object) {
	there := map[types.UID]bool{}
	for _, object := range now {
		there[object.GetUID()] = true
		if before := f.known[object.GetUID()]; before == nil || before.GetResourceVersion() != object.GetResourceVersion() {
			f.see(object, false)
		}
	}
	for uid, object := range f.known {
		if !there[uid] {
			f.see(object, true)
		}
	}
}
